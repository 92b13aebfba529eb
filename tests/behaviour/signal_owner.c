/* A file's owner: SIGIO for O_ASYNC, SIGURG for urgent data, and the processes that get them. */
#include "check.h"
#include <pthread.h>

#ifndef SIOCSPGRP
#include <linux/sockios.h>
#endif

static volatile sig_atomic_t hits;

static void on_signal(int sig)
{
	(void)sig;
	hits++;
}

static sigset_t set;

/* The next blocked signal, which comes within five seconds. */
static int next_signal(const char *name, int fd)
{
	struct timespec t = { .tv_sec = 5 };
	siginfo_t info = { 0 };
	int sig = sigtimedwait(&set, &info, &t);

	if (sig < 0)
		printf("%s: no signal\n", name);
	else if (sig == SIGRTMIN)
		printf("%s: real-time, band has %s, its descriptor %s\n", name,
		       events_name(info.si_band & (POLLIN | POLLPRI | POLLHUP | POLLERR)),
		       info.si_fd == fd ? "is ours" : "isn't");
	else
		printf("%s: SIG%s\n", name, sigabbrev_np(sig));
	return sig;
}

/* Forgets what came more than once. */
static void no_signals(void)
{
	struct timespec none = { 0 };

	while (sigtimedwait(&set, NULL, &none) > 0)
		;
}

static void handlers(int family)
{
	char buffer[8];
	int p[2];

	stream_pair(family, p);
	TRY(fcntl(p[1], F_GETOWN));
	TRY(fcntl(p[1], F_SETOWN, getpid()));
	VALUE(fcntl(p[1], F_GETOWN) == getpid());

	title("SIGURG");
	hits = 0;
	TRY(send(p[0], "!", 1, MSG_OOB));
	WAIT(p[1], POLLPRI);
	TRY(recv(p[1], buffer, 1, MSG_OOB));
	VALUE(hits);
	TRY(send(p[0], "data", 4, 0));
	WAIT(p[1], POLLIN);
	VALUE(hits);
	TRY(recv(p[1], buffer, 8, 0));

	title("SIGIO");
	TRY(fcntl(p[1], F_SETFL, O_ASYNC));
	VALUE(fcntl(p[1], F_GETFL) == (O_ASYNC | O_RDWR));
	for (int i = 0; i < 3; i++) {
		hits = 0;
		TRY(send(p[0], "io", 2, 0));
		WAIT(p[1], POLLIN);
		VALUE(hits > 0);
	}
	TRY(recv(p[1], buffer, 8, 0));
	TRY(fcntl(p[1], F_SETFL, O_NONBLOCK));
	VALUE(fcntl(p[1], F_GETFL) == (O_NONBLOCK | O_RDWR));
	hits = 0;
	TRY(send(p[0], "io", 2, 0));
	WAIT(p[1], POLLIN);
	VALUE(hits);
	close(p[0]);
	close(p[1]);
}

static void *own_thread(void *fd)
{
	struct f_owner_ex owner = { F_OWNER_TID, syscall(SYS_gettid) };

	TRY(fcntl(*(int *)fd, F_SETOWN_EX, &owner));
	*(int *)fd = -1;
	next_signal("thread", -1);
	return NULL;
}

static void owners(int family)
{
	struct f_owner_ex owner = { F_OWNER_PGRP, getpgrp() };
	int p[2], one = 1, zero = 0, target = -getpgrp();
	pthread_t thread;

	title("a group");
	stream_pair(family, p);
	TRY(fcntl(p[1], F_SETOWN_EX, &owner));
	memset(&owner, 0, sizeof(owner));
	TRY(fcntl(p[1], F_GETOWN_EX, &owner));
	VALUE(owner.type == F_OWNER_PGRP && owner.pid == getpgrp());
	VALUE(fcntl(p[1], F_GETOWN) == -getpgrp());
	TRY(send(p[0], "!", 1, MSG_OOB));
	next_signal("group", p[1]);
	no_signals();

	title("by ioctl()");
	TRY(ioctl(p[1], SIOCSPGRP, &target));
	target = 0;
	TRY(ioctl(p[1], SIOCGPGRP, &target));
	VALUE(target == -getpgrp());
	target = getpid();
	TRY(ioctl(p[1], FIOSETOWN, &target));
	target = 0;
	TRY(ioctl(p[1], FIOGETOWN, &target));
	VALUE(target == getpid());
	TRY(ioctl(p[1], FIOSETOWN, NOWHERE));
	TRY(ioctl(p[1], FIOASYNC, &one));
	VALUE(fcntl(p[1], F_GETFL) == (O_ASYNC | O_RDWR));
	TRY(send(p[0], "data", 4, 0));
	next_signal("ioctl", p[1]);
	TRY(ioctl(p[1], FIOASYNC, &zero));
	VALUE(fcntl(p[1], F_GETFL) == O_RDWR);
	close(p[0]);
	close(p[1]);
	no_signals();

	title("another signal, with its descriptor");
	stream_pair(family, p);
	TRY(fcntl(p[1], F_SETSIG, SIGRTMIN));
	VALUE(fcntl(p[1], F_GETSIG) == SIGRTMIN);
	TRY(fcntl(p[1], F_SETSIG, 999));
	TRY(fcntl(p[1], F_SETOWN, getpid()));
	TRY(fcntl(p[1], F_SETFL, O_ASYNC | O_NONBLOCK));
	no_signals();
	TRY(send(p[0], "data", 4, 0));
	next_signal("received", p[1]);
	no_signals();
	close(p[0]);
	next_signal("closed", p[1]);
	close(p[1]);
	no_signals();

	title("a listener");
	int l = listener(family);
	TRY(fcntl(l, F_SETOWN, getpid()));
	TRY(fcntl(l, F_SETFL, O_ASYNC));
	int c = connect_to(family, SOCK_STREAM, port_of(l));
	next_signal("connection", l);
	close(c);
	close(l);
	no_signals();

	title("a datagram");
	datagram_pair(family, p);
	TRY(fcntl(p[1], F_SETOWN, getpid()));
	TRY(fcntl(p[1], F_SETFL, O_ASYNC));
	no_signals();
	TRY(send(p[0], "data", 4, 0));
	next_signal("datagram", p[1]);
	close(p[0]);
	close(p[1]);
	no_signals();

	title("a thread");
	stream_pair(family, p);
	volatile int fd = p[1];
	MUST(pthread_create(&thread, NULL, own_thread, (void *)&fd));
	while (fd >= 0)
		usleep(1000);
	MUST(send(p[0], "!", 1, MSG_OOB));
	pthread_join(thread, NULL);
	TRY(recv(p[1], &zero, 1, MSG_OOB));

	title("a child");
	int ready[2];
	MUST(pipe(ready));
	pid_t pid = child();
	if (!pid) {
		MUST(write(ready[1], "r", 1));
		next_signal("child", p[1]);
		exit(0);
	}
	MUST(read(ready[0], &zero, 1));
	TRY(fcntl(p[1], F_SETOWN, pid));
	MUST(send(p[0], "!", 1, MSG_OOB));
	join(pid);
	close(ready[0]);
	close(ready[1]);
	TRY(fcntl(p[1], F_SETOWN, 0));
	TRY(fcntl(p[1], F_SETOWN, 1 << 30));
	close(p[0]);
	close(p[1]);
	no_signals();
}

int main(void)
{
	begin();
	setpgid(0, 0);
	signal(SIGIO, on_signal);
	signal(SIGURG, on_signal);
	EACH_FAMILY(family) {
		title(family_name(family));
		handlers(family);
	}
	sigemptyset(&set);
	sigaddset(&set, SIGIO);
	sigaddset(&set, SIGURG);
	sigaddset(&set, SIGRTMIN);
	MUST(sigprocmask(SIG_BLOCK, &set, NULL));
	EACH_FAMILY(family) {
		title(family_name(family));
		owners(family);
	}
	return 0;
}
