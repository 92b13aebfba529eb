# openssl s_server and s_client: TLS 1.3 and 1.2, one connection after the other.
# packages: openssl
# listens: tcp/4433
# short

prepare() {
	data file 4
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=server \
		-keyout key.pem -out cert.pem 2>/dev/null
}

server() {
	exec openssl s_server -quiet -accept 4433 -cert cert.pem -key key.pem -WWW
}

client() {
	for version in -tls1_3 -tls1_2 -tls1_3; do
		printf 'GET /file HTTP/1.0\r\n\r\n' |
			openssl s_client -quiet -CAfile cert.pem -verify_return_error -connect "$SERVER:4433" $version 2>/dev/null |
			tail -c 4000000 | sum
	done
}
