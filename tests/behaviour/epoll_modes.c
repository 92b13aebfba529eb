/* The rarer ways to wait with epoll on sockets, and epoll sets that travel. */
#include "check.h"
#include "handover.h"
#include <pthread.h>
#include <sys/epoll.h>

static void look(const char *what, int ep, int timeout)
{
	struct epoll_event e[8];
	int n = epoll_wait(ep, e, 8, timeout);

	printf("%s: %d ready", what, n);
	for (unsigned tag = 0; tag < 10; tag++)
		for (int i = 0; i < n; i++)
			if (e[i].data.u64 == tag)
				printf(", %u %s", tag, events_name(e[i].events));
	printf("\n");
}

static int add(int ep, int fd, unsigned tag, unsigned events)
{
	struct epoll_event e = { .events = events, .data.u64 = tag };

	return epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e);
}

static int change(int ep, int fd, unsigned tag, unsigned events)
{
	struct epoll_event e = { .events = events, .data.u64 = tag };

	return epoll_ctl(ep, EPOLL_CTL_MOD, fd, &e);
}

static void *wait_in_thread(void *ep)
{
	struct epoll_event e;

	return (void *)(uintptr_t)(epoll_wait(*(int *)ep, &e, 1, 10000) == 1 ? e.data.u64 : 99);
}

static void edges(int family)
{
	char buffer[64];
	int p[2], udp[2];

	title("each arrival is an edge");
	int ep = MUST(epoll_create1(0));
	stream_pair(family, p);
	datagram_pair(family, udp);
	MUST(add(ep, p[1], 1, EPOLLIN | EPOLLET));
	MUST(add(ep, udp[1], 2, EPOLLIN | EPOLLET));
	look("nothing yet", ep, 0);
	for (int i = 0; i < 40; i++) {
		struct epoll_event e;

		MUST(send(i % 2 ? p[0] : udp[0], "x", 1, 0));
		if (epoll_wait(ep, &e, 1, 5000) != 1 || e.data.u64 != 2u - i % 2)
			printf("arrival %d gave no edge\n", i);
		if (epoll_wait(ep, &e, 1, 0) != 0)
			printf("arrival %d gave two\n", i);
	}
	TRY(recv(p[1], buffer, 64, 0));
	int l = listener(family), c[3];
	MUST(fcntl(l, F_SETFL, O_NONBLOCK));
	MUST(add(ep, l, 3, EPOLLIN | EPOLLET));
	for (int i = 0; i < 3; i++) {
		c[i] = connect_to(family, SOCK_STREAM, port_of(l));
		look("connection", ep, 5000);
	}
	for (int i = 0; i < 3; i++) {
		close(c[i]);
		close(MUST(accept(l, NULL, NULL)));
	}
	look("all accepted", ep, 0);
	TRY(accept(l, NULL, NULL));
	close(l);

	title("room to write is an edge");
	MUST(fcntl(p[0], F_SETFL, O_NONBLOCK));
	MUST(add(ep, p[0], 4, EPOLLOUT | EPOLLET));
	look("at once", ep, 0);
	for (int i = 0; i < 2; i++) {
		char block[65536] = { 0 };

		while (send(p[0], block, sizeof(block), 0) > 0)
			;
		VALUE(errno == EAGAIN);
		look("full", ep, 0);
		while (recv(p[1], block, sizeof(block), MSG_DONTWAIT) > 0)
			;
		/* What was read may give edges of its own. */
		MUST(epoll_ctl(ep, EPOLL_CTL_DEL, p[1], NULL));
		look("read", ep, 5000);
		MUST(add(ep, p[1], 1, EPOLLIN | EPOLLET));
	}
	close(p[0]);
	close(p[1]);
	close(udp[0]);
	close(udp[1]);
	close(ep);
}

static void modes(int family)
{
	char buffer[64];
	int p[2];

	title("one-shot");
	int ep = MUST(epoll_create1(0));
	stream_pair(family, p);
	MUST(add(ep, p[1], 1, EPOLLIN | EPOLLRDHUP | EPOLLONESHOT));
	MUST(send(p[0], "a", 1, 0));
	look("once", ep, 5000);
	MUST(send(p[0], "b", 1, 0));
	look("not again", ep, 0);
	MUST(change(ep, p[1], 2, EPOLLIN | EPOLLRDHUP | EPOLLONESHOT | EPOLLET));
	look("armed again", ep, 5000);
	MUST(recv(p[1], buffer, 64, 0));
	MUST(change(ep, p[1], 3, EPOLLIN | EPOLLRDHUP | EPOLLONESHOT));
	look("empty", ep, 0);

	title("urgent data");
	MUST(change(ep, p[1], 4, EPOLLPRI));
	MUST(send(p[0], "in band", 7, 0));
	look("in band", ep, 0);
	MUST(send(p[0], "!", 1, MSG_OOB));
	look("out of band", ep, 5000);
	TRY(recv(p[1], buffer, 1, MSG_OOB));
	look("taken", ep, 0);
	MUST(change(ep, p[1], 4, EPOLLIN));
	look("in band", ep, 0);
	TRY(recv(p[1], buffer, 64, 0));
	look("taken", ep, 0);

	title("the end");
	MUST(change(ep, p[1], 5, EPOLLRDHUP));
	look("open", ep, 0);
	shutdown(p[0], SHUT_WR);
	look("shut down", ep, 5000);
	MUST(change(ep, p[1], 6, 0));
	look("nothing asked", ep, 0);
	close(p[0]);
	shutdown(p[1], SHUT_WR);
	look("both ways", ep, 5000);
	close(p[1]);
	look("closed", ep, 0);

	title("duplicates");
	stream_pair(family, p);
	int copy = MUST(dup(p[1]));
	TRY(add(ep, p[1], 1, EPOLLIN));
	TRY(add(ep, copy, 2, EPOLLIN));
	TRY(add(ep, copy, 3, EPOLLIN));
	MUST(send(p[0], "x", 1, 0));
	look("both", ep, 5000);
	close(p[1]);
	look("one closed", ep, 0);
	MUST(recv(copy, buffer, 1, 0));
	look("taken", ep, 0);
	TRY(epoll_ctl(ep, EPOLL_CTL_DEL, copy, NULL));
	MUST(send(p[0], "x", 1, 0));
	close(copy);
	look("the other closed too", ep, 0);
	close(p[0]);
	close(ep);

	title("exclusive");
	int l = listener(family), eps[2];
	pthread_t threads[2];
	void *tag;
	for (int i = 0; i < 2; i++) {
		eps[i] = MUST(epoll_create1(0));
		TRY(add(eps[i], l, 7, EPOLLIN | EPOLLEXCLUSIVE));
		TRY(change(eps[i], l, 7, EPOLLIN));
		MUST(pthread_create(&threads[i], NULL, wait_in_thread, &eps[i]));
	}
	int c[2];
	for (int i = 0; i < 2; i++)
		c[i] = connect_to(family, SOCK_STREAM, port_of(l));
	for (int i = 0; i < 2; i++) {
		pthread_join(threads[i], &tag);
		VALUE((uintptr_t)tag);
		close(c[i]);
		close(eps[i]);
	}
	close(l);
}

static void sets(int family)
{
	char buffer[8];
	int p[2], u[2];
	pthread_t thread;
	void *tag;

	title("an epoll set in another, and in poll()");
	int inner = MUST(epoll_create1(0)), outer = MUST(epoll_create1(0));
	stream_pair(family, p);
	MUST(add(inner, p[1], 1, EPOLLIN));
	TRY(add(outer, inner, 2, EPOLLIN | EPOLLET));
	look("outer", outer, 0);
	MUST(send(p[0], "x", 1, 0));
	look("outer", outer, 5000);
	look("inner", inner, 0);
	WAIT(inner, POLLIN);
	TRY(add(inner, outer, 3, EPOLLIN));
	TRY(add(p[1], inner, 3, EPOLLIN));
	MUST(recv(p[1], buffer, 8, 0));
	look("outer", outer, 0);
	EVENTS(inner);

	title("added while a thread waits");
	MUST(pthread_create(&thread, NULL, wait_in_thread, &outer));
	int late[2];
	stream_pair(family, late);
	MUST(add(outer, late[1], 5, EPOLLIN));
	MUST(send(late[0], "x", 1, 0));
	pthread_join(thread, &tag);
	VALUE((uintptr_t)tag);
	close(late[0]);
	close(late[1]);

	title("inherited by a child");
	pid_t pid = child();
	if (!pid) {
		look("child", inner, 5000);
		MUST(send(p[1], "c", 1, 0));
		exit(0);
	}
	MUST(send(p[0], "x", 1, 0));
	join(pid);
	look("parent", inner, 0);
	MUST(recv(p[1], buffer, 8, 0));
	TRY(recv(p[0], buffer, 8, 0));
	look("parent", inner, 0);

	title("sent over a unix socket");
	MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, u));
	send_fd(u[0], inner);
	int got = receive_fd(u[1]);
	MUST(send(p[0], "y", 1, 0));
	look("received", got, 5000);
	look("sent", inner, 0);
	TRY(epoll_ctl(got, EPOLL_CTL_DEL, p[1], NULL));
	look("received", got, 0);

	title("a descriptor of it sent, and used there");
	send_fd(u[0], p[1]);
	close(p[1]);
	int socket = receive_fd(u[1]);
	MUST(add(got, socket, 6, EPOLLIN | EPOLLET));
	look("the byte from before", got, 0);
	MUST(send(p[0], "z", 1, 0));
	look("one more", got, 5000);
	TRY(recv(socket, buffer, 8, 0));
	int fds[] = { p[0], socket, inner, outer, got, u[0], u[1] };
	for (unsigned i = 0; i < sizeof(fds) / sizeof(*fds); i++)
		close(fds[i]);
}

int main(void)
{
	begin();
	EACH_FAMILY(family) {
		title(family_name(family));
		edges(family);
		modes(family);
		sets(family);
	}
	return 0;
}
