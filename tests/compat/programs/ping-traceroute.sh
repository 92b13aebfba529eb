# ping over IPv4 and IPv6 (sizes, fragments, 200 in a row, no answer) and traceroute with UDP, ICMP and TCP.
# packages: iputils-ping traceroute python3
# says: here
# short

# A copy, without the file's capabilities: its caller has them.
prepare() {
	cp "$(command -v ping)" .
}

# Is there, as the machine itself is when it's not a program's own.
server() {
	exec python3 -c 'import signal, socket; socket.socket(); print("here", flush=True); signal.pause()'
}

client() {
	ping() { ./ping "$@"; }
	clean() { sed -E 's/time[=<]?.*//; s/-?[0-9.]+ ms//g; /^rtt|^$/d; s/from .*icmp_seq/icmp_seq/'; }
	ping -c 3 -i 0.1 "$SERVER" | clean
	ping -c 3 -i 0.1 "$SERVER6" | clean
	ping -c 2 -i 0.1 -s 20000 "$SERVER" | clean
	ping -c 1 -s 1472 -M do "$SERVER" | clean
	ping -c 1 -s 1473 -M do "$SERVER" 2>&1 | clean || echo "status $?"
	ping -q -i 0.002 -c 200 "$SERVER" | clean
	ping -c 1 -W 0.2 10.0.0.99 | clean || echo "status $?"
	ping -c 1 10.99.0.1 2>&1 || echo "status $?"
	ping -c 1 localhost | clean
	# Without -w, it gives up what takes a few times as long as the first answer: 0.4 ms here.
	traceroute() { command traceroute -n -w 5,0,0 "$@"; }
	traceroute "$SERVER" | clean
	traceroute -6 "$SERVER6" | clean
	traceroute -I "$SERVER" | clean
	traceroute -T -p 80 "$SERVER" | clean
}
