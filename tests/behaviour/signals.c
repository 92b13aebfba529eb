/* Signals at blocked calls: EINTR, or with SA_RESTART no sign of them. */
#include "check.h"

static volatile sig_atomic_t hits;
static int third[2] = { -1, -1 }; /* a pipe that tells of the third signal */

static void on_signal(int sig)
{
	(void)sig;
	if (++hits == 3 && third[1] >= 0 && write(third[1], "3", 1) < 0)
		abort();
}

static void handle(int sig, int flags)
{
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = flags };

	sigaction(sig, &sa, NULL);
	hits = 0;
}

/* SIGALRM every 20 ms, so that none comes too early to be noticed. */
static void ticking(int on)
{
	struct itimerval t = { { 0, on ? 20000 : 0 }, { 0, on ? 20000 : 0 } };

	setitimer(ITIMER_REAL, &t, NULL);
}

int main(void)
{
	char buffer[8];
	int p[2];

	begin();
	EACH_FAMILY(family) {
		title(family_name(family));
		stream_pair(family, p);
		int l = listener(family);
		handle(SIGALRM, 0);
		ticking(1);
		TRY(recv(p[1], buffer, 8, 0));
		TRY(read(p[1], buffer, 8));
		TRY(accept(l, NULL, NULL));
		struct pollfd wait = { p[1], POLLIN, 0 };
		TRY(poll(&wait, 1, -1));
		ticking(0);
		VALUE(hits > 0);

		title("restarted");
		MUST(pipe(third));
		pid_t pid = child();
		handle(SIGALRM, SA_RESTART);
		if (!pid) {
			read(third[0], buffer, 1);
			send(p[0], "late", 4, 0);
			_exit(0);
		}
		ticking(1);
		TRY(recv(p[1], buffer, 8, 0));
		ticking(0);
		VALUE(hits >= 3);
		join(pid);
		close(third[0]);
		close(third[1]);
		third[1] = -1;

		limit_life();
		close(l);
		close(p[0]);
		close(p[1]);
	}
	return 0;
}
