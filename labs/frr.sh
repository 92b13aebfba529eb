#!/bin/sh
# Runs Debian's FRR on a machine, as any user: zebra, and the daemons named, each with /etc/vink/DAEMON.conf.
# usage: frr.sh DAEMON...       and then: sh -c 'vtysh --vty_socket "$VINK_RUN"'
set -eu
# ospfd wants to be root. It is, among the machine's programs.
[ "$(id -u)" = 0 ] || exec unshare --map-root-user "$0" "$@"

start() { # daemon options...
	daemon=$1
	shift
	/usr/lib/frr/"$daemon" -u root -g root --vty_socket "$VINK_RUN" -i "$VINK_RUN/$daemon.pid" \
		-z "$VINK_RUN/zserv.api" --log file:"$VINK_RUN/$daemon.log" "$@" &
}

trap 'kill $(jobs -p) 2>/dev/null' EXIT
trap exit INT TERM
start zebra -f /dev/null
while [ ! -S "$VINK_RUN/zserv.api" ]; do
	kill -0 $! || exit 1
	sleep 0.05
done
for daemon; do
	start "$daemon" -f "/etc/vink/$daemon.conf"
done
wait
