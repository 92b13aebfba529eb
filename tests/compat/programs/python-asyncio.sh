# Python's asyncio: 100 streams at once, datagrams, and threads that block, on one event loop.
# packages: python3
# listens: tcp/8000 udp/8001
# short

server() {
	exec python3 server.py
}

client() {
	python3 client.py
}
