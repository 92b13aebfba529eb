/* Edge-triggered and one-shot epoll on sockets: reported once per change. */
#include "check.h"
#include <sys/epoll.h>

static void look(int ep, int timeout)
{
	struct epoll_event e[4];
	int n = epoll_wait(ep, e, 4, timeout);

	printf("%d ready", n);
	for (int i = 0; i < n; i++)
		printf(" %s", events_name(e[i].events));
	printf("\n");
}

int main(void)
{
	begin();
	EACH_FAMILY(family) {
		struct epoll_event e = { .events = EPOLLIN | EPOLLET };
		char buffer[16];
		int p[2];

		title(family_name(family));
		stream_pair(family, p);
		int ep = epoll_create1(0);
		TRY(epoll_ctl(ep, EPOLL_CTL_ADD, p[1], &e));
		look(ep, 0);
		MUST(send(p[0], "abc", 3, 0));
		look(ep, 2000);
		look(ep, 0);
		MUST(recv(p[1], buffer, 1, 0));
		look(ep, 0);
		MUST(send(p[0], "d", 1, 0));
		look(ep, 2000);
		look(ep, 0);
		MUST(recv(p[1], buffer, 16, 0));
		look(ep, 0);

		title("writing");
		e.events = EPOLLOUT | EPOLLET;
		TRY(epoll_ctl(ep, EPOLL_CTL_MOD, p[1], &e));
		look(ep, 2000);
		look(ep, 0);

		title("one-shot");
		e.events = EPOLLIN | EPOLLONESHOT;
		TRY(epoll_ctl(ep, EPOLL_CTL_MOD, p[1], &e));
		MUST(send(p[0], "e", 1, 0));
		look(ep, 2000);
		MUST(send(p[0], "f", 1, 0));
		look(ep, 0);
		TRY(epoll_ctl(ep, EPOLL_CTL_MOD, p[1], &e));
		look(ep, 2000);

		title("the end");
		e.events = EPOLLIN | EPOLLRDHUP | EPOLLET;
		TRY(epoll_ctl(ep, EPOLL_CTL_MOD, p[1], &e));
		look(ep, 2000);
		close(p[0]);
		look(ep, 2000);
		look(ep, 0);
		close(p[1]);
		close(ep);
	}
	return 0;
}
