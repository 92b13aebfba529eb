/*
 * What poll, select and their kin say of busy streams: levels, ends, errors, listeners, time-outs and what is left of them, signals
 * and masks, numbers, children and threads. Each part is a process of its own, since some of it ends shortcuts that
 * others are about.
 */
#include "check.h"
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/select.h>

static int ends[2];

static void tell(int fd)
{
	MUST(send(fd, "tell", 4, 0));
}

static void hear(int fd)
{
	char bytes[64];

	MUST(recv(fd, bytes, sizeof(bytes), 0));
}

static fd_set *one(int fd)
{
	static fd_set sets[4];
	static int next;
	fd_set *set = &sets[next++ % 4];

	FD_ZERO(set);
	FD_SET(fd, set);
	return set;
}

/* Bytes there and back, until whatever has shortcuts takes them. */
static void warm(int times)
{
	for (int i = 0; i < times; i++) {
		struct pollfd p = { .fd = ends[1], .events = POLLIN };

		tell(ends[0]);
		if (i % 2)
			MUST(poll(&p, 1, -1));
		else
			MUST(select(ends[1] + 1, one(ends[1]), NULL, NULL, NULL));
		hear(ends[1]);
		tell(ends[1]);
		hear(ends[0]);
	}
}

/* What is sent is there at once. */
static void prompt(int pair[2])
{
	for (int i = 0; i < 2; i++)
		set_int(pair[i], IPPROTO_TCP, TCP_NODELAY, 1);
}

static void make(void)
{
	stream_pair(AF_INET, ends);
	prompt(ends);
	warm(20);
}

/* All that poll and select have to say of a descriptor, after the time given (ms). */
static void look_at(const char *what, int fd, int timeout)
{
	struct pollfd p = { .fd = fd, .events = ~POLLNVAL };
	struct timeval time = { timeout / 1000, timeout % 1000 * 1000 };
	fd_set in, out, odd;
	int n, m;

	n = poll(&p, 1, timeout);
	in = *one(fd);
	out = *one(fd);
	odd = *one(fd);
	m = select(fd + 1, &in, &out, &odd, &time);
	printf("%s: %d %#x; %d %d%d%d\n", what, n, p.revents, m,
	       !!FD_ISSET(fd, &in), !!FD_ISSET(fd, &out), !!FD_ISSET(fd, &odd));
	p.events = POLLIN;
	in = *one(fd);
	n = poll(&p, 1, timeout);
	m = pselect(fd + 1, &in, NULL, NULL, &(struct timespec){ 0 }, NULL);
	printf("  to read: %d %#x; %d %d\n", n, p.revents, m, !!FD_ISSET(fd, &in));
	p.events = 0;
	n = ppoll(&p, 1, &(struct timespec){ 0 }, NULL);
	printf("  at least: %d %#x\n", n, p.revents);
}
#define LOOK(fd) look_at(#fd, fd, 0)

static void levels(void)
{
	for (int i = 0; i < 3; i++) {
		LOOK(ends[1]);
		tell(ends[0]);
		LOOK(ends[1]);
		MUST(recv(ends[1], &(char){ 0 }, 1, 0));
		LOOK(ends[1]);
		hear(ends[1]);
		LOOK(ends[1]);
	}
	MUST(send(ends[0], "!", 1, MSG_OOB));
	fd_set odd = *one(ends[1]);
	VALUE(select(ends[1] + 1, NULL, NULL, &odd, NULL));
	VALUE(FD_ISSET(ends[1], &odd));
	VALUE(poll(&(struct pollfd){ ends[1], POLLPRI, 0 }, 1, 0));
}

static void filled(void)
{
	static char block[65536];
	long sent = 0, received = 0, n;

	for (int i = 0; i < 3; i++) {
		while ((n = send(ends[0], block, sizeof(block), MSG_DONTWAIT)) > 0)
			sent += n;
		TRY(n);
		LOOK(ends[0]);
		LOOK(ends[1]);
		while (received < sent) {
			MUST(poll(&(struct pollfd){ ends[1], POLLIN, 0 }, 1, -1));
			received += MUST(recv(ends[1], block, sizeof(block), MSG_DONTWAIT));
		}
		VALUE(received == sent);
		WAIT(ends[0], POLLOUT);
		LOOK(ends[0]);
		LOOK(ends[1]);
	}
	/* Room comes while one waits. */
	for (int i = 0; i < 3; i++) {
		pid_t pid;
		fd_set out;

		while ((n = send(ends[0], block, sizeof(block), MSG_DONTWAIT)) > 0)
			sent += n;
		pid = child();
		if (!pid) {
			long left = sent - received;

			usleep(i * 20000);
			while (left > 0)
				left -= MUST(recv(ends[1], block, sizeof(block), 0));
			_exit(0);
		}
		out = *one(ends[0]);
		VALUE(select(ends[0] + 1, NULL, &out, NULL, NULL));
		VALUE(FD_ISSET(ends[0], &out));
		join(pid);
		received = sent;
		LOOK(ends[1]);
	}
}

static void ends_of_streams(void)
{
	int others[2], never = MUST(socket(AF_INET, SOCK_STREAM, 0));

	set_int(never, SOL_SOCKET, SO_REUSEADDR, 1);
	LOOK(never);
	LOOK(never);
	stream_pair(AF_INET, others);
	MUST(shutdown(ends[0], SHUT_WR));
	WAIT(ends[1], POLLIN);
	LOOK(ends[0]);
	LOOK(ends[1]);
	VALUE(recv(ends[1], &(char){ 0 }, 1, 0));
	LOOK(ends[1]);
	MUST(shutdown(ends[1], SHUT_WR));
	WAIT(ends[0], POLLIN);
	LOOK(ends[0]);
	LOOK(ends[1]);
	/* A reset. */
	prompt(others);
	tell(others[0]);
	hear(others[1]);
	LOOK(others[1]);
	MUST(setsockopt(others[0], SOL_SOCKET, SO_LINGER,
			&(struct linger){ 1, 0 }, sizeof(struct linger)));
	MUST(close(others[0]));
	WAIT(others[1], POLLIN);
	LOOK(others[1]);
	TRY(recv(others[1], &(char){ 0 }, 1, 0));
	LOOK(others[1]);
}

static void listeners(void)
{
	int l = bound(AF_INET, SOCK_STREAM);

	set_int(l, SOL_SOCKET, SO_REUSEADDR, 1);
	MUST(listen(l, 16));
	for (int i = 0; i < 4; i++) {
		int fds[2];
		fd_set in;

		LOOK(l);
		fds[0] = connect_to(AF_INET, SOCK_STREAM, port_of(l));
		look_at("connected", l, 2000);
		in = *one(l);
		FD_SET(ends[1], &in);
		VALUE(select(64, &in, NULL, NULL, NULL));
		VALUE(FD_ISSET(l, &in) && !FD_ISSET(ends[1], &in));
		fds[1] = MUST(accept(l, NULL, NULL));
		LOOK(l);
		look_at("new", fds[1], 0);
		prompt(fds);
		tell(fds[0]);
		look_at("told", fds[1], 2000);
		close(fds[0]);
		close(fds[1]);
	}
}

static long elapsed_since(const struct timespec *begin)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (now.tv_sec - begin->tv_sec) * 1000 +
	       (now.tv_nsec - begin->tv_nsec) / 1000000;
}

static void times(void)
{
	struct timeval time;
	struct timespec exact, begin;
	fd_set in;

	for (int i = 0; i < 3; i++) {
		clock_gettime(CLOCK_MONOTONIC, &begin);
		time = (struct timeval){ 0, 50000 };
		in = *one(ends[1]);
		VALUE(select(ends[1] + 1, &in, NULL, NULL, &time));
		VALUE(FD_ISSET(ends[1], &in));
		VALUE(time.tv_sec * 1000000 + time.tv_usec);
		VALUE(elapsed_since(&begin) >= 49 && elapsed_since(&begin) < 2000);
		clock_gettime(CLOCK_MONOTONIC, &begin);
		VALUE(poll(&(struct pollfd){ ends[1], POLLIN, 0 }, 1, 50));
		VALUE(elapsed_since(&begin) >= 49 && elapsed_since(&begin) < 2000);
		exact = (struct timespec){ 0, 50000000 };
		in = *one(ends[1]);
		VALUE(pselect(ends[1] + 1, &in, NULL, NULL, &exact, NULL));
		VALUE(exact.tv_nsec);
		VALUE(ppoll(&(struct pollfd){ ends[1], POLLIN, 0 }, 1, &exact, NULL));
		VALUE(exact.tv_nsec);
		/* None at all. */
		time = (struct timeval){ 0, 0 };
		in = *one(ends[1]);
		VALUE(select(ends[1] + 1, &in, NULL, NULL, &time));
		VALUE(time.tv_sec * 1000000 + time.tv_usec);
		/* Wrong ones. */
		TRY(select(ends[1] + 1, one(ends[1]), NULL, NULL, &(struct timeval){ -1, 0 }));
		TRY(select(ends[1] + 1, one(ends[1]), NULL, NULL, &(struct timeval){ 0, -1 }));
		exact = (struct timespec){ 0, 1000000000 };
		TRY(pselect(ends[1] + 1, one(ends[1]), NULL, NULL, &exact, NULL));
		TRY(ppoll(&(struct pollfd){ ends[1], POLLIN, 0 }, 1, &exact, NULL));
		/* What is left when one is ready at once, and of more microseconds than a second has. */
		tell(ends[0]);
		time = (struct timeval){ 5, 0 };
		VALUE(select(ends[1] + 1, one(ends[1]), NULL, NULL, &time));
		VALUE(time.tv_sec >= 3 && (time.tv_sec < 5 || !time.tv_usec));
		time = (struct timeval){ 0, 5000000 };
		VALUE(select(ends[1] + 1, one(ends[1]), NULL, NULL, &time));
		VALUE(time.tv_sec >= 3 && time.tv_usec < 1000000);
		time = (struct timeval){ 1LL << 40, 0 };
		VALUE(select(ends[1] + 1, one(ends[1]), NULL, NULL, &time));
		VALUE(poll(&(struct pollfd){ ends[1], POLLIN, 0 }, 1, -5));
		hear(ends[1]);
	}
}

static int handled;

static void handle(int signal)
{
	(void)signal;
	handled++;
}

/* Until this process sleeps, or for five seconds; where /proc does not have it, not at all. */
static void await_sleep(pid_t pid)
{
	char path[32], line[256] = "";

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	for (int i = 0; i < 5000; i++) {
		int fd = open(path, O_RDONLY);
		const char *state;

		if (fd < 0)
			return;
		MUST(read(fd, line, sizeof(line) - 1));
		close(fd);
		state = strrchr(line, ')');
		if (state && state[2] == 'S')
			return;
		usleep(1000);
	}
}

/* A process that does something when its parent has waited for a little. */
static pid_t later(void (*job)(int), int argument)
{
	pid_t parent = getpid();
	pid_t pid = child();

	if (!pid) {
		await_sleep(parent);
		usleep(30000);
		job(argument);
		_exit(0);
	}
	return pid;
}

static void strike(int signal)
{
	kill(getppid(), signal);
}

static void ends_by_signal(int flags)
{
	struct sigaction action = { .sa_handler = handle, .sa_flags = flags };
	struct timeval time = { 5, 0 };
	fd_set in = *one(ends[1]);
	pid_t pid;

	MUST(sigaction(SIGUSR1, &action, NULL));
	handled = 0;
	pid = later(strike, SIGUSR1);
	TRY(select(ends[1] + 1, &in, NULL, NULL, &time));
	VALUE(FD_ISSET(ends[1], &in) && time.tv_sec >= 3 && time.tv_sec < 5);
	join(pid);
	pid = later(strike, SIGUSR1);
	TRY(select(ends[1] + 1, one(ends[1]), NULL, NULL, NULL));
	join(pid);
	pid = later(strike, SIGUSR1);
	TRY(poll(&(struct pollfd){ ends[1], POLLIN, 0 }, 1, -1));
	join(pid);
	pid = later(strike, SIGUSR1);
	TRY(poll(&(struct pollfd){ ends[1], POLLIN, 0 }, 1, 5000));
	join(pid);
	VALUE(handled);
}

static void signals(void)
{
	pid_t pid;

	ends_by_signal(0);
	warm(4);
	ends_by_signal(SA_RESTART);
	warm(4);
	/* One that is ignored ends nothing. */
	signal(SIGUSR2, SIG_IGN);
	pid = later(strike, SIGUSR2);
	TRY(select(ends[1] + 1, one(ends[1]), NULL, NULL, &(struct timeval){ 0, 100000 }));
	join(pid);
	pid = later(strike, SIGUSR2);
	TRY(poll(&(struct pollfd){ ends[1], POLLIN, 0 }, 1, 100));
	join(pid);
}

static void polls(int signal)
{
	struct pollfd p = { ends[1], POLLIN, 0 };

	(void)signal;
	handled += 1 + poll(&p, 1, 0) + poll(&p, 1, 1);
}

static void handlers(void)
{
	signal(SIGUSR1, polls);
	for (int i = 0; i < 4; i++) {
		pid_t pid = later(strike, SIGUSR1);

		TRY(select(ends[1] + 1, one(ends[1]), NULL, NULL, NULL));
		join(pid);
		VALUE(handled);
		warm(2);
	}
	tell(ends[0]);
	raise(SIGUSR1);
	VALUE(handled);
}

static void numbers(void)
{
	int fds[2], others[2], old = ends[1];
	fd_set in, out;

	MUST(pipe(fds));
	for (int i = 0; i < 3; i++) {
		/* Beyond the number of descriptors that are looked at, in the same word and in another. */
		tell(ends[0]);
		FD_ZERO(&in);
		FD_SET(ends[1], &in);
		FD_SET(ends[1] + 1, &in);
		FD_SET(500, &in);
		VALUE(select(ends[1] + 1, &in, NULL, NULL, NULL));
		VALUE(FD_ISSET(ends[1], &in) * 4 + FD_ISSET(ends[1] + 1, &in) * 2 + FD_ISSET(500, &in));
		in = *one(ends[1]);
		VALUE(select(ends[1], &in, NULL, NULL, &(struct timeval){ 0 }));
		in = *one(ends[1]);
		VALUE(select(1024, &in, NULL, NULL, &(struct timeval){ 0 }));
		VALUE(select(0, &in, NULL, NULL, &(struct timeval){ 0 }));
		TRY(select(-1, &in, NULL, NULL, &(struct timeval){ 0 }));
		VALUE(select(1024, NULL, NULL, NULL, &(struct timeval){ 0, 1000 }));
		FD_ZERO(&in);
		FD_ZERO(&out);
		VALUE(select(1024, &in, &out, NULL, &(struct timeval){ 0, 1000 }));
		/* One that is not open. */
		in = *one(ends[1]);
		FD_SET(60, &in);
		TRY(select(61, &in, NULL, NULL, NULL));
		VALUE(FD_ISSET(60, &in));
		out = *one(60);
		TRY(select(61, one(ends[1]), &out, NULL, NULL));
		struct pollfd p[] = { { ends[1], POLLIN, 7 },
				      { 60, POLLIN, 7 },
				      { -1, POLLIN, 7 },
				      { ends[1], POLLOUT, 7 },
				      { ends[1], POLLPRI, 7 } };
		VALUE(poll(p, 5, -1));
		for (int k = 0; k < 5; k++)
			VALUE(p[k].revents);
		p[1].fd = ~p[1].fd;
		VALUE(poll(p, 5, -1));
		for (int k = 0; k < 5; k++)
			VALUE(p[k].revents);
		VALUE(poll(p + 1, 2, 10));
		VALUE(poll(p, 0, 10));
		/* Both ends, twice. */
		in = *one(ends[1]);
		FD_SET(ends[0], &in);
		out = *one(ends[1]);
		FD_SET(ends[0], &out);
		VALUE(select(64, &in, &out, NULL, NULL));
		VALUE(FD_ISSET(ends[0], &in) * 8 + FD_ISSET(ends[1], &in) * 4 +
		      FD_ISSET(ends[0], &out) * 2 + FD_ISSET(ends[1], &out));
		hear(ends[1]);
	}
	/* The number is a pipe's, no file's, and another stream's. */
	tell(ends[0]);
	LOOK(ends[1]);
	MUST(dup2(fds[0], ends[1]));
	LOOK(ends[1]);
	MUST(write(fds[1], "x", 1));
	LOOK(ends[1]);
	MUST(close(ends[1]));
	TRY(select(ends[1] + 1, one(ends[1]), NULL, NULL, NULL));
	LOOK(ends[1]);
	stream_pair(AF_INET, others);
	prompt(others);
	if (others[1] != old)
		MUST(dup2(others[1], old));
	ends[0] = others[0];
	ends[1] = old;
	LOOK(ends[1]);
	tell(ends[0]);
	LOOK(ends[1]);
	LOOK(others[1]);
	hear(others[1]);
	LOOK(ends[1]);
	warm(10);
	LOOK(ends[1]);
	TRY(dup2(ends[1], 400));
	tell(ends[0]);
	LOOK(400);
	MUST(close(ends[1]));
	LOOK(400);
	LOOK(ends[1]);
}

/* A child has the same stream, and takes from it. */
static void children(void)
{
	for (int i = 0; i < 4; i++) {
		pid_t pid;

		tell(ends[0]);
		LOOK(ends[1]);
		pid = child();
		if (!pid) {
			LOOK(ends[1]);
			hear(ends[1]);
			LOOK(ends[1]);
			exit(0);
		}
		join(pid);
		LOOK(ends[1]);
		pid = later(tell, ends[0]);
		VALUE(select(ends[1] + 1, one(ends[1]), NULL, NULL, NULL));
		LOOK(ends[1]);
		join(pid);
		hear(ends[1]);
		pid = later(tell, ends[0]);
		VALUE(poll(&(struct pollfd){ ends[1], POLLIN, 0 }, 1, -1));
		join(pid);
		pid = child();
		if (!pid) {
			usleep(30000);
			hear(ends[1]);
			_exit(0);
		}
		while (poll(&(struct pollfd){ ends[1], POLLIN, 0 }, 1, 0))
			;
		join(pid);
		warm(5);
	}
}

static void *waits(void *result)
{
	*(int *)result = select(ends[1] + 1, one(ends[1]), NULL, NULL, NULL);
	return NULL;
}

static void *polls_for(void *result)
{
	*(int *)result = poll(&(struct pollfd){ ends[1], POLLIN, 0 }, 1, 10000);
	return NULL;
}

static void *hears(void *unused)
{
	hear(ends[1]);
	return unused;
}

static void threads(void)
{
	for (int i = 0; i < 6; i++) {
		int results[3] = { 0 };
		pthread_t all[3];

		pthread_create(&all[0], NULL, waits, &results[0]);
		pthread_create(&all[1], NULL, polls_for, &results[1]);
		if (i % 2)
			usleep(20000);
		pthread_create(&all[2], NULL, polls_for, &results[2]);
		usleep(i * 100);
		tell(ends[0]);
		for (int k = 0; k < 3; k++)
			pthread_join(all[k], NULL);
		VALUE(results[0] * 100 + results[1] * 10 + results[2]);
		LOOK(ends[1]);
		hear(ends[1]);
		LOOK(ends[1]);
		/* One that is cancelled while it waits. */
		void *end;

		pthread_create(&all[0], NULL, i % 2 ? waits : polls_for, &results[0]);
		usleep(20000);
		pthread_cancel(all[0]);
		pthread_join(all[0], &end);
		VALUE(end == PTHREAD_CANCELED);
		LOOK(ends[1]);
		warm(6);
	}
}

/* What a thread that has been waiting since before takes. */
static void thread_takes(void)
{
	int others[2];
	pthread_t thread;

	for (int i = 0; i < 5; i++) {
		stream_pair(AF_INET, others);
		prompt(others);
		ends[0] = others[0];
		ends[1] = others[1];
		pthread_create(&thread, NULL, hears, NULL);
		usleep(20000);
		VALUE(select(ends[1] + 1, one(ends[1]), NULL, NULL, &(struct timeval){ 0, 1000 }));
		VALUE(poll(&(struct pollfd){ ends[1], POLLIN, 0 }, 1, 1));
		tell(ends[0]);
		pthread_join(thread, NULL);
		LOOK(ends[1]);
		warm(5);
	}
}

static unsigned dice(void)
{
	static unsigned state = 12345;

	state = state * 1103515245 + 12345;
	return state >> 16;
}

/* Streams, a pipe and an epoll instance, by all ways in turn: no call ever reports anything that is not there. */
static void ways(void)
{
	int fds[2], set, copy, wrong = 0, had[3] = { 0 };
	struct epoll_event e = { .events = EPOLLIN };
	struct timespec zero = { 0 };

	MUST(pipe(fds));
	set = MUST(epoll_create1(EPOLL_CLOEXEC));
	MUST(epoll_ctl(set, EPOLL_CTL_ADD, ends[1], &e));
	copy = MUST(dup(ends[0]));
	for (int i = 0; i < 3000; i++) {
		int which = dice() % 3, from[3] = { ends[1], fds[0], ends[0] };
		int to[3] = { ends[0], fds[1], ends[1] }, found[3] = { 0 };
		int with_pipe = 0, of_epoll = -1, n = 0;
		char byte = 'x';
		struct pollfd p[3];
		fd_set in;

		if (had[which])
			had[which] -= MUST(read(from[which], &byte, 1));
		else
			had[which] += MUST(write(to[which], &byte, 1));
		FD_ZERO(&in);
		with_pipe = dice() % 4 == 0;
		for (int k = 0; k < 3; k++) {
			int skip = k == 1 && !with_pipe;

			p[k] = (struct pollfd){ skip ? -1 : from[k], POLLIN, 0 };
			if (!skip)
				FD_SET(from[k], &in);
		}
		/* Not before the test is warm is any of it special. */
		switch (dice() % (i < 1500 ? 4 : 9)) {
		case 0:
			n = poll(p, 3, dice() % 16 ? 0 : 1);
			break;
		case 1:
			n = ppoll(p, 3, &zero, NULL);
			break;
		case 2:
			n = select(256, &in, NULL, NULL, &(struct timeval){ 0 });
			goto by_sets;
		case 3:
			n = pselect(256, &in, NULL, NULL, &(struct timespec){ 0, dice() % 2 }, NULL);
			goto by_sets;
		case 4:
			n = syscall(SYS_poll, p, 3, 0);
			break;
		case 5:
			n = syscall(SYS_pselect6, 256, &in, NULL, NULL, &zero, NULL);
			goto by_sets;
		case 6:
			of_epoll = epoll_wait(set, &e, 1, 0);
			break;
		case 7:
			p[0].fd = set;
			n = poll(p, 3, 0);
			break;
		case 8:
			p[2].fd = copy;
			n = poll(p, 3, 0);
			break;
		by_sets:
			for (int k = 0; k < 3; k++)
				p[k].revents = p[k].fd >= 0 && FD_ISSET(p[k].fd, &in) ? POLLIN : 0;
		}
		if (of_epoll >= 0) {
			wrong += of_epoll != had[0];
			continue;
		}
		for (int k = 0; k < 3; k++) {
			found[k] = !!(p[k].revents & POLLIN);
			if (p[k].fd >= 0)
				wrong += found[k] != had[k];
			n -= found[k];
		}
		wrong += n != 0;
	}
	VALUE(wrong);
}

/* A thread that waits natively, beside others that look at boards and change things. */
static void *wakes(void *fd)
{
	for (int i = 0; i < 200; i++) {
		usleep(100 + i % 7 * 50);
		tell(*(int *)fd);
	}
	return NULL;
}

static void wakings(void)
{
	pthread_t thread;
	long bytes = 0;
	char some[16];

	pthread_create(&thread, NULL, wakes, &ends[0]);
	while (bytes < 800) {
		struct pollfd p = { ends[1], POLLIN, 0 };
		struct timeval time = { 5, 0 };
		int n = bytes / 4 % 2 ? poll(&p, 1, 5000) :
					select(ends[1] + 1, one(ends[1]), NULL, NULL, &time);

		if (n != 1) {
			VALUE(n);
			break;
		}
		bytes += MUST(recv(ends[1], some, 4, MSG_DONTWAIT));
	}
	pthread_join(thread, NULL);
	VALUE(bytes);
	LOOK(ends[1]);
}

/* Time-outs that there are not, whatever is ready. */
static void no_times(void)
{
	static const long halves[][2] = { { -1, 0 }, { 0, -1 }, { 0, 1000000000 } };
	struct pollfd p = { ends[1], POLLIN, 0 };

	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 3; i++) {
			struct timespec time = { halves[i][0], halves[i][1] };

			TRY(ppoll(&p, 1, &time, NULL));
			TRY(pselect(ends[1] + 1, one(ends[1]), NULL, NULL, &time, NULL));
		}
		for (int i = 0; i < 2; i++) {
			struct timeval time = { halves[i][0], halves[i][1] };

			TRY(select(ends[1] + 1, one(ends[1]), NULL, NULL, &time));
		}
		MUST(send(ends[0], "tell", 4, 0));
		WAIT(ends[1], POLLIN);
	}
}

int main(void)
{
	static const struct {
		const char *name;
		void (*part)(void);
	} parts[] = {
		{ "levels", levels },
		{ "filled", filled },
		{ "ends", ends_of_streams },
		{ "listeners", listeners },
		{ "times", times },
		{ "signals", signals },
		{ "handlers", handlers },
		{ "numbers", numbers },
		{ "children", children },
		{ "threads", threads },
		{ "a thread that takes", thread_takes },
		{ "ways", ways },
		{ "wakings", wakings },
		{ "no times", no_times },
	};

	begin();
	for (unsigned i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
		pid_t pid;

		title(parts[i].name);
		pid = child();
		if (!pid) {
			make();
			parts[i].part();
			exit(0);
		}
		join(pid);
	}
	return 0;
}
