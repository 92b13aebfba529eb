# OpenVPN: a server and a client with TLS over UDP and over TCP; ping and a file by HTTP through the tunnel.
# packages: openvpn openssl iproute2 iputils-ping curl python3
# listens: tcp/8000 udp/1194 tcp/1194
# not in-process: the programs that use the tunnel would be machines of their own

prepare() {
	cp "$(command -v ping)" .
	data file 1
	for end in server client; do
		openssl req -x509 -newkey rsa:2048 -nodes -keyout $end.key -out $end.cert -days 30 -subj /CN=$end 2>/dev/null
		chmod 644 $end.key
	done
}

# tunnel END OTHER...: options that both have.
tunnel() {
	openvpn --dev tun --ca "$2.cert" --cert "$1.cert" --key "$1.key" --data-ciphers AES-256-GCM --verb 3 --tmp-dir . \
		--connect-retry 1 1 --ping 1 --ping-restart 20 "${@:3}"
}

server() {
	for port in udp tcp-server; do
		test $port = udp && net=10.8.0 || net=10.9.0
		tunnel server client --tls-server --dh none --proto $port --port 1194 --ifconfig $net.1 $net.2 &
	done
	python3 -m http.server 8000 2>/dev/null >&2
}

client() {
	for proto in udp tcp-client; do
		test $proto = udp && net=10.8.0 || net=10.9.0
		tunnel client server --tls-client --proto $proto --remote "$SERVER" 1194 --ifconfig $net.2 $net.1 >$proto.log &
		eventually grep -q 'Initialization Sequence Completed' $proto.log
		eventually ./ping -q -c 1 -W 1 $net.1 >first
		./ping -q -i 0.01 -c 100 $net.1 | grep -o '.* received'
		./ping -q -c 2 -i 0.1 -s 5000 $net.1 | grep -o '.* received'
		curl -sSf "http://$net.1:8000/file" | sum
		ip -o -4 address show dev "$(ip -o route get $net.1 | sed 's/.* dev \([^ ]*\).*/\1/')" | grep -o 'inet.*scope'
	done
	kill %1 %2
	wait || true
	grep -c 'Data Channel.*AES-256-GCM' udp.log tcp-client.log
}
