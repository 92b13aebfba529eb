/* Signals at calls of a thread that waits: EINTR, SA_RESTART, masks, what a handler may do. No process is made. */
#include "check.h"
#include <pthread.h>
#include <setjmp.h>
#include <sys/epoll.h>
#include <sys/select.h>

static volatile sig_atomic_t hits;
static int p[2], l;
static sigjmp_buf back;
static pthread_t main_thread;

/* The third one ends the wait that is begun anew each time. */
static void on_signal(int sig)
{
	(void)sig;
	if (++hits == 3)
		send(p[0], "late", 4, 0);
}

static void handle(int flags)
{
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = flags };

	MUST(sigaction(SIGALRM, &sa, NULL));
	hits = 0;
}

/* SIGALRM every 20 ms, so that none comes too early to be noticed. */
static void ticking(int on)
{
	struct itimerval t = { { 0, on ? 20000 : 0 }, { 0, on ? 20000 : 0 } };

	MUST(setitimer(ITIMER_REAL, &t, NULL));
}

static long ticked(long result)
{
	int error = errno;

	ticking(0);
	errno = error;
	return result;
}

/* As TRY, with the ticks on meanwhile. */
#define TICKED(call)                                                           \
	(ticking(1), errno = 0, report(#call, ticked((long)(call))))

static void jump(int sig)
{
	siglongjmp(back, sig);
}

static volatile sig_atomic_t code, sender_is_me, blocked;

static void explain(int sig, siginfo_t *info, void *context)
{
	sigset_t now;

	(void)context;
	sigprocmask(SIG_BLOCK, NULL, &now);
	blocked = sigismember(&now, sig) * 10 + sigismember(&now, SIGUSR2);
	code = info->si_code == SI_TKILL || info->si_code == SI_USER;
	sender_is_me = info->si_pid == getpid();
	send(p[0], "late", 4, 0);
}

static void *kick(void *unused)
{
	usleep(20000);
	MUST(-pthread_kill(main_thread, SIGUSR1));
	return unused;
}

static void waits(void)
{
	struct pollfd set[] = { { p[1], POLLIN, 0 }, { l, POLLIN, 0 } };
	struct timespec long_time = { 5, 0 };
	struct epoll_event e = { .events = EPOLLIN };
	int ends[2], ep = MUST(epoll_create1(0));
	fd_set in;

	MUST(pipe(ends));
	MUST(epoll_ctl(ep, EPOLL_CTL_ADD, p[1], &e));
	TICKED(poll(set, 2, -1));
	TICKED(ppoll(set, 2, &long_time, NULL));
	TICKED(epoll_wait(ep, &e, 1, -1));
	MUST(epoll_ctl(ep, EPOLL_CTL_ADD, ends[0], &e));
	TICKED(epoll_wait(ep, &e, 1, -1));
	set[1].fd = ends[0];
	TICKED(poll(set, 2, -1));
	FD_ZERO(&in);
	FD_SET(p[1], &in);
	FD_SET(ends[0], &in);
	TICKED(select(FD_SETSIZE, &in, NULL, NULL, NULL));
	VALUE(hits > 0);
	MUST(close(ep));
	MUST(close(ends[0]));
	MUST(close(ends[1]));
}

int main(void)
{
	struct sigaction sa = { .sa_sigaction = explain,
				.sa_flags = SA_SIGINFO | SA_RESTART };
	struct timespec long_time = { 5, 0 };
	char buffer[8] = "";
	sigset_t alarm, none;
	pthread_t t;

	begin();
	main_thread = pthread_self();
	sigemptyset(&none);
	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	sigaddset(&sa.sa_mask, SIGUSR2);
	EACH_FAMILY(family) {
		title(family_name(family));
		stream_pair(family, p);
		l = listener(family);
		title("without SA_RESTART");
		handle(0);
		hits = 4;
		TICKED(recv(p[1], buffer, 8, 0));
		TICKED(read(p[1], buffer, 8));
		TICKED(accept(l, NULL, NULL));
		waits();
		title("with SA_RESTART");
		MUST(close(p[0]));
		MUST(close(p[1]));
		stream_pair(family, p);
		handle(SA_RESTART);
		TICKED(recv(p[1], buffer, 8, 0));
		TEXT(buffer);
		VALUE(hits >= 3);
		handle(SA_RESTART);
		hits = 4;
		waits();
		title("out of a handler by a jump");
		signal(SIGALRM, jump);
		int sig = sigsetjmp(back, 1);
		if (!sig) {
			ticking(1);
			recv(p[1], buffer, 8, 0);
		}
		ticking(0);
		VALUE(sig == SIGALRM);
		TRY(send(p[0], "on", 2, 0));
		TRY(recv(p[1], buffer, 8, 0));
		title("blocked, and let through while it waits");
		handle(0);
		hits = 4;
		struct pollfd set = { p[1], POLLIN, 0 };
		MUST(sigprocmask(SIG_BLOCK, &alarm, NULL));
		ticking(1);
		TRY(poll(&set, 1, 100));
		VALUE(hits);
		TRY(ppoll(&set, 1, &long_time, &none));
		VALUE(hits > 4);
		ticking(0);
		hits = 4;
		TRY(raise(SIGALRM));
		VALUE(hits);
		TRY(pselect(0, NULL, NULL, NULL, NULL, &none));
		VALUE(hits);
		MUST(sigprocmask(SIG_UNBLOCK, &alarm, NULL));
		title("what a handler is told, and which signals wait for it");
		MUST(sigaction(SIGUSR1, &sa, NULL));
		MUST(-pthread_create(&t, NULL, kick, NULL));
		TRY(recv(p[1], buffer, 8, 0));
		MUST(-pthread_join(t, NULL));
		VALUE(code);
		VALUE(sender_is_me);
		VALUE(blocked);
		title("for once");
		sa.sa_flags |= SA_RESETHAND;
		MUST(sigaction(SIGUSR1, &sa, NULL));
		MUST(-pthread_create(&t, NULL, kick, NULL));
		TRY(recv(p[1], buffer, 8, 0));
		MUST(-pthread_join(t, NULL));
		struct sigaction old;
		MUST(sigaction(SIGUSR1, NULL, &old));
		VALUE(old.sa_handler == SIG_DFL);
		sa.sa_flags &= ~SA_RESETHAND;
		title("SIGPIPE");
		signal(SIGPIPE, on_signal);
		hits = 4;
		MUST(shutdown(p[0], SHUT_WR));
		TRY(send(p[0], "x", 1, 0));
		VALUE(hits);
		TRY(send(p[0], "x", 1, MSG_NOSIGNAL));
		VALUE(hits);
		signal(SIGPIPE, SIG_IGN);
		TRY(send(p[0], "x", 1, 0));
		limit_life();
		MUST(close(p[0]));
		MUST(close(p[1]));
		MUST(close(l));
	}
	return 0;
}
