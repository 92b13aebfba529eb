/* What is added to an epoll instance while another thread waits there: sockets, files of the host, by a second number. */
#include "check.h"
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

static int ep, found;
static uint64_t tag;

static void *waits(void *masked)
{
	struct epoll_event e = {};
	sigset_t none;

	sigemptyset(&none);
	found = epoll_pwait(ep, &e, 1, 20000, masked ? &none : NULL);
	tag = e.data.u64;
	return NULL;
}

/* Has another thread wait; most probably that has begun when this returns, and what it finds is the same if not. */
static pthread_t begin_waiting(int masked)
{
	pthread_t t;

	MUST(-pthread_create(&t, NULL, waits, masked ? &masked : NULL));
	usleep(20000);
	return t;
}

static void ended(pthread_t t)
{
	MUST(-pthread_join(t, NULL));
	printf("%d ready: %lu\n", found, tag);
}

static void add(int number, int fd, uint32_t events, uint64_t data)
{
	struct epoll_event e = { .events = events, .data.u64 = data };

	TRY(epoll_ctl(number, EPOLL_CTL_ADD, fd, &e));
}

/* An instance with an eventfd of the host's, as event loops have it, and another number of it. */
static int make(int *event)
{
	ep = MUST(epoll_create1(EPOLL_CLOEXEC));
	*event = MUST(eventfd(0, EFD_NONBLOCK));
	add(ep, *event, EPOLLIN | EPOLLET, 1);
	return MUST(fcntl(ep, F_DUPFD_CLOEXEC, 0));
}

int main(void)
{
	int event, other, ends[2], p[2];
	pthread_t t;

	begin();
	EACH_FAMILY(family) {
		for (int masked = 0; masked < 2; masked++) {
			title(family_name(family));
			stream_pair(family, p);
			other = make(&event);
			t = begin_waiting(masked);
			add(other, p[1], EPOLLIN | EPOLLOUT | EPOLLET, 2);
			ended(t);
			title("data, later");
			t = begin_waiting(masked);
			MUST(send(p[0], "x", 1, 0));
			ended(t);
			close(event);
			close(ep);
			close(other);

			title("an eventfd beside a socket");
			ep = MUST(epoll_create1(EPOLL_CLOEXEC));
			add(ep, p[0], EPOLLIN | EPOLLET, 3);
			t = begin_waiting(masked);
			MUST(pipe(ends));
			MUST(write(ends[1], "x", 1));
			add(ep, ends[0], EPOLLIN | EPOLLET, 4);
			ended(t);
			close(ends[0]);
			close(ends[1]);
			close(ep);
			close(p[0]);
			close(p[1]);
		}
	}
	return 0;
}
