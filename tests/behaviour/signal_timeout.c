/* A call with a time-out is not restarted after a signal, SA_RESTART or not. */
#include "check.h"

static volatile sig_atomic_t hits;

/* Stops after fifty, so that a call that is restarted runs into its time-out. */
static void on_alarm(int sig)
{
	struct itimerval never = { 0 };

	(void)sig;
	if (++hits == 50)
		setitimer(ITIMER_REAL, &never, NULL);
}

int main(void)
{
	struct sigaction sa = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
	struct itimerval often = { { 0, 20000 }, { 0, 20000 } };
	struct timeval t = { 2, 0 };

	begin();
	EACH_FAMILY(family) {
		char byte;
		int p[2];

		title(family_name(family));
		stream_pair(family, p);
		int l = listener(family);
		sigaction(SIGALRM, &sa, NULL);
		MUST(setsockopt(p[1], SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)));
		MUST(setsockopt(l, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)));
		hits = 0;
		setitimer(ITIMER_REAL, &often, NULL);
		TRY(recv(p[1], &byte, 1, 0));
		TRY(accept(l, NULL, NULL));
		limit_life(); /* stops the signals as well */
		signal(SIGALRM, SIG_DFL);
		close(p[0]);
		close(p[1]);
		close(l);
	}
	return 0;
}
