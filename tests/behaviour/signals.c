/* Signals at blocked calls: EINTR, or with SA_RESTART no sign of them. */
#include "check.h"
#include <pthread.h>
#include <setjmp.h>
#include <sys/resource.h>

static volatile sig_atomic_t hits;
static int third[2] = { -1, -1 }; /* a pipe that tells of the third signal */

static void on_signal(int sig)
{
	(void)sig;
	if (++hits == 3 && third[1] >= 0 && write(third[1], "3", 1) < 0)
		abort();
}

static void handle(int sig, int flags)
{
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = flags };

	sigaction(sig, &sa, NULL);
	hits = 0;
}

/* SIGALRM every 20 ms, so that none comes too early to be noticed. */
static void ticking(int on)
{
	struct itimerval t = { { 0, on ? 20000 : 0 }, { 0, on ? 20000 : 0 } };

	setitimer(ITIMER_REAL, &t, NULL);
}

/* SIGALRM blocked, or not, without a trace in errno. */
static long calm(int how, long result)
{
	int error = errno;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	sigprocmask(how, &set, NULL);
	errno = error;
	return result;
}

/* As TRY, with the line printed undisturbed. */
#define TICKED(call)                                                           \
	(errno = 0, report(#call, calm(SIG_BLOCK, (long)(call))),              \
	 (void)calm(SIG_UNBLOCK, 0))

/* A child that waits for the third signal. */
static pid_t child_after_third(void)
{
	char byte;
	pid_t pid;

	if (third[0] >= 0) {
		close(third[0]);
		close(third[1]);
	}
	MUST(pipe(third));
	pid = child();
	if (!pid && read(third[0], &byte, 1) != 1)
		_exit(3);
	return pid;
}

static char much[16 << 20]; /* more than two sockets buffer */

/* Sends until there is no room for a byte and a signal comes. */
static long send_on(int fd)
{
	long n;

	do {
		n = send(fd, much, sizeof(much), 0);
	} while (n > 0);
	return n;
}

/* A listener that takes no more connections: the next connect() waits. */
static int full_listener(int family, int *port)
{
	int l = bound(family, SOCK_STREAM);

	MUST(listen(l, 0));
	*port = port_of(l);
	connect_to(family, SOCK_STREAM, *port);
	return l;
}

static void interrupted(int family)
{
	char buffer[8];
	union address a;
	int p[2], port, l = listener(family), full = full_listener(family, &port);
	int late = MUST(socket(family, SOCK_STREAM, 0));
	socklen_t len = loopback(family, port, &a);

	stream_pair(family, p);
	handle(SIGALRM, 0);
	ticking(1);
	title("interrupted");
	TICKED(recv(p[1], buffer, 8, 0));
	TICKED(read(p[1], buffer, 8));
	TICKED(accept(l, NULL, NULL));
	TICKED(connect(late, &a.any, len));
	TICKED(connect(late, &a.any, len));
	struct pollfd wait = { p[1], POLLIN, 0 };
	TICKED(poll(&wait, 1, -1));
	TICKED(send_on(p[0]));
	ticking(0);
	VALUE(hits > 6);

	title("by alarm()");
	alarm(1);
	TICKED(accept(l, NULL, NULL));
	limit_life();

	title("half done");
	int q[2];
	stream_pair(family, q);
	MUST(send(q[0], "half", 4, 0));
	ticking(1);
	long n;
	do { /* on Vink it may not have begun when a signal comes */
		n = recv(q[1], buffer, 8, MSG_WAITALL);
	} while (n < 0 && errno == EINTR);
	ticking(0);
	VALUE(n);
	for (int i = 0; i < 2; i++) {
		close(p[i]);
		close(q[i]);
	}
	close(l);
	close(late);
	close(full);
}

static void restarted(int family)
{
	char buffer[8];
	union address a;
	int p[2], port, l = listener(family), full = full_listener(family, &port);
	int late = MUST(socket(family, SOCK_STREAM, 0));
	socklen_t len = loopback(family, port, &a);

	title("restarted");
	stream_pair(family, p);
	handle(SIGALRM, SA_RESTART);
	pid_t pid = child_after_third();
	if (!pid) {
		send(p[0], "late", 4, 0);
		_exit(0);
	}
	ticking(1);
	TRY(recv(p[1], buffer, 8, 0));
	ticking(0);
	VALUE(hits >= 3);
	join(pid);

	hits = 0;
	pid = child_after_third();
	if (!pid) {
		connect_to(family, SOCK_STREAM, port_of(l));
		_exit(0);
	}
	ticking(1);
	FD(accept(l, NULL, NULL));
	ticking(0);
	join(pid);

	hits = 0;
	pid = child_after_third();
	if (!pid) {
		MUST(accept(full, NULL, NULL));
		_exit(0);
	}
	ticking(1);
	TRY(connect(late, &a.any, len));
	ticking(0);
	join(pid);

	hits = 0;
	pid = child_after_third();
	if (!pid)
		_exit(recv(p[1], much, sizeof(much), MSG_WAITALL) !=
		      sizeof(much));
	size_t sent = 0;
	ticking(1);
	while (sent < sizeof(much)) {
		ssize_t n = send(p[0], much + sent, sizeof(much) - sent, 0);
		if (n < 0)
			break;
		sent += n;
	}
	ticking(0);
	VALUE(sent == sizeof(much));
	join(pid);
	close(p[0]);
	close(p[1]);
	close(l);
	close(late);
	close(full);
}

static sigjmp_buf back;

static void on_jump(int sig)
{
	(void)sig;
	siglongjmp(back, 1);
}

static void jumps(int family)
{
	struct sigaction sa = { .sa_handler = on_jump };
	char buffer[8] = "";
	volatile int count = 0;
	int p[2];

	title("left by siglongjmp()");
	stream_pair(family, p);
	sigaction(SIGALRM, &sa, NULL);
	if (sigsetjmp(back, 1))
		count++;
	if (count < 3) {
		ticking(1);
		recv(p[1], buffer, 4, 0);
	}
	ticking(0);
	VALUE(count);
	TRY(send(p[0], "1234", 4, 0));
	TRY(recv(p[1], buffer, 4, 0));
	TEXT(buffer);
	close(p[0]);
	close(p[1]);
}

struct waiter {
	pthread_t thread;
	int kind, family, fd;
	volatile long result;
	volatile int error;
	volatile sig_atomic_t over;
};

static void *wait_in_call(void *arg)
{
	struct waiter *w = arg;
	char buffer[8];

	switch (w->kind) {
	case 0:
		w->result = recv(w->fd, buffer, 8, 0);
		break;
	case 1:
		w->result = read(w->fd, buffer, 8);
		break;
	case 2:
		w->result = accept(w->fd, NULL, NULL);
		break;
	default:
		w->result = send_on(w->fd);
		break;
	}
	w->error = errno;
	w->over = 1;
	return NULL;
}

/* Each thread's own signal interrupts only its own call. */
static void threads(int family)
{
	static const char *const names[] = { "recv", "read", "accept", "send" };
	struct waiter w[4];
	int p[2];

	title("threads");
	stream_pair(family, p);
	handle(SIGUSR1, 0);
	for (int i = 0; i < 4; i++) {
		w[i] = (struct waiter){ .kind = i, .family = family };
		w[i].fd = i == 2 ? listener(family) : i == 3 ? p[0] : p[1];
		if (i < 2) {
			int q[2];
			stream_pair(family, q);
			w[i].fd = q[1];
		}
		pthread_create(&w[i].thread, NULL, wait_in_call, &w[i]);
	}
	for (int i = 3; i >= 0; i--) {
		while (!w[i].over) {
			pthread_kill(w[i].thread, SIGUSR1);
			usleep(1000);
		}
		pthread_join(w[i].thread, NULL);
		printf("%s: %ld %s, others over: %d\n", names[i], w[i].result,
		       strerrorname_np(w[i].error),
		       i > 0 && (w[0].over || w[i - 1].over));
	}
	close(p[0]);
	close(p[1]);
}

/* Signals without a handler. */
static void endings(int family)
{
	static const int signals[] = { SIGTERM, SIGQUIT, SIGABRT, SIGKILL, SIGPIPE };
	struct rlimit none = { 0, 0 };
	char buffer[8];
	int p[2], ready[2];

	title("without a handler");
	setrlimit(RLIMIT_CORE, &none);
	stream_pair(family, p);
	MUST(pipe(ready));
	for (unsigned i = 0; i < 5; i++) {
		pid_t pid = child();
		if (!pid) {
			/* What a shell starts in the background ignores SIGQUIT. */
			signal(signals[i], SIG_DFL);
			if (write(ready[1], "r", 1) != 1)
				_exit(3);
			recv(p[1], buffer, 8, 0);
			_exit(1);
		}
		MUST(read(ready[0], buffer, 1));
		kill(pid, signals[i]);
		join(pid);
	}
	title("stopped and continued");
	pid_t pid = child();
	if (!pid) {
		/* What is not of a shell's job, as in CI, SIGTSTP does not stop: this makes it ours. */
		MUST(setpgid(0, 0));
		if (write(ready[1], "r", 1) != 1)
			_exit(3);
		_exit(recv(p[1], buffer, 8, 0) != 4);
	}
	MUST(read(ready[0], buffer, 1));
	for (int i = 0; i < 3; i++) {
		int status;
		kill(pid, i ? SIGTSTP : SIGSTOP);
		MUST(waitpid(pid, &status, WUNTRACED));
		VALUE(WIFSTOPPED(status));
		kill(pid, SIGCONT);
		MUST(waitpid(pid, &status, WCONTINUED));
		VALUE(WIFCONTINUED(status));
	}
	TRY(send(p[0], "data", 4, 0));
	join(pid);
	close(p[0]);
	close(p[1]);
}

/* What needs no socket stays as it is. */
static void suspended(void)
{
	sigset_t set, old;

	title("sigsuspend()");
	handle(SIGUSR1, SA_RESTART);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, &old);
	pid_t pid = child();
	if (!pid) {
		kill(getppid(), SIGUSR1);
		_exit(0);
	}
	join(pid);
	VALUE(hits);
	TRY(sigsuspend(&old));
	VALUE(hits);
	sigprocmask(SIG_SETMASK, &old, NULL);
}

int main(void)
{
	begin();
	EACH_FAMILY(family) {
		title(family_name(family));
		interrupted(family);
		restarted(family);
		jumps(family);
		threads(family);
		limit_life();
		signal(SIGALRM, SIG_DFL);
		endings(family);
	}
	suspended();
	return 0;
}
