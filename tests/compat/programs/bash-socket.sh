# bash by itself: /dev/tcp and /dev/udp, descriptors moved between numbers, refusals.
# packages: python3
# listens: udp/8001 tcp/8000
# short

server() {
	exec python3 server.py
}

client() {
	exec 3<>"/dev/tcp/$SERVER/8000"
	echo hello >&3
	read -r answer <&3
	echo "$answer"
	exec 9>&3 3<&-
	for ((i = 0; i < 1000; i++)); do
		echo "line $i" >&9
		read -r answer <&9
	done
	echo "$answer"
	exec 9>&-
	{ echo hello >"/dev/tcp/$SERVER/9"; } 2>/dev/null || echo refused
	exec 4<>"/dev/udp/$SERVER/8001"
	printf emargatad >&4
	read -r -N 9 answer <&4
	echo "$answer"
}
