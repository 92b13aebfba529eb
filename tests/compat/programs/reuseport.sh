# Four processes that share a port by SO_REUSEPORT: all of them get connections, and one's end does not stop the others.
# packages: python3
# listens: tcp/7000
# says: 4 listen
# not in-process: four processes share a port
# short

server() {
	exec python3 server.py
}

client() {
	python3 client.py
}
