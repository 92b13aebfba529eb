# Node: http server and client, keep-alive, streams, fetch, a cluster of two processes that share the port.
# packages: nodejs
# listens: tcp/8080

prepare() {
	data file 4
}

server() {
	exec node server.js
}

client() {
	node client.js "$SERVER" | sort | uniq -c
}
