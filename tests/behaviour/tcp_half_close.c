/* shutdown(): one direction ends while the other goes on. */
#include "check.h"

static volatile sig_atomic_t pipes;

static void on_pipe(int sig)
{
	(void)sig;
	pipes++;
}

int main(void)
{
	begin();
	signal(SIGPIPE, on_pipe);
	EACH_FAMILY(family) {
		int p[2];
		char buffer[16];

		title(family_name(family));
		pipes = 0;
		stream_pair(family, p);
		TRY(shutdown(p[0], SHUT_WR));
		WAIT(p[1], POLLRDHUP);
		EVENTS(p[1]);
		EVENTS(p[0]);
		TRY(recv(p[1], buffer, 16, 0));
		TRY(send(p[1], "still", 5, 0));
		TRY(recv(p[0], buffer, 16, 0));
		TRY(send(p[0], "x", 1, MSG_NOSIGNAL));
		VALUE(pipes);
		TRY(send(p[0], "x", 1, 0));
		VALUE(pipes);
		TRY(write(p[0], "x", 1));
		VALUE(pipes);
		TRY(shutdown(p[0], SHUT_WR));
		TRY(shutdown(p[1], SHUT_WR));
		WAIT(p[0], POLLHUP);
		EVENTS(p[0]);
		TRY(recv(p[0], buffer, 16, 0));
		TRY(shutdown(p[0], SHUT_RDWR));
		TRY(shutdown(p[0], 3));
		close(p[0]);
		close(p[1]);

		title("SHUT_RD");
		stream_pair(family, p);
		TRY(send(p[1], "before", 6, 0));
		WAIT(p[0], POLLIN);
		TRY(shutdown(p[0], SHUT_RD));
		EVENTS(p[0]);
		TRY(recv(p[0], buffer, 16, 0));
		TRY(recv(p[0], buffer, 16, 0));
		TRY(send(p[0], "x", 1, 0));
		TRY(recv(p[1], buffer, 16, 0));
		close(p[0]);
		close(p[1]);
	}
	return 0;
}
