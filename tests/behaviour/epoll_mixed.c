/* One epoll for sockets, a pipe, an eventfd, a timer and another epoll. */
#include "check.h"
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

static int ep;

static void add(int fd, unsigned tag)
{
	struct epoll_event e = { .events = EPOLLIN, .data.u64 = tag };

	TRY(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
}

static void look(int timeout)
{
	struct epoll_event e[8];
	int n = epoll_wait(ep, e, 8, timeout);

	printf("%d ready:", n);
	for (unsigned tag = 0; tag < 10; tag++)
		for (int i = 0; i < n; i++)
			if (e[i].data.u64 == tag)
				printf(" %u", tag);
	printf("\n");
}

int main(void)
{
	struct itimerspec soon = { .it_value.tv_nsec = 1000000 };
	uint64_t one = 1;
	char buffer[16];
	int p[2], udp[2], fds[2];
	sigset_t set;

	begin();
	ep = FD(epoll_create(1));
	stream_pair(AF_INET, p);
	datagram_pair(AF_INET6, udp);
	MUST(pipe(fds));
	int event = FD(eventfd(0, EFD_NONBLOCK));
	int timer = FD(timerfd_create(CLOCK_MONOTONIC, 0));
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	int sig = FD(signalfd(-1, &set, 0));
	add(p[1], 1);
	add(udp[1], 2);
	add(fds[0], 3);
	add(event, 4);
	add(timer, 5);
	add(sig, 6);
	look(0);

	title("each of them alone");
	MUST(send(p[0], "x", 1, 0));
	look(2000);
	MUST(recv(p[1], buffer, 16, 0));
	MUST(send(udp[0], "x", 1, 0));
	look(2000);
	MUST(recv(udp[1], buffer, 16, 0));
	MUST(write(fds[1], "x", 1));
	look(2000);
	MUST(read(fds[0], buffer, 16));
	MUST(write(event, &one, 8));
	look(2000);
	MUST(read(event, buffer, 8));
	TRY(timerfd_settime(timer, 0, &soon, NULL));
	look(2000);
	MUST(read(timer, buffer, 8));
	raise(SIGUSR1);
	look(2000);
	struct signalfd_siginfo info;
	MUST(read(sig, &info, sizeof(info)));
	look(0);

	title("together");
	MUST(send(p[0], "x", 1, 0));
	MUST(send(udp[0], "x", 1, 0));
	MUST(write(fds[1], "x", 1));
	MUST(write(event, &one, 8));
	WAIT(p[1], POLLIN);
	WAIT(udp[1], POLLIN);
	look(0);

	title("woken while waiting");
	MUST(recv(p[1], buffer, 16, 0));
	MUST(recv(udp[1], buffer, 16, 0));
	MUST(read(fds[0], buffer, 16));
	MUST(read(event, buffer, 8));
	pid_t pid = child();
	if (!pid) {
		send(p[0], "wake", 4, 0);
		_exit(0);
	}
	look(-1);
	join(pid);

	title("an epoll within");
	struct epoll_event e = { .events = EPOLLIN };
	int outer = epoll_create1(0);
	TRY(epoll_ctl(outer, EPOLL_CTL_ADD, ep, &e));
	TRY(epoll_wait(outer, &e, 1, 0));
	MUST(recv(p[1], buffer, 16, 0));
	TRY(epoll_wait(outer, &e, 1, 0));
	MUST(send(p[0], "x", 1, 0));
	TRY(epoll_wait(outer, &e, 1, 2000));

	title("errors");
	TRY(epoll_ctl(ep, EPOLL_CTL_ADD, ep, &e));
	TRY(epoll_ctl(ep, EPOLL_CTL_ADD, NO_FD, &e));
	TRY(epoll_ctl(ep, 99, p[0], &e));
	TRY(epoll_ctl(ep, EPOLL_CTL_ADD, p[0], NOWHERE));
	TRY(epoll_ctl(p[0], EPOLL_CTL_ADD, p[1], &e));
	TRY(epoll_wait(p[0], &e, 1, 0));
	TRY(epoll_wait(ep, &e, 0, 0));
	TRY(epoll_wait(ep, NOWHERE, 1, 0));
	TRY(epoll_wait(NO_FD, &e, 1, 0));
	return 0;
}
