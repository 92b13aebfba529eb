#!/bin/sh
# How often a connection is asked for again within SECONDS, where nothing answers.
# usage: unanswered.sh [SECONDS]     (on a machine of the lab)
set -eu
retransmitted() {
	nstat -asz TcpRetransSegs | awk '$1 == "TcpRetransSegs" { print $2 }'
}
ip neigh replace 10.0.0.99 lladdr 02:00:00:00:00:99 dev eth0
before=$(retransmitted)
nc -w "${1:-6}" 10.0.0.99 80 </dev/null || true
echo $(($(retransmitted) - before))
