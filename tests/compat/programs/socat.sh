# socat: a program per connection, on a socket and on a terminal; a relay between TCP and a unix socket.
# packages: socat
# listens: tcp/7000 tcp/7002 tcp/7003 tcp/7004 tcp/7005
# not in-process: it forks for each connection; see socat-pair
# short

prepare() {
	data file 3
	echo 'test -t 0 && test -t 1 && echo a terminal' >terminal.sh
}

server() {
	socat -t 20 TCP-LISTEN:7000,fork,reuseaddr EXEC:sha256sum &
	socat -t 20 TCP-LISTEN:7002,fork,reuseaddr SYSTEM:'cat; echo end' &
	socat -t 20 TCP-LISTEN:7003,fork,reuseaddr EXEC:'bash terminal.sh',pty,setsid,ctty &
	socat -t 20 UNIX-LISTEN:relay,fork TCP:127.0.0.1:7002 &
	socat -t 20 TCP6-LISTEN:7005,ipv6only,fork,reuseaddr EXEC:cat &
	exec socat -t 20 TCP-LISTEN:7004,fork,reuseaddr UNIX-CONNECT:relay
}

client() {
	for _ in 1 2 3 4 5; do
		socat -t 20 - "TCP:$SERVER:7000" <file &
	done
	wait
	socat -t 20 - "TCP:$SERVER:7002" <file | sum
	socat -t 20 - "TCP:$SERVER:7003" </dev/null
	socat -t 20 - "TCP:$SERVER:7004" <file | sum
	socat -t 20 - "TCP6:[$SERVER6]:7005" <file | sum
}
