# openssl s_server and s_client, and stunnel in front of a plain server: TLS 1.3 and 1.2, several at once.
# packages: openssl stunnel4 socat
# listens: tcp/4433 tcp/4434 tcp/7000
# not in-process: three servers at once; see openssl-pair

prepare() {
	data file 4
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=server \
		-keyout key.pem -out cert.pem 2>/dev/null
	cat key.pem cert.pem >both.pem
}

server() {
	cat >stunnel.conf <<-END
		foreground = yes
		pid =
		cert = both.pem
		[tls]
		accept = 4434
		connect = 127.0.0.1:7000
	END
	socat -t 20 TCP-LISTEN:7000,fork,reuseaddr EXEC:'cat file' &
	openssl s_server -quiet -accept 4433 -cert cert.pem -key key.pem -WWW &
	exec stunnel stunnel.conf
}

client() {
	tls() { openssl s_client -quiet -CAfile cert.pem -verify_return_error -connect "$@" 2>/dev/null; }
	for _ in 1 2 3; do
		printf 'GET /file HTTP/1.0\r\n\r\n' | tls "$SERVER:4433" | tail -c 4000000 | sum
	done
	printf 'GET /file HTTP/1.0\r\n\r\n' | tls "$SERVER:4433" -tls1_2 | tail -c 4000000 | sum
	for _ in 1 2 3 4; do
		socat -u "OPENSSL:$SERVER:4434,cafile=cert.pem,commonname=server" - | sum &
	done
	wait
}
