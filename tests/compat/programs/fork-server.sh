# A server that forks for each connection, and clients that fork: 200 connections, children reaped on SIGCHLD.
# packages: gcc libc6-dev
# listens: tcp/7000
# not in-process: it forks for each connection
# short

prepare() {
	cc -O1 -Wall -Werror -o fork-server fork-server.c
}

server() {
	exec ./fork-server serve 7000
}

client() {
	./fork-server ask "$SERVER" 7000 200 | sort -n
}
