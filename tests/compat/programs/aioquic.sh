# aioquic: HTTP/3 over QUIC; 10 connections at once, a file, uploads, many small requests on one connection.
# packages: python3 python3-pip python3-openssl python3-cryptography python3-certifi openssl
# says: ready

prepare() {
	/usr/bin/python3 -m pip install -q --root-user-action ignore --no-deps --require-hashes --target libraries -r requirements.txt
	openssl req -x509 -newkey rsa:2048 -nodes -keyout key -out cert -days 30 -subj /CN=server -addext subjectAltName=DNS:server 2>/dev/null
	chmod 644 key
	data file 2
}

server() {
	PYTHONPATH=libraries exec /usr/bin/python3 http3.py serve 4433
}

client() {
	PYTHONPATH=libraries /usr/bin/python3 http3.py fetch "$SERVER" 4433
	PYTHONPATH=libraries /usr/bin/python3 http3.py fetch "$SERVER6" 4433
}
