/* A TCP socket handed over a unix socket, to oneself and to a child. */
#include "handover.h"

int main(void)
{
	char buffer[32] = "";
	int p[2], tcp[2], go[2];

	begin();
	MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, p));
	stream_pair(AF_INET, tcp);
	title("to oneself");
	send_fd(p[0], tcp[0]);
	int got = receive_fd(p[1]);
	TRY(send(got, "from here", 9, MSG_NOSIGNAL));
	TRY(recv(tcp[1], buffer, 32, MSG_DONTWAIT));
	TEXT(buffer);
	close(got);

	title("to a child");
	MUST(pipe(go));
	pid_t pid = child();
	if (!pid) {
		close(tcp[0]);
		close(tcp[1]);
		/* When the parent has said what it has to say. */
		MUST(read(go[0], buffer, 1));
		got = receive_fd(p[1]);
		TRY(send(got, "from the child", 14, MSG_NOSIGNAL));
		fflush(stdout);
		_exit(0);
	}
	send_fd(p[0], tcp[0]);
	MUST(write(go[1], "g", 1));
	join(pid);
	TRY(recv(tcp[1], buffer, 32, MSG_DONTWAIT));
	TEXT(buffer);
	return 0;
}
