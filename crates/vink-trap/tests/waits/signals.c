/* Waiting for signals: pause(), sigsuspend(), sigtimedwait(), signalfd(), and waits that signals end. */
#include "exact.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/signalfd.h>

static void caught(int signal)
{
	say("SIG%s", sigabbrev_np(signal));
}

/* A child that sends these signals, `ms` apart. */
static void sender(long ms, int first, int second)
{
	pid_t parent = getpid();

	if (MUST(fork()))
		return;
	rest(ms * MS);
	kill(parent, first);
	if (second) {
		rest(ms * MS);
		kill(parent, second);
	}
	_exit(0);
}

static void *send_to(void *thread)
{
	rest(10 * MS);
	TRY0(pthread_kill(*(pthread_t *)thread, SIGUSR1));
	return NULL;
}

static void *wait_for_it(void *set)
{
	int signal = sigwaitinfo(set, NULL);

	say("the thread has SIG%s", sigabbrev_np(signal));
	return NULL;
}

int main(void)
{
	struct sigaction a = { .sa_handler = caught }, restarts = { .sa_handler = caught, .sa_flags = SA_RESTART };
	struct timespec t = span(5 * MS);
	struct epoll_event e = { .events = EPOLLIN, .data.u64 = 77 };
	struct signalfd_siginfo info;
	sigset_t usr1, both, none;
	pthread_t self = pthread_self(), other;
	char byte;
	int ends[2];

	begin();
	sigemptyset(&none);
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	both = usr1;
	sigaddset(&both, SIGUSR2);
	sigaction(SIGUSR1, &a, NULL);
	sigaction(SIGUSR2, &restarts, NULL);
	MUST(pipe(ends));

	sender(10, SIGUSR1, 0);
	TRY(pause());
	sender(10, SIGUSR1, 0);
	TRY(read(ends[0], &byte, 1));
	sender(10, SIGUSR2, SIGUSR1);
	TRY(read(ends[0], &byte, 1));
	sender(10, SIGUSR2, 0);
	TRY(poll(NULL, 0, 100));
	other = begin_thread(send_to, &self);
	TRY(pause());
	pthread_join(other, NULL);

	sigprocmask(SIG_BLOCK, &both, NULL);
	sender(10, SIGUSR1, SIGUSR2);
	TRY(sigsuspend(&usr1));
	TRY(sigtimedwait(&usr1, NULL, &t) == SIGUSR1);
	TRY(sigtimedwait(&both, NULL, &t));
	sender(10, SIGUSR2, 0);
	TRY(sigwaitinfo(&both, NULL) == SIGUSR2);
	sender(10, SIGUSR1, 0);
	TRY(ppoll(NULL, 0, NULL, &none));
	sender(10, SIGUSR1, 0);
	t = span(15 * MS);
	TRY(pselect(0, NULL, NULL, NULL, &t, &usr1));
	TRY(pselect(0, NULL, NULL, NULL, &t, &none));
	other = begin_thread(wait_for_it, &both);
	rest(10 * MS);
	TRY(kill(getpid(), SIGUSR2));
	pthread_join(other, NULL);
	sigprocmask(SIG_UNBLOCK, &usr1, NULL);
	sender(10, SIGUSR1, 0);
	sigset_t usr2 = both;
	sigdelset(&usr2, SIGUSR1);
	TRY(sigwaitinfo(&usr2, NULL));
	sigprocmask(SIG_BLOCK, &usr1, NULL);

	int fd = MUST(signalfd(-1, &both, 0));
	struct pollfd p = { fd, POLLIN, 0 };
	sender(10, SIGUSR1, SIGUSR2);
	TRY(read(fd, &info, sizeof(info)));
	say("SIG%s", sigabbrev_np(info.ssi_signo));
	TRY(poll(&p, 1, 5));
	TRY(poll(&p, 1, 50));
	TRY(read(fd, &info, sizeof(info)));
	say("SIG%s", sigabbrev_np(info.ssi_signo));
	int ep = MUST(epoll_create1(0));
	MUST(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
	sender(10, SIGUSR1, 0);
	TRY(epoll_wait(ep, &e, 1, 5));
	memset(&e, 0, sizeof(e));
	TRY(epoll_wait(ep, &e, 1, -1));
	say("%u of %lu", e.events, (unsigned long)e.data.u64);
	MUST(fcntl(fd, F_SETFL, O_NONBLOCK));
	TRY(read(fd, &info, sizeof(info)));
	TRY(read(fd, &info, sizeof(info)));
	TRY(epoll_wait(ep, &e, 1, 5));
	return 0;
}
