/* Level-triggered epoll on sockets: reported as long as it is true. */
#include "check.h"
#include <sys/epoll.h>

static void look(int ep, int timeout)
{
	struct epoll_event e[8];
	int n = epoll_wait(ep, e, 8, timeout);

	printf("%d ready\n", n);
	/* The order is not promised: print by tag. */
	for (unsigned tag = 0; tag < 10; tag++)
		for (int i = 0; i < n; i++)
			if (e[i].data.u32 == tag)
				printf("  %u: %s\n", tag,
				       events_name(e[i].events));
}

static void want(int ep, int how, int fd, unsigned events, unsigned tag)
{
	struct epoll_event e = { .events = events, .data.u32 = tag };

	TRY(epoll_ctl(ep, how, fd, &e));
}

int main(void)
{
	begin();
	EACH_FAMILY(family) {
		char buffer[16];
		int p[2];

		title(family_name(family));
		int ep = FD(epoll_create1(EPOLL_CLOEXEC));
		int l = listener(family);
		want(ep, EPOLL_CTL_ADD, l, EPOLLIN, 0);
		look(ep, 0);
		p[0] = connect_to(family, SOCK_STREAM, port_of(l));
		look(ep, 2000);
		look(ep, 0);
		p[1] = MUST(accept(l, NULL, NULL));
		look(ep, 0);

		want(ep, EPOLL_CTL_ADD, p[0], EPOLLIN | EPOLLOUT, 1);
		want(ep, EPOLL_CTL_ADD, p[1], EPOLLIN, 2);
		want(ep, EPOLL_CTL_ADD, p[1], EPOLLIN, 2);
		look(ep, 2000);
		want(ep, EPOLL_CTL_MOD, p[0], EPOLLIN, 1);
		MUST(send(p[0], "ab", 2, 0));
		look(ep, 2000);
		MUST(recv(p[1], buffer, 1, 0));
		look(ep, 0);
		MUST(recv(p[1], buffer, 1, 0));
		look(ep, 0);
		want(ep, EPOLL_CTL_MOD, p[1], EPOLLIN | EPOLLRDHUP, 2);
		shutdown(p[0], SHUT_WR);
		look(ep, 2000);
		want(ep, EPOLL_CTL_DEL, p[1], 0, 0);
		want(ep, EPOLL_CTL_DEL, p[1], 0, 0);
		want(ep, EPOLL_CTL_MOD, p[1], EPOLLIN, 0);
		look(ep, 0);
		close(p[1]);
		look(ep, 2000);
		close(p[0]);
		look(ep, 0);
		close(l);
		close(ep);
	}
	return 0;
}
