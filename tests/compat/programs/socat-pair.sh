# socat at both ends: a file through a program that the other one starts.
# packages: socat
# listens: tcp/7000
# short

prepare() {
	data file 3
}

server() {
	socat -t 20 TCP-LISTEN:7000,reuseaddr EXEC:sha256sum
	exec sleep 100
}

client() {
	socat -t 20 - "TCP:$SERVER:7000" <file
}
