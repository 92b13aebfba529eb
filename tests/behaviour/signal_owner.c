/* A socket's owner: F_SETOWN, SIGIO for O_ASYNC, SIGURG for urgent data. */
#include "check.h"

static volatile sig_atomic_t hits;

static void on_signal(int sig)
{
	(void)sig;
	hits++;
}

int main(void)
{
	begin();
	signal(SIGIO, on_signal);
	signal(SIGURG, on_signal);
	EACH_FAMILY(family) {
		char buffer[8];
		int p[2];

		title(family_name(family));
		stream_pair(family, p);
		TRY(fcntl(p[1], F_GETOWN));
		TRY(fcntl(p[1], F_SETOWN, getpid()));
		VALUE(fcntl(p[1], F_GETOWN) == getpid());

		title("SIGURG");
		hits = 0;
		TRY(send(p[0], "!", 1, MSG_OOB));
		WAIT(p[1], POLLPRI);
		TRY(recv(p[1], buffer, 1, MSG_OOB));
		VALUE(hits);

		title("SIGIO");
		hits = 0;
		TRY(fcntl(p[1], F_SETFL, O_ASYNC));
		TRY(send(p[0], "io", 2, 0));
		WAIT(p[1], POLLIN);
		TRY(recv(p[1], buffer, 8, 0));
		VALUE(hits > 0);
		close(p[0]);
		close(p[1]);
	}
	return 0;
}
