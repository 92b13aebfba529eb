/* A thread waits on an epoll set from which another one closes descriptors: it sees nothing of it. */
#include "check.h"
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

enum { STOP = 1 };

static void *watch(void *set)
{
	struct epoll_event e;
	long events = 0;

	while (epoll_wait(*(int *)set, &e, 1, -1) == 1 && e.data.u32 != STOP)
		events++;
	return (void *)events;
}

int main(void)
{
	begin();
	EACH_FAMILY(family) {
		struct epoll_event e = { .events = EPOLLIN };
		struct epoll_event stop = { .events = EPOLLIN,
					    .data.u32 = STOP };
		pthread_t thread;
		uint64_t one = 1;
		void *events;

		title(family_name(family));
		int set = FD(epoll_create1(0));
		int stopper = FD(eventfd(0, 0));
		MUST(epoll_ctl(set, EPOLL_CTL_ADD, stopper, &stop));
		MUST(pthread_create(&thread, NULL, watch, &set));
		for (int i = 0; i < 200; i++) {
			int fd = MUST(socket(family, SOCK_DGRAM, 0));

			MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &e));
			MUST(close(fd));
		}
		MUST(write(stopper, &one, sizeof(one)));
		MUST(pthread_join(thread, &events));
		VALUE((long)events);
		close(stopper);
		close(set);
	}
	return 0;
}
