# uvicorn on uvloop: an ASGI application; curl, a streamed answer, uploads, 50 clients at once on uvloop, WebSockets.
# packages: python3-uvicorn python3-uvloop python3-httptools python3-websockets curl
# listens: tcp/8000

prepare() {
	data file 3
}

server() {
	exec /usr/bin/python3 -m uvicorn --host 0.0.0.0 --port 8000 --loop uvloop --http httptools --ws websockets --no-access-log app:app
}

client() {
	url=http://$SERVER:8000
	curl -sSf "$url/numbers" | sum
	curl -sSf --data-binary @file "$url/echo" | sum
	curl -sSfZ "$url/[1-20]" -o 'got-#1' && cat got-* | sort | sum
	curl -sS -o /dev/null -w '%{http_code}\n' "$url/fail"
	/usr/bin/python3 client.py "$SERVER" 8000
}
