/*
 * What each waiter sees at an epoll instance whose members are busy streams: changes while one is ready, numbers that mean
 * something else, copies, children, threads, sets in sets, signals and time-outs. Each part is a process of its own, since
 * some of it ends shortcuts that others are about.
 */
#include "check.h"
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/select.h>

static int ends[2], others[2], set;

static void member(int to, int operation, int fd, unsigned events)
{
	struct epoll_event e = { .events = events, .data.u64 = fd };

	MUST(epoll_ctl(to, operation, fd, &e));
}

/* What there is, by the events of each end that it may be about. */
static void look_at(int at, int most, int timeout)
{
	struct epoll_event e[8];
	unsigned of[3] = { 0 };
	int n = epoll_wait(at, e, most, timeout);

	for (int i = 0; i < n; i++)
		of[e[i].data.u64 == (unsigned)ends[1]     ? 0 :
		   e[i].data.u64 == (unsigned)others[1] ? 1 :
							    2] |= e[i].events;
	printf("%d:", n);
	for (int i = 0; i < 3; i++)
		printf(" %s", events_name(of[i]));
	printf("\n");
}
#define LOOK(timeout) look_at(set, 8, timeout)

static void await(int at)
{
	struct epoll_event e;

	while (epoll_wait(at, &e, 1, -1) != 1)
		;
}

/* Bytes there and back, until whatever has shortcuts takes them. */
static void warm(int times)
{
	char byte = 'x';

	for (int i = 0; i < times; i++) {
		MUST(send(ends[0], &byte, 1, 0));
		await(set);
		MUST(recv(ends[1], &byte, 1, 0));
		MUST(send(ends[1], &byte, 1, 0));
		MUST(recv(ends[0], &byte, 1, 0));
	}
}

static void make(void)
{
	set = MUST(epoll_create1(EPOLL_CLOEXEC));
	stream_pair(AF_INET, ends);
	stream_pair(AF_INET, others);
	/* What is sent is there at once. */
	for (int i = 0; i < 2; i++) {
		set_int(ends[i], IPPROTO_TCP, TCP_NODELAY, 1);
		set_int(others[i], IPPROTO_TCP, TCP_NODELAY, 1);
	}
	member(set, EPOLL_CTL_ADD, ends[1], EPOLLIN);
	warm(30);
}

static void tell(int fd)
{
	MUST(send(fd, "tell", 4, 0));
}

static void hear(int fd)
{
	char bytes[64];

	MUST(recv(fd, bytes, sizeof(bytes), 0));
}

static void levels(void)
{
	member(set, EPOLL_CTL_ADD, others[1], EPOLLIN);
	LOOK(0);
	tell(ends[0]);
	LOOK(2000);
	LOOK(0);
	tell(others[0]);
	while (epoll_wait(set, (struct epoll_event[8]){ 0 }, 8, 2000) < 2)
		;
	LOOK(0);
	hear(ends[1]);
	LOOK(0);
	hear(others[1]);
	LOOK(0);
	/* One at a time, each has its turn. */
	tell(ends[0]);
	tell(others[0]);
	for (int seen = 0; seen != 3;) {
		struct epoll_event e;

		MUST(epoll_wait(set, &e, 1, 2000));
		seen |= e.data.u64 == (unsigned)ends[1] ? 1 : 2;
	}
	VALUE(epoll_wait(set, &(struct epoll_event){ 0 }, 0, 0));
}

static void changes(void)
{
	tell(ends[0]);
	LOOK(2000);
	TRY(epoll_ctl(set, EPOLL_CTL_DEL, ends[1], NULL));
	LOOK(0);
	TRY(epoll_ctl(set, EPOLL_CTL_DEL, ends[1], NULL));
	member(set, EPOLL_CTL_ADD, ends[1], EPOLLIN);
	LOOK(0);
	member(set, EPOLL_CTL_MOD, ends[1], EPOLLOUT);
	LOOK(0);
	member(set, EPOLL_CTL_MOD, ends[1], 0);
	LOOK(0);
	member(set, EPOLL_CTL_MOD, ends[1], EPOLLIN | EPOLLOUT);
	LOOK(0);
	warm(0);
	hear(ends[1]);
	LOOK(0);
	for (int i = 0; i < 50; i++) {
		member(set, EPOLL_CTL_MOD, ends[1], EPOLLOUT);
		await(set);
		TRY(epoll_ctl(set, EPOLL_CTL_DEL, ends[1], NULL));
		member(set, EPOLL_CTL_ADD, ends[1], EPOLLIN);
		warm(1);
	}
	LOOK(0);
}

static void *tells(void *fd)
{
	usleep(20000);
	tell(*(int *)fd);
	return NULL;
}

/* A thread sleeps for what has been changed just before. */
static void late_sleeps(void)
{
	struct epoll_event e = { .events = EPOLLIN };
	pthread_t thread;

	tell(others[0]);
	hear(others[1]);
	member(set, EPOLL_CTL_ADD, others[1], 0);
	warm(3);
	member(set, EPOLL_CTL_MOD, others[1], EPOLLIN);
	pthread_create(&thread, NULL, tells, &others[0]);
	LOOK(-1);
	pthread_join(thread, NULL);
	hear(others[1]);
	for (int i = 0; i < 8; i++) {
		warm(3);
		member(set, EPOLL_CTL_MOD, ends[1], 0);
		LOOK(30);
		member(set, EPOLL_CTL_MOD, ends[1], EPOLLIN);
		pthread_create(&thread, NULL, tells, &ends[0]);
		LOOK(-1);
		pthread_join(thread, NULL);
		/* What is not waited for wakes no thread. */
		member(set, EPOLL_CTL_MOD, ends[1], 0);
		LOOK(30);
		MUST(epoll_ctl(set, EPOLL_CTL_DEL, ends[1], NULL));
		LOOK(30);
		e.data.u64 = ends[0];
		MUST(epoll_ctl(set, EPOLL_CTL_ADD, ends[1], &e));
		hear(ends[1]);
		pthread_create(&thread, NULL, tells, &ends[0]);
		LOOK(-1);
		pthread_join(thread, NULL);
		member(set, EPOLL_CTL_MOD, ends[1], EPOLLOUT);
		LOOK(-1);
		member(set, EPOLL_CTL_MOD, ends[1], EPOLLIN);
		hear(ends[1]);
		/* Nor is a change while one waits lost. */
		member(set, EPOLL_CTL_MOD, others[1], i % 2 ? EPOLLIN : 0);
		member(set, EPOLL_CTL_MOD, others[1], EPOLLIN);
		pthread_create(&thread, NULL, tells, &others[0]);
		LOOK(-1);
		pthread_join(thread, NULL);
		hear(others[1]);
	}
}

static void look_in_child(void)
{
	int status;

	fflush(stdout);
	if (!MUST(fork())) {
		LOOK(0);
		LOOK(20);
		fflush(stdout);
		_exit(5);
	}
	MUST(wait(&status));
	VALUE(WEXITSTATUS(status));
}

static void late_children(void)
{
	tell(ends[0]);
	LOOK(2000);
	member(set, EPOLL_CTL_MOD, ends[1], EPOLLOUT);
	look_in_child();
	LOOK(0);
	member(set, EPOLL_CTL_MOD, ends[1], 0);
	look_in_child();
	member(set, EPOLL_CTL_MOD, ends[1], EPOLLIN);
	look_in_child();
}

static void late_children_without(void)
{
	tell(ends[0]);
	LOOK(2000);
	TRY(epoll_ctl(set, EPOLL_CTL_DEL, ends[1], NULL));
	look_in_child();
	member(set, EPOLL_CTL_ADD, ends[1], EPOLLIN);
	look_in_child();
}

/* Two changes that come to nothing. */
static void late_children_as_before(void)
{
	tell(ends[0]);
	LOOK(2000);
	member(set, EPOLL_CTL_MOD, ends[1], 0);
	member(set, EPOLL_CTL_MOD, ends[1], EPOLLIN);
	look_in_child();
	LOOK(0);
}

static void late_copy(void)
{
	int copy;

	tell(ends[0]);
	LOOK(2000);
	member(set, EPOLL_CTL_MOD, ends[1], EPOLLOUT);
	copy = MUST(dup(set));
	look_at(copy, 8, 0);
	member(set, EPOLL_CTL_MOD, ends[1], 0);
	look_at(copy, 8, 0);
	TRY(epoll_ctl(copy, EPOLL_CTL_DEL, ends[1], NULL));
	TRY(epoll_ctl(set, EPOLL_CTL_DEL, ends[1], NULL));
}

static void late_poll(void)
{
	struct pollfd p = { .fd = set, .events = POLLIN };

	tell(ends[0]);
	LOOK(2000);
	member(set, EPOLL_CTL_MOD, ends[1], 0);
	VALUE(poll(&p, 1, 0));
	member(set, EPOLL_CTL_MOD, ends[1], EPOLLIN);
	VALUE(poll(&p, 1, 0));
}

static void late_select(void)
{
	fd_set readable;

	FD_ZERO(&readable);
	FD_SET(set, &readable);
	member(set, EPOLL_CTL_MOD, ends[1], EPOLLOUT);
	VALUE(select(set + 1, &readable, NULL, NULL, NULL));
}

static void late_nesting(void)
{
	int outer = MUST(epoll_create1(EPOLL_CLOEXEC));

	tell(ends[0]);
	LOOK(2000);
	member(set, EPOLL_CTL_MOD, ends[1], 0);
	member(outer, EPOLL_CTL_ADD, set, EPOLLIN);
	look_at(outer, 8, 0);
	member(set, EPOLL_CTL_MOD, ends[1], EPOLLIN);
	look_at(outer, 8, 0);
}

/* Numbers and files that go their own ways after a change. */
static void late_files(void)
{
	int copy;

	tell(ends[0]);
	LOOK(2000);
	MUST(epoll_ctl(set, EPOLL_CTL_DEL, ends[1], NULL));
	copy = MUST(dup(ends[1]));
	MUST(close(ends[1]));
	LOOK(20);
	MUST(dup2(copy, ends[1]));
	member(set, EPOLL_CTL_ADD, ends[1], EPOLLIN);
	LOOK(2000);
	MUST(close(copy));
	member(set, EPOLL_CTL_MOD, ends[1], 0);
	LOOK(20);
	MUST(dup2(others[1], ends[1]));
	TRY(epoll_ctl(set, EPOLL_CTL_MOD, ends[1], &(struct epoll_event){ 0 }));
	LOOK(20);
}

static void late_errors(void)
{
	struct epoll_event e = { .events = EPOLLIN, .data.u64 = ends[1] };

	for (int i = 0; i < 3; i++) {
		warm(1);
		TRY(epoll_ctl(set, EPOLL_CTL_ADD, ends[1], &e));
		TRY(epoll_ctl(set, EPOLL_CTL_MOD, ends[1], NULL));
		TRY(epoll_ctl(set, EPOLL_CTL_DEL, ends[1], NULL));
		TRY(epoll_ctl(set, EPOLL_CTL_MOD, ends[1], &e));
		TRY(epoll_ctl(set, EPOLL_CTL_DEL, ends[1], NULL));
		TRY(epoll_ctl(set, EPOLL_CTL_ADD, ends[1], NULL));
		TRY(epoll_ctl(set, EPOLL_CTL_ADD, ends[1], &e));
		TRY(epoll_ctl(set, EPOLL_CTL_DEL, ends[1], NULL));
		TRY(epoll_ctl(set, EPOLL_CTL_ADD, ends[1], &e));
		TRY(epoll_ctl(set, 9, ends[1], &e));
		TRY(epoll_ctl(ends[0], EPOLL_CTL_MOD, ends[1], &e));
	}
	MUST(epoll_ctl(set, EPOLL_CTL_DEL, ends[1], NULL));
	MUST(close(ends[1]));
	TRY(epoll_ctl(set, EPOLL_CTL_ADD, ends[1], &e));
	MUST(close(set));
	TRY(epoll_ctl(set, EPOLL_CTL_ADD, ends[1], &e));
}

static void edges(void)
{
	char byte;

	member(set, EPOLL_CTL_MOD, ends[1], EPOLLIN | EPOLLET);
	LOOK(0);
	for (int i = 0; i < 20; i++) {
		tell(ends[0]);
		LOOK(2000);
		MUST(recv(ends[1], &byte, 1, 0));
		LOOK(0);
		LOOK(i % 2);
		tell(ends[0]);
		LOOK(2000);
		LOOK(1);
		hear(ends[1]);
	}
	member(set, EPOLL_CTL_MOD, ends[1], EPOLLOUT | EPOLLET);
	LOOK(2000);
	LOOK(1);
	tell(ends[0]);
	LOOK(1);
	member(set, EPOLL_CTL_MOD, ends[1], EPOLLIN | EPOLLOUT | EPOLLET);
	LOOK(2000);
	LOOK(1);
	hear(ends[1]);
	LOOK(1);
	tell(ends[0]);
	LOOK(2000);
	close(ends[0]);
	member(set, EPOLL_CTL_MOD, ends[1], EPOLLIN | EPOLLRDHUP | EPOLLET);
	while (!(epoll_wait(set, (struct epoll_event[1]){ 0 }, 1, 10)))
		;
	LOOK(1);
}

static void one_shots(void)
{
	member(set, EPOLL_CTL_MOD, ends[1], EPOLLIN | EPOLLONESHOT);
	for (int i = 0; i < 3; i++) {
		tell(ends[0]);
		LOOK(2000);
		tell(ends[0]);
		LOOK(1);
		member(set, EPOLL_CTL_MOD, ends[1], EPOLLIN | EPOLLONESHOT);
		LOOK(2000);
		hear(ends[1]);
		member(set, EPOLL_CTL_MOD, ends[1], EPOLLIN | EPOLLONESHOT);
	}
	LOOK(0);
}

static void ends_of_streams(void)
{
	member(set, EPOLL_CTL_MOD, ends[1], EPOLLIN | EPOLLRDHUP);
	MUST(shutdown(ends[0], SHUT_WR));
	LOOK(2000);
	MUST(shutdown(ends[1], SHUT_WR));
	LOOK(2000);
	member(set, EPOLL_CTL_ADD, others[1], EPOLLIN);
	tell(others[1]);
	close(others[0]);
	MUST(epoll_ctl(set, EPOLL_CTL_DEL, ends[1], NULL));
	await(set);
	LOOK(0);
}

static void closed(void)
{
	int old = ends[1];

	tell(ends[0]);
	LOOK(2000);
	MUST(close(ends[1]));
	LOOK(0);
	/* The number is another stream's now, which is no member. */
	MUST(dup2(others[1], old));
	tell(others[0]);
	LOOK(1);
	member(set, EPOLL_CTL_ADD, old, EPOLLIN);
	LOOK(2000);
}

static void covered(void)
{
	tell(ends[0]);
	LOOK(2000);
	/* A file that has no other number any more is no member. */
	MUST(dup2(others[0], ends[1]));
	LOOK(1);
	tell(others[1]);
	LOOK(1);
}

static void copied(void)
{
	int copy = MUST(dup(ends[1]));

	/* A member as long as any number has the file. */
	tell(ends[0]);
	LOOK(2000);
	MUST(close(ends[1]));
	LOOK(0);
	hear(copy);
	LOOK(0);
	tell(ends[0]);
	LOOK(2000);
	MUST(close(copy));
	LOOK(0);
}

static void copy_of_set(void)
{
	int copy = MUST(dup(set)), third = MUST(fcntl(set, F_DUPFD, 100));

	for (int i = 0; i < 20; i++) {
		warm(3);
		tell(ends[0]);
		look_at(copy, 8, 2000);
		look_at(third, 8, 2000);
		hear(ends[1]);
		look_at(copy, 8, 0);
	}
	member(copy, EPOLL_CTL_MOD, ends[1], EPOLLOUT);
	LOOK(2000);
	MUST(close(set));
	look_at(copy, 8, 2000);
}

static void children(void)
{
	int status;

	warm(3);
	if (!MUST(fork())) {
		for (int i = 0; i < 20; i++) {
			await(set);
			hear(ends[1]);
			tell(ends[1]);
		}
		_exit(3);
	}
	for (int i = 0; i < 20; i++) {
		tell(ends[0]);
		hear(ends[0]);
	}
	MUST(wait(&status));
	VALUE(WEXITSTATUS(status));
	warm(20);
	LOOK(0);
}

static void *echoes(void *argument)
{
	int own = MUST(epoll_create1(0)), fd = *(int *)argument;

	member(own, EPOLL_CTL_ADD, fd, EPOLLIN);
	for (int i = 0; i < 1000; i++) {
		char bytes[64];

		await(own);
		MUST(recv(fd, bytes, sizeof(bytes), 0));
		if (i % 16 == 0)
			usleep(i / 4);
		MUST(send(fd, bytes, 4, 0));
	}
	close(own);
	return NULL;
}

/* Two threads that wait for each other, now and then for so long that both sleep. */
static void threads(void)
{
	pthread_t thread;

	MUST(epoll_ctl(set, EPOLL_CTL_DEL, ends[1], NULL));
	member(set, EPOLL_CTL_ADD, others[0], EPOLLIN);
	pthread_create(&thread, NULL, echoes, &others[1]);
	for (int i = 0; i < 1000; i++) {
		tell(others[0]);
		await(set);
		hear(others[0]);
		if (i % 10 == 0)
			usleep(i / 4);
	}
	pthread_join(thread, NULL);
	LOOK(0);
}

static void *waits(void *argument)
{
	struct epoll_event e;

	(void)argument;
	return (void *)(long)epoll_wait(set, &e, 1, -1);
}

static void one_set_of_two(void)
{
	pthread_t all[2];
	void *result;

	for (int i = 0; i < 2; i++)
		pthread_create(&all[i], NULL, waits, NULL);
	usleep(3000);
	tell(ends[0]);
	for (int i = 0; i < 2; i++) {
		pthread_join(all[i], &result);
		VALUE((long)result);
	}
	hear(ends[1]);
	warm(10);
}

static void nested(void)
{
	int outer = MUST(epoll_create1(0));
	struct pollfd p = { .fd = set, .events = POLLIN };
	fd_set readable;

	member(outer, EPOLL_CTL_ADD, set, EPOLLIN);
	for (int i = 0; i < 20; i++) {
		warm(3);
		look_at(outer, 8, 0);
		tell(ends[0]);
		look_at(outer, 8, 2000);
		LOOK(2000);
		hear(ends[1]);
	}
	VALUE(poll(&p, 1, 0));
	tell(ends[0]);
	VALUE(poll(&p, 1, 2000));
	FD_ZERO(&readable);
	FD_SET(set, &readable);
	VALUE(select(set + 1, &readable, NULL, NULL, NULL));
}

static void polled(void)
{
	struct pollfd p = { .fd = set, .events = POLLIN };

	for (int i = 0; i < 20; i++) {
		warm(3);
		VALUE(poll(&p, 1, 0));
		tell(ends[0]);
		VALUE(poll(&p, 1, 2000));
		hear(ends[1]);
	}
}

/* Of a set that the C library has nothing to do with. */
static void raw(void)
{
	struct epoll_event e = { .events = EPOLLIN };
	int own = MUST(syscall(SYS_epoll_create1, 0));

	MUST(syscall(SYS_epoll_ctl, own, EPOLL_CTL_ADD, ends[1], &e));
	for (int i = 0; i < 20; i++) {
		warm(3);
		VALUE(syscall(SYS_epoll_wait, own, &e, 1, 0));
		tell(ends[0]);
		VALUE(syscall(SYS_epoll_wait, own, &e, 1, 2000));
		hear(ends[1]);
	}
}

static void mixed(void)
{
	int p[2];

	MUST(pipe(p));
	member(set, EPOLL_CTL_ADD, p[0], EPOLLIN);
	for (int i = 0; i < 20; i++) {
		LOOK(0);
		MUST(write(p[1], "x", 1));
		LOOK(0);
		tell(ends[0]);
		while (epoll_wait(set, (struct epoll_event[8]){ 0 }, 8, 2000) < 2)
			;
		LOOK(0);
		for (int seen = 0; seen != 3;) {
			struct epoll_event e;

			MUST(epoll_wait(set, &e, 1, 2000));
			seen |= e.data.u64 == (unsigned)p[0] ? 1 : 2;
		}
		hear(ends[1]);
		LOOK(0);
		MUST(read(p[0], &(char){ 0 }, 1));
		LOOK(0);
	}
	MUST(write(p[1], "x", 1));
	close(p[0]);
	LOOK(0);
}

static void sent_away(void)
{
	int way[2], status;
	char room[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec part = { "x", 1 };
	struct msghdr m = { .msg_iov = &part,
			    .msg_iovlen = 1,
			    .msg_control = room,
			    .msg_controllen = sizeof(room) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, way));
	if (!MUST(fork())) {
		char byte[1];

		part.iov_base = byte;
		MUST(recvmsg(way[1], &m, 0));
		memcpy(&set, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(int));
		await(set);
		_exit(4);
	}
	set = MUST(epoll_create1(0));
	member(set, EPOLL_CTL_ADD, ends[1], EPOLLIN);
	warm(10);
	*c = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
			       .cmsg_type = SCM_RIGHTS,
			       .cmsg_len = CMSG_LEN(sizeof(int)) };
	memcpy(CMSG_DATA(c), &set, sizeof(int));
	MUST(sendmsg(way[0], &m, 0));
	usleep(2000);
	tell(ends[0]);
	MUST(wait(&status));
	VALUE(WEXITSTATUS(status));
}

static volatile int handled;

static void handler(int signal)
{
	(void)signal;
	handled++;
}

static void signals(void)
{
	struct itimerval soon = { .it_value.tv_usec = 5000 };
	struct sigaction action = { .sa_handler = handler,
				    .sa_flags = SA_RESTART };
	struct epoll_event e;
	sigset_t none, all;

	sigemptyset(&none);
	sigfillset(&all);
	sigaction(SIGALRM, &action, NULL);
	for (int i = 0; i < 5; i++) {
		warm(3);
		soon.it_value.tv_usec = 1 + 700 * i;
		setitimer(ITIMER_REAL, &soon, NULL);
		/* It may have come before. */
		errno = EINTR;
		if (handled == i)
			epoll_wait(set, &e, 1, 500);
		printf("%s, %d\n", handled > i ? "handled" : "not handled", i);
	}
	title("masks");
	handled = 0;
	sigprocmask(SIG_BLOCK, &all, NULL);
	raise(SIGALRM);
	TRY(epoll_wait(set, &e, 1, 5));
	VALUE(handled);
	TRY(epoll_pwait(set, &e, 1, 20, &all));
	tell(ends[0]);
	await(set);
	TRY(epoll_pwait(set, &e, 1, 2000, &none));
	VALUE(handled);
	hear(ends[1]);
	TRY(epoll_pwait(set, &e, 1, 2000, &none));
	VALUE(handled);
	TRY(epoll_pwait2(set, &e, 1, &(struct timespec){ .tv_nsec = 1000 },
			 &none));
	TRY(epoll_pwait2(set, &e, 1, &(struct timespec){ .tv_nsec = -1 },
			 &none));
	sigprocmask(SIG_SETMASK, NULL, &all);
	VALUE(sigismember(&all, SIGALRM));
}

static void times(void)
{
	static const int limits[] = { 0, 1, 5, 30 };

	for (unsigned i = 0; i < 4; i++) {
		struct timespec from, to;

		warm(5);
		clock_gettime(CLOCK_MONOTONIC, &from);
		LOOK(limits[i]);
		clock_gettime(CLOCK_MONOTONIC, &to);
		VALUE((to.tv_sec - from.tv_sec) * 1000000000 + to.tv_nsec -
			      from.tv_nsec >=
		      limits[i] * 1000000L);
	}
}

/* A thread that does not wait finds what it has sent itself. */
static void at_once(void)
{
	char byte = 'x';
	int missed = 0;

	warm(30);
	for (int i = 0; i < 5000; i++) {
		struct epoll_event e;

		MUST(send(ends[0], &byte, 1, 0));
		missed += epoll_wait(set, &e, 1, 0) != 1;
		MUST(recv(ends[1], &byte, 1, 0));
	}
	VALUE(missed);
}

/* One that waits for nothing that comes. */
static void cancelled(void)
{
	for (int i = 0; i < 20; i++) {
		pthread_t thread;
		void *result;

		warm(3);
		pthread_create(&thread, NULL, waits, NULL);
		usleep(i % 4 * 300);
		MUST(pthread_cancel(thread));
		pthread_join(thread, &result);
		VALUE(result == PTHREAD_CANCELED);
	}
	warm(10);
}

static void errors(void)
{
	struct epoll_event e;
	volatile int few = -1;

	TRY(epoll_wait(set, &e, 0, 0));
	TRY(epoll_wait(set, &e, few, 0));
	TRY(epoll_wait(ends[1], &e, 1, 0));
	TRY(epoll_wait(NO_FD, &e, 1, 0));
	TRY(epoll_create(0));
	TRY(epoll_create1(-1));
	TRY(epoll_ctl(set, EPOLL_CTL_ADD, set, &e));
	TRY(epoll_ctl(set, 9, ends[1], &e));
	warm(5);
	MUST(close_range(set, set, 0));
	TRY(epoll_wait(set, &e, 1, 0));
	VALUE(epoll_create1(0) == set);
	LOOK(0);
	member(set, EPOLL_CTL_ADD, ends[1], EPOLLIN);
	warm(5);
}

static void part(const char *name, void (*of)(void))
{
	int status;

	title(name);
	fflush(stdout);
	if (!MUST(fork())) {
		alarm(120);
		make();
		of();
		fflush(stdout);
		_exit(0);
	}
	MUST(wait(&status));
	VALUE(status);
}
#define PART(name) part(#name, name)

int main(void)
{
	begin();
	PART(levels);
	PART(changes);
	PART(late_sleeps);
	PART(late_children);
	PART(late_children_without);
	PART(late_children_as_before);
	PART(late_copy);
	PART(late_poll);
	PART(late_select);
	PART(late_nesting);
	PART(late_files);
	PART(late_errors);
	PART(edges);
	PART(one_shots);
	PART(ends_of_streams);
	PART(closed);
	PART(covered);
	PART(copied);
	PART(copy_of_set);
	PART(children);
	PART(threads);
	PART(one_set_of_two);
	PART(nested);
	PART(polled);
	PART(raw);
	PART(mixed);
	PART(sent_away);
	PART(signals);
	PART(times);
	PART(at_once);
	PART(cancelled);
	PART(errors);
	return 0;
}
