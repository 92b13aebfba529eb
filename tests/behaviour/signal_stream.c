/* A stream under signals at random moments: no byte is lost or comes twice. */
#include "check.h"
#include <pthread.h>

enum { MESSAGES = 1500, HITS = 5 };

static volatile sig_atomic_t hits;
static volatile sig_atomic_t over;

static void on_signal(int sig)
{
	(void)sig;
	hits++;
}

/* The stream's byte at a position. */
static unsigned char byte_at(size_t position)
{
	return (position * 2654435761u) >> 24;
}

static unsigned next(unsigned *seed)
{
	return (*seed = *seed * 1103515245 + 12345) >> 16;
}

static void *writer(void *arg)
{
	int fd = *(int *)arg;
	unsigned char buffer[256];
	unsigned seed = 1;
	size_t position = 0;

	/* On a busy machine signals may come late. */
	for (int i = 0; i < MESSAGES || hits <= HITS; i++) {
		size_t len = 1 + next(&seed) % sizeof(buffer), sent = 0;

		for (size_t k = 0; k < len; k++)
			buffer[k] = byte_at(position + k);
		while (sent < len) {
			ssize_t n = send(fd, buffer + sent, len - sent, 0);
			if (n < 0 && errno != EINTR)
				exit(3);
			sent += n < 0 ? 0 : n;
		}
		position += len;
		/* Often the reader waits, sometimes it does not. */
		if (next(&seed) % 3)
			usleep(next(&seed) % 300);
	}
	while (shutdown(fd, SHUT_WR) < 0 && errno == EINTR)
		;
	return (void *)position;
}

struct pest {
	pthread_t targets[2];
	unsigned pause;
};

static void *pester(void *arg)
{
	struct pest *p = arg;

	for (unsigned i = 0; !over; i++) {
		usleep(p->pause);
		pthread_kill(p->targets[i % 2], SIGALRM);
	}
	return NULL;
}

static void run(int family, int flags, unsigned pause, int by_timer)
{
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = flags };
	struct itimerval t = { { 0, pause }, { 0, pause } }, off = { 0 };
	unsigned char buffer[300];
	size_t position = 0, wrong = 0;
	unsigned seed = 2;
	pthread_t thread, pest_thread;
	sigset_t set;
	void *sent;
	int p[2];

	printf("%s, a signal each %u us %s\n",
	       flags ? "SA_RESTART" : "no SA_RESTART", pause,
	       by_timer ? "by setitimer()" : "by pthread_kill()");
	stream_pair(family, p);
	sigaction(SIGALRM, &sa, NULL);
	hits = over = 0;
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	pthread_sigmask(by_timer ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL);
	pthread_create(&thread, NULL, writer, &p[0]);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	struct pest pest = { { pthread_self(), thread }, pause };
	if (by_timer)
		setitimer(ITIMER_REAL, &t, NULL);
	else
		pthread_create(&pest_thread, NULL, pester, &pest);
	for (;;) {
		ssize_t n = recv(p[1], buffer, 1 + next(&seed) % sizeof(buffer),
				 next(&seed) % 4 ? 0 : MSG_WAITALL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		for (ssize_t k = 0; k < n; k++)
			wrong += buffer[k] != byte_at(position + k);
		position += n;
	}
	over = 1;
	setitimer(ITIMER_REAL, &off, NULL);
	if (!by_timer)
		pthread_join(pest_thread, NULL);
	pthread_join(thread, &sent);
	VALUE(wrong);
	VALUE(position == (size_t)sent);
	VALUE(hits > HITS);
	close(p[0]);
	close(p[1]);
	signal(SIGALRM, SIG_DFL);
	limit_life();
}

int main(void)
{
	begin();
	for (int i = 0; i < 8; i++)
		run(AF_INET, i & 1 ? SA_RESTART : 0, i & 2 ? 1000 : 5000, i & 4);
	return 0;
}
