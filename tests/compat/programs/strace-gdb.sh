# strace -f of a shell that forks curl, and gdb in batch mode on a program that is in a call.
# packages: strace gdb curl python3 gcc libc6-dev
# listens: tcp/8000
# says: HTTP
# not in-process: there are no system calls for strace to show
# not repeated: a tracer runs beside the programs that it traces, outside the run queue

prepare() {
	cat >talk.c <<-'END'
		#include <arpa/inet.h>
		#include <stdio.h>
		#include <stdlib.h>
		#include <sys/socket.h>
		#include <unistd.h>
		char answer[16];
		int talk(int fd) { return write(fd, "GET / HTTP/1.0\r\n\r\n", 18) == 18 ? read(fd, answer, 15) : -1; }
		int main(int argc, char **argv)
		{
			struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(8000) };
			int fd = socket(AF_INET, SOCK_STREAM, 0);
			inet_pton(AF_INET, getenv("SERVER"), &a.sin_addr);
			return connect(fd, (void *)&a, sizeof(a)) || talk(fd) != 15;
		}
	END
	gcc -g -O0 -w -o talk talk.c
	data file 1
}

server() {
	exec python3 -u -m http.server 8000
}

client() {
	strace -f -o trace -e trace=socket,connect,sendto,recvfrom \
		bash -c 'curl -sSf "http://$SERVER:8000/file" | sha256sum; curl -sS -o /dev/null "http://$SERVER:9/" || echo "status $?"'
	grep -oE "connect\(.*sin_port=htons\(8000\).*" trace | sed 's/connect([0-9]*/connect(N/'
	grep -cE 'sendto\(.*"GET /file' trace
	gdb -q -batch -ex 'break talk' -ex run -ex 'print fd >= 3' -ex finish -ex 'print answer' -ex continue ./talk 2>&1 |
		grep -E '^\$|^Run till|^Value|exited' | sed 's/process [0-9]*/process N/'
	strace -f -e trace=%network -e inject=connect:error=ENETUNREACH -o inject ./talk || echo "injected: $?"
}
