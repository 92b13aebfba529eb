/* Waits for sockets and other files at once, ended by another thread: poll, select, epoll, time-outs. */
#include "check.h"
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/timerfd.h>

static int p[2], ends[2];

/* Ends the wait of the main thread, most probably when that has begun; what it finds is the same if not. */
static void *send_soon(void *unused)
{
	usleep(20000);
	send(p[0], "s", 1, 0);
	return unused;
}

static void *write_soon(void *unused)
{
	usleep(20000);
	if (write(ends[1], "p", 1) != 1)
		abort();
	return unused;
}

static pthread_t soon(void *(*what)(void *))
{
	pthread_t t;

	MUST(-pthread_create(&t, NULL, what, NULL));
	return t;
}

static void take(pthread_t t)
{
	char byte;

	MUST(-pthread_join(t, NULL));
	while (recv(p[1], &byte, 1, MSG_DONTWAIT) == 1)
		;
	while (read(ends[0], &byte, 1) == 1)
		;
}

/* poll() of the socket and the pipe. */
static int both(short *found, int timeout)
{
	struct pollfd set[] = { { p[1], POLLIN, 0 },
				{ -1, POLLIN, 7 },
				{ ends[0], POLLIN, 0 } };
	int n = poll(set, 3, timeout);

	found[0] = set[0].revents;
	found[1] = set[1].revents;
	found[2] = set[2].revents;
	return n;
}

static void polled(int timeout)
{
	short found[3];

	TRY(both(found, timeout));
	for (int i = 0; i < 3; i++)
		VALUE(found[i]);
}

static void selected(long ms)
{
	struct timeval t = { ms / 1000, ms % 1000 * 1000 };
	int end = (p[1] > ends[0] ? p[1] : ends[0]) + 1;
	fd_set in, out;

	FD_ZERO(&in);
	FD_ZERO(&out);
	FD_SET(p[1], &in);
	FD_SET(ends[0], &in);
	TRY(select(end, &in, &out, NULL, ms < 0 ? NULL : &t));
	VALUE(!!FD_ISSET(p[1], &in));
	VALUE(!!FD_ISSET(ends[0], &in));
	if (ms >= 0)
		VALUE(t.tv_sec * 1000 + t.tv_usec / 1000 < ms || !ms);
}

static void waited(int ep, int timeout)
{
	struct epoll_event e[4];
	int n = TRY(epoll_wait(ep, e, 4, timeout));
	unsigned socket = 0, pipe = 0;

	for (int i = 0; i < n; i++)
		*(e[i].data.u64 == 1 ? &socket : &pipe) = e[i].events;
	TEXT(events_name(socket));
	TEXT(events_name(pipe));
}

static void add(int ep, int fd, unsigned events, int name)
{
	struct epoll_event e = { .events = events, .data.u64 = name };

	TRY(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
}

static void epolled(unsigned how)
{
	int ep = MUST(epoll_create1(0));
	struct pollfd outer = { ep, POLLIN, 0 };
	int copy;

	add(ep, ends[0], EPOLLIN | how, 2);
	waited(ep, 0);
	add(ep, p[1], EPOLLIN | how, 1);
	waited(ep, 0);
	waited(ep, 10);
	pthread_t t = soon(send_soon);
	waited(ep, -1);
	waited(ep, 0);
	take(t);
	t = soon(write_soon);
	waited(ep, -1);
	waited(ep, 0);
	take(t);
	TRY(poll(&outer, 1, 0));
	t = soon(send_soon);
	TRY(poll(&outer, 1, -1));
	take(t);
	t = soon(write_soon);
	TRY(poll(&outer, 1, -1));
	take(t);
	copy = MUST(dup(ep));
	MUST(close(ep));
	t = soon(send_soon);
	waited(copy, -1);
	take(t);
	TRY(epoll_ctl(copy, EPOLL_CTL_DEL, p[1], NULL));
	MUST(send(p[0], "x", 1, 0));
	waited(copy, 0);
	add(copy, p[1], EPOLLIN | how, 1);
	waited(copy, -1);
	take(soon(write_soon));
	MUST(close(copy));
}

int main(void)
{
	begin();
	MUST(pipe2(ends, O_NONBLOCK));
	EACH_FAMILY(family) {
		title(family_name(family));
		stream_pair(family, p);
		title("poll");
		polled(0);
		polled(10);
		pthread_t t = soon(send_soon);
		polled(-1);
		take(t);
		t = soon(write_soon);
		polled(-1);
		take(t);
		MUST(send(p[0], "x", 1, 0));
		MUST(write(ends[1], "x", 1));
		polled(-1);
		title("select");
		selected(-1);
		take(soon(send_soon));
		selected(0);
		selected(10);
		t = soon(send_soon);
		selected(5000);
		take(t);
		t = soon(write_soon);
		selected(-1);
		take(t);
		title("epoll");
		epolled(0);
		title("epoll, edges");
		epolled(EPOLLET);
		title("a timer and an eventfd");
		struct itimerspec late = { { 0, 0 }, { 0, 20000000 } };
		int timer = MUST(timerfd_create(CLOCK_MONOTONIC, 0));
		int event = MUST(eventfd(0, 0));
		struct pollfd set[] = { { p[1], POLLIN, 0 },
					{ timer, POLLIN, 0 },
					{ event, POLLIN, 0 } };
		MUST(timerfd_settime(timer, 0, &late, NULL));
		TRY(poll(set, 3, -1));
		VALUE(set[1].revents);
		MUST(close(timer));
		TRY(poll(set, 3, 0));
		VALUE(set[1].revents);
		set[1].fd = p[0];
		set[1].events = POLLOUT;
		TRY(poll(set, 3, -1));
		VALUE(set[1].revents);
		MUST(close(event));
		MUST(close(p[0]));
		TRY(poll(set, 1, -1));
		TEXT(events_name(set[0].revents));
		MUST(close(p[1]));
	}
	return 0;
}
