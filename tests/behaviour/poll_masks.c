/* Signals that are pending when pselect or ppoll lets them in, over a busy stream. */
#include "check.h"
#include <sys/select.h>

static int ends[2], handled;

static void tell(int fd)
{
	MUST(send(fd, "tell", 4, 0));
}

static void hear(int fd)
{
	char bytes[64];

	MUST(recv(fd, bytes, sizeof(bytes), 0));
}

static void handle(int signal)
{
	(void)signal;
	handled++;
}

static fd_set *one(int fd)
{
	static fd_set set;

	FD_ZERO(&set);
	FD_SET(fd, &set);
	return &set;
}

static void look(void)
{
	struct timespec zero = { 0 }, some = { 2, 0 };
	const struct timespec *limits[] = { &zero, &some, NULL };
	struct pollfd p = { ends[1], POLLIN, 0 };
	sigset_t none;

	sigemptyset(&none);
	for (int k = 0; k < 3; k++) {
		handled = 0;
		raise(SIGUSR1);
		VALUE(pselect(ends[1] + 1, one(ends[1]), NULL, NULL, &zero, NULL));
		VALUE(poll(&p, 1, 20));
		VALUE(handled);
		TRY(pselect(ends[1] + 1, one(ends[1]), NULL, NULL, limits[k], &none));
		VALUE(handled);
		raise(SIGUSR1);
		TRY(ppoll(&p, 1, limits[k], &none));
		VALUE(handled);
	}
	/* What is ready comes first. */
	tell(ends[0]);
	raise(SIGUSR1);
	VALUE(pselect(ends[1] + 1, one(ends[1]), NULL, NULL, &some, &none));
	VALUE(ppoll(&p, 1, &zero, &none));
	hear(ends[1]);
	VALUE(handled);
	TRY(ppoll(&p, 1, &zero, &none));
	VALUE(handled);
}

int main(void)
{
	struct sigaction action = { .sa_handler = handle, .sa_flags = SA_RESTART };
	sigset_t blocked;

	begin();
	stream_pair(AF_INET, ends);
	set_int(ends[0], IPPROTO_TCP, TCP_NODELAY, 1);
	MUST(sigaction(SIGUSR1, &action, NULL));
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR1);
	MUST(sigprocmask(SIG_BLOCK, &blocked, NULL));
	for (int i = 0; i < 3; i++) {
		look();
		/* Until whatever has shortcuts takes them. */
		for (int k = 0; k < 20; k++) {
			tell(ends[0]);
			MUST(poll(&(struct pollfd){ ends[1], POLLIN, 0 }, 1, -1));
			hear(ends[1]);
		}
	}
	return 0;
}
