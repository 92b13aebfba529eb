# tcpdump writes a capture of a ping and of an HTTP transfer, and reads it, with filters both times.
# packages: tcpdump curl python3 iputils-ping
# listens: tcp/8000
# says: listening on
# not in-process: a server beside it, and packet rings, which are refused there

server() {
	python3 -u -m http.server 8000 &
	exec tcpdump -i eth0 -U -w capture 'icmp or tcp port 8000'
}

client() {
	ping -q -c 3 -i 0.1 "$SERVER" >/dev/null
	data file 1
	curl -sSf "http://$SERVER:8000/file" | sum
	caught() { tcpdump -n -r capture 2>/dev/null; }
	finished() { caught | grep -c "IP $CLIENT.*Flags \[F" >/dev/null; }
	eventually finished
	caught | grep -o 'ICMP echo [a-z]*'
	caught | grep -o 'Flags \[S[^,]*'
	tcpdump -n -r capture 'tcp[tcpflags] & tcp-syn != 0' 2>/dev/null | wc -l
}
