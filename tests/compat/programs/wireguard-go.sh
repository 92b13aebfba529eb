# wireguard-go: a tunnel between two; ping, large packets, a file by HTTP through it over IPv4 and IPv6, a peer that has moved.
# packages: golang-go wireguard-tools iproute2 iputils-ping curl python3 socat
# listens: tcp/8000
# not in-process: Go, and the programs that use the tunnel would be machines of their own

prepare() {
	export CGO_ENABLED=0 GOFLAGS=-mod=readonly GOCACHE=${XDG_CACHE_HOME:-/tmp/vink-compat-go-$(id -u)}
	# Its control socket is in the current folder, where users may write.
	go build -ldflags '-X golang.zx2c4.com/wireguard/ipc.socketDirectory=.' -o wireguard golang.zx2c4.com/wireguard
	cp "$(command -v ping)" .
	data file 1
	for end in server client; do wg genkey | tee $end.private | wg pubkey >$end.public; done
}

hex() { base64 -d "$1" | od -An -tx1 | tr -d ' \n'; }

# ask NAME LINE...: by the protocol that wg(8) speaks.
ask() { printf '%s\n' "${@:2}" '' | socat -t 5 - "UNIX:$1.sock"; }

# tunnel NAME END OTHER NUMBER LINE...: starts one and gives it its addresses.
tunnel() {
	LOG_LEVEL=error ./wireguard -f "$1" 2>"$1.log" &
	eventually test -S "$1.sock"
	ask "$1" set=1 "private_key=$(hex "$2.private")" listen_port=51820 "public_key=$(hex "$3.public")" \
		allowed_ip=10.8.0.0/24 allowed_ip=fd08::/64 "${@:5}"
	ip address add "10.8.0.$4/24" dev "$1"
	ip address add "fd08::$4/64" dev "$1" nodad
	ip link set "$1" mtu 1420 up
}

server() {
	tunnel wg0 server client 1
	exec python3 -m http.server --bind :: 8000 2>/dev/null
}

client() {
	tunnel wg1 client server 2 "endpoint=$SERVER:51820"
	ping() { ./ping -q "$@" | grep -o '.* received'; }
	ping -c 3 -i 0.1 10.8.0.1
	ping -c 100 -i 0.01 -s 1000 fd08::1
	ping -c 3 -i 0.1 -s 20000 10.8.0.1
	curl -sSf http://10.8.0.1:8000/file 'http://[fd08::1]:8000/file' | sum
	ask wg1 get=1 | grep -E '^(endpoint|allowed_ip|protocol_version|errno)'
	ask wg1 set=1 listen_port=51821 "public_key=$(hex server.public)" "endpoint=[$SERVER6]:51820"
	curl -sSf http://10.8.0.1:8000/file | sum
	kill %1
}
