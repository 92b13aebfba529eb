# An SCTP pair: one-to-one and one-to-many sockets, streams, message boundaries, an orderly end; /proc/net/sctp.
# packages: gcc libc6-dev
# says: listening
# expected: few distributions' kernels have SCTP loaded; what is expected is in tests/compat/programs/sctp/expected

prepare() {
	cc -O1 -Wall -Werror -o pair pair.c
}

server() {
	exec ./pair serve
}

client() {
	./pair send "$SERVER"
	eventually grep -q 'association is down' server.out
	grep -v listening server.out
}
