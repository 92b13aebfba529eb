/* A signal just when a call is made: calls that wait for nothing know no EINTR, whatever the handler's flags. */
#include "check.h"
#include <sys/stat.h>

enum { SIGNALS = 100 };

static volatile sig_atomic_t hits;

static void on_alarm(int sig)
{
	(void)sig;
	hits++;
}

/* A millisecond from the last one, and not from its time: a slow machine must get on, too. */
static void again(void)
{
	struct itimerval soon = { { 0, 0 }, { 0, 1000 } };

	setitimer(ITIMER_REAL, &soon, NULL);
}

/* Makes the call until there have been enough signals, and counts how often it has failed, and how often by EINTR. */
#define UNDER_SIGNALS(call)                                                    \
	do {                                                                   \
		long failed_ = 0, eintr_ = 0;                                  \
		int before_ = hits = 0;                                        \
		again();                                                       \
		while (hits < SIGNALS) {                                       \
			if ((call) < 0) {                                      \
				failed_++;                                     \
				eintr_ += errno == EINTR;                      \
			}                                                      \
			if (hits != before_) {                                 \
				before_ = hits;                                \
				/* None is left for what follows. */           \
				if (before_ < SIGNALS)                         \
					again();                               \
			}                                                      \
		}                                                              \
		printf("%s: failed %ld times, %ld by EINTR\n", #call, failed_, \
		       eintr_);                                                \
	} while (0)

/* Prints what becomes of a call that waits, under signals each 20 ms: the first may come before it is made. */
#define WAITS(call)                                                            \
	do {                                                                   \
		struct itimerval often = { { 0, 20000 }, { 0, 20000 } };       \
		struct itimerval never = { 0 };                                \
		setitimer(ITIMER_REAL, &often, NULL);                          \
		long result_ = (call);                                         \
		int error_ = errno;                                            \
		setitimer(ITIMER_REAL, &never, NULL);                          \
		errno = error_;                                                \
		report(#call, result_);                                        \
	} while (0)

int main(void)
{
	struct sigaction sa = { .sa_handler = on_alarm };
	struct sockaddr_storage name;
	socklen_t length = sizeof(name);
	struct stat st;
	char path[] = "/tmp/vink-signals-XXXXXX";
	int one = 1;

	begin();
	int s = socket(AF_INET, SOCK_STREAM, 0);
	int f = MUST(mkstemp(path));
	MUST(sigaction(SIGALRM, &sa, NULL));
	UNDER_SIGNALS(getsockname(s, (void *)&name, &length));
	UNDER_SIGNALS(setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)));
	UNDER_SIGNALS(fcntl(s, F_GETFL));
	UNDER_SIGNALS(ioctl(s, FIONREAD, &one));
	UNDER_SIGNALS(write(f, path, 1));
	UNDER_SIGNALS(fstat(f, &st));
	UNDER_SIGNALS(stat(path, &st));
	/* Each is closed, so that there is always a number for the next one. */
	UNDER_SIGNALS(close(dup(s)));
	UNDER_SIGNALS(close(open(path, O_RDONLY)));
	UNDER_SIGNALS(close(socket(AF_INET6, SOCK_DGRAM, 0)));
	VALUE(dup(s) == f + 1);
	unlink(path);
	/* What waits is interrupted. */
	int p[2];
	char byte;
	stream_pair(AF_INET, p);
	WAITS(recv(p[1], &byte, 1, 0));
	MUST(pipe(p));
	WAITS(read(p[0], &byte, 1));
	MUST(mkfifo(path, 0600));
	WAITS(open(path, O_RDONLY));
	unlink(path);
	return 0;
}
