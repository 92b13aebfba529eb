// SPDX-License-Identifier: GPL-2.0
/*
 * Pipes between threads and processes: a thread that waits for one goes on when it is written to or read from, however that is
 * done, and a number means what it was last made to mean.
 */
#include "exact.h"
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

static void make(int fds[2], int flags)
{
	MUST(pipe2(fds, flags));
}

/* Knows itself by many calls: a library may take its time to learn. */
static void warm_up(void)
{
	int fds[2];
	char c;

	make(fds, 0);
	for (int i = 0; i < 10; i++) {
		MUST(write(fds[1], "x", 1));
		MUST(read(fds[0], &c, 1));
	}
	close(fds[0]);
	close(fds[1]);
}

static int in_child(void (*body)(int *, int *), int *a, int *b)
{
	int pid = MUST(fork());

	if (pid == 0) {
		warm_up();
		body(a, b);
		_exit(0);
	}
	return pid;
}

static void wait_for(int pid)
{
	int status;

	MUST(waitpid(pid, &status, 0));
	if (status)
		say("status %#x", status);
}

/* An event loop that wakes itself up. */
static void itself(void)
{
	int fds[2], rounds = 0;
	char bytes[64];

	make(fds, O_NONBLOCK);
	for (int i = 0; i < 1000; i++) {
		struct pollfd fd = { .fd = fds[0], .events = POLLIN };
		struct timespec t = span(10 * MS);

		if (ppoll(&fd, 1, &t, NULL) != 0)
			say("ready too early");
		MUST(write(fds[1], "x", 1));
		if (ppoll(&fd, 1, &t, NULL) != 1 || fd.revents != POLLIN)
			say("not ready");
		while (read(fds[0], bytes, sizeof(bytes)) > 0)
			rounds++;
		if (errno != EAGAIN)
			say("%s", strerrorname_np(errno));
	}
	say("woken by itself %d times", rounds);
	/* Full, and with room again. */
	for (rounds = 0; write(fds[1], bytes, sizeof(bytes)) > 0;)
		rounds++;
	say("room for %d", rounds);
	TRY(write(fds[1], bytes, 1));
	for (int i = 0; i < 64; i++)
		MUST(read(fds[0], bytes, sizeof(bytes)));
	TRY(write(fds[1], bytes, 1));
	close(fds[0]);
	close(fds[1]);
}

static void reads(int *in, int *out)
{
	char c;

	for (int i = 0; i < 3; i++) {
		MUST(read(in[0], &c, 1));
		say("read %c", c);
		rest(200 * MS);
		MUST(write(out[1], &c, 1));
	}
}

static void polls(int *in, int *out)
{
	struct pollfd fd = { .fd = in[0], .events = POLLIN };
	char c;

	for (int i = 0; i < 3; i++) {
		MUST(poll(&fd, 1, -1));
		MUST(read(in[0], &c, 1));
		say("polled %c", c);
		rest(200 * MS);
		MUST(write(out[1], &c, 1));
	}
}

static void epolls(int *in, int *out)
{
	int ep = MUST(epoll_create1(0));
	struct epoll_event event = { .events = EPOLLIN };
	char c;

	MUST(epoll_ctl(ep, EPOLL_CTL_ADD, in[0], &event));
	for (int i = 0; i < 3; i++) {
		MUST(epoll_wait(ep, &event, 1, -1));
		MUST(read(in[0], &c, 1));
		say("epolled %c", c);
		rest(200 * MS);
		MUST(write(out[1], &c, 1));
	}
}

/* Another process's wait ends when this one writes. */
static void others(void (*body)(int *, int *))
{
	int there[2], back[2], pid;
	char c;

	make(there, 0);
	make(back, 0);
	pid = in_child(body, there, back);
	for (int i = 0; i < 3; i++) {
		rest(100 * MS);
		c = 'a' + i;
		MUST(write(there[1], &c, 1));
		MUST(read(back[0], &c, 1));
		say("back %c", c);
	}
	wait_for(pid);
	close(there[0]);
	close(there[1]);
	close(back[0]);
	close(back[1]);
}

static void fills(int *out, int *unused)
{
	static char bytes[4096];

	(void)unused;
	for (int i = 0; i < 20; i++)
		MUST(write(out[1], bytes, sizeof(bytes)));
	say("all written");
	rest(500 * MS);
	/* Nothing is trapped after this one. */
	MUST(write(out[1], bytes, 1));
}

static void room(void)
{
	static char bytes[4096];
	int fds[2], pid, last;

	make(fds, 0);
	pid = in_child(fills, fds, NULL);
	rest(1000 * MS);
	for (int i = 0; i < 20; i++) {
		MUST(read(fds[0], bytes, sizeof(bytes)));
		if (i < 6)
			rest(100 * MS);
	}
	last = MUST(read(fds[0], bytes, sizeof(bytes)));
	say("last %d", last);
	wait_for(pid);
	close(fds[1]);
	TRY(read(fds[0], bytes, 1));
	close(fds[0]);
}

static int ring[4][2];

static void *passes_on(void *argument)
{
	long n = (long)argument;
	struct iovec part = { .iov_len = 1 };
	char c;

	part.iov_base = &c;
	for (int i = 0; i < 50; i++) {
		MUST(readv(ring[n][0], &part, 1));
		c++;
		if (i % 10 == 0)
			rest(10 * MS);
		MUST(writev(ring[n + 1][1], &part, 1));
	}
	return NULL;
}

static void threads(void)
{
	pthread_t all[3];
	char c = 0;

	for (int i = 0; i < 4; i++)
		make(ring[i], 0);
	for (long i = 0; i < 3; i++)
		all[i] = begin_thread(passes_on, (void *)i);
	for (int i = 0; i < 50; i++) {
		MUST(write(ring[0][1], &c, 1));
		MUST(read(ring[3][0], &c, 1));
	}
	say("round by threads, to %d", c);
	for (int i = 0; i < 3; i++)
		MUST(-pthread_join(all[i], NULL));
	for (int i = 0; i < 4; i++) {
		close(ring[i][0]);
		close(ring[i][1]);
	}
}

/* A number that has been a pipe's. */
static void numbers(void)
{
	int a[2], b[2], file = MUST(memfd_create("file", 0));
	char c;

	make(a, O_NONBLOCK);
	make(b, O_NONBLOCK);
	for (int i = 0; i < 3; i++) {
		MUST(write(a[1], "a", 1));
		MUST(read(a[0], &c, 1));
		MUST(write(b[1], "b", 1));
		MUST(read(b[0], &c, 1));
	}
	MUST(dup2(b[1], a[1]));
	TRY(write(a[1], "c", 1));
	TRY(read(a[0], &c, 1));
	TRY(read(b[0], &c, 1));
	MUST(dup2(file, a[1]));
	TRY(write(a[1], "file", 4));
	TRY(lseek(file, 0, SEEK_CUR));
	close(b[0]);
	TRY(write(b[0], "x", 1));
	TRY(read(b[0], &c, 1));
	MUST(dup3(file, b[0], O_CLOEXEC));
	TRY(write(b[0], "file", 4));
	TRY(lseek(file, 0, SEEK_CUR));
	MUST(close_range(b[1], b[1], 0));
	TRY(write(b[1], "x", 1));
	close(a[0]);
	close(a[1]);
	close(b[0]);
	close(file);
}

static volatile int broken;

static void breaks(int signal)
{
	broken += signal == SIGPIPE;
}

static void ends(void)
{
	int fds[2];
	struct timespec t = span(100 * MS);
	sigset_t set, none, pending;
	char c;

	make(fds, 0);
	MUST(write(fds[1], "xy", 2));
	MUST(read(fds[0], &c, 1));
	signal(SIGPIPE, breaks);
	close(fds[0]);
	TRY(write(fds[1], "x", 1));
	TRY(write(fds[1], "x", 1));
	say("broken %d", broken);
	sigemptyset(&none);
	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	sigprocmask(SIG_BLOCK, &set, NULL);
	TRY(ppoll(NULL, 0, &t, &none));
	TRY(write(fds[1], "x", 1));
	sigpending(&pending);
	say("broken %d, pending %d", broken, sigismember(&pending, SIGPIPE));
	TRY(ppoll(NULL, 0, &t, &none));
	say("broken %d", broken);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	close(fds[1]);
}

static void sends(int *socket, int *unused)
{
	(void)unused;
	for (int i = 0; i < 5; i++) {
		rest(20 * MS);
		MUST(send(*socket, "datagram", 8, 0));
	}
}

/* An event loop that wakes itself up, beside a socket: some datagrams come when its waits end. */
static void beside_a_socket(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(address);
	int in = MUST(socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0));
	int out = MUST(socket(AF_INET, SOCK_DGRAM, 0));
	int fds[2], pid, rounds = 0, got = 0;
	char bytes[16];

	MUST(bind(in, (struct sockaddr *)&address, sizeof(address)));
	MUST(getsockname(in, (struct sockaddr *)&address, &len));
	MUST(connect(out, (struct sockaddr *)&address, sizeof(address)));
	make(fds, O_NONBLOCK);
	pid = in_child(sends, &out, NULL);
	while (got < 5) {
		struct pollfd both[3] = { { .fd = in, .events = POLLIN },
					  { .fd = -1, .events = POLLIN },
					  { .fd = fds[0], .events = POLLIN } };
		struct timespec t = span(10 * MS);
		int found = MUST(ppoll(both, 3, &t, NULL));

		if (!found) {
			rounds++;
			MUST(write(fds[1], "x", 1));
			found = MUST(ppoll(both, 3, &t, NULL));
			if (!(both[2].revents & POLLIN))
				say("not woken");
			while (read(fds[0], bytes, sizeof(bytes)) > 0)
				;
		}
		if (found != !!both[0].revents + !!both[1].revents + !!both[2].revents)
			say("%d are %x %x %x", found, both[0].revents, both[1].revents,
			    both[2].revents);
		if (both[0].revents & POLLIN) {
			MUST(recv(in, bytes, sizeof(bytes), 0));
			say("datagram %d", got++);
		}
	}
	say("after %d waits", rounds);
	wait_for(pid);
	close(in);
	close(out);
	close(fds[0]);
	close(fds[1]);
}

static void writes_late(int *out, int *unused)
{
	(void)unused;
	rest(300 * MS);
	MUST(write(out[1], "x", 1));
}

/* Looks again and again. */
static void spins(void)
{
	int fds[2], pid;
	char c;

	make(fds, O_NONBLOCK);
	pid = in_child(writes_late, fds, NULL);
	while (read(fds[0], &c, 1) < 0)
		if (errno != EAGAIN)
			say("%s", strerrorname_np(errno));
	say("seen");
	wait_for(pid);
	close(fds[0]);
	close(fds[1]);
}

int main(void)
{
	begin();
	warm_up();
	itself();
	others(reads);
	others(polls);
	others(epolls);
	room();
	threads();
	numbers();
	ends();
	beside_a_socket();
	spins();
	return 0;
}
