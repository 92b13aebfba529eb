/* poll(), ppoll(), select() and pselect() with sockets, other files and signals. */
#include "check.h"
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

static volatile sig_atomic_t hits;

static void on_signal(int sig)
{
	(void)sig;
	hits++;
}

/*
 * A process that sends data, most probably when its parent waits for it; what
 * the parent finds is the same if not.
 */
static pid_t soon(int fd, const char *data, int flags)
{
	pid_t pid = child();

	if (pid)
		return pid;
	usleep(20000);
	send(fd, data, strlen(data), flags);
	_exit(0);
}

static void gone(pid_t pid)
{
	int status;

	MUST(waitpid(pid, &status, 0));
}

/* A process that sends signals until it is stopped. */
static pid_t alarms(void)
{
	pid_t pid = child();

	if (pid)
		return pid;
	for (;;) {
		usleep(20000);
		kill(getppid(), SIGUSR1);
	}
}

static void stop(pid_t pid)
{
	kill(pid, SIGKILL);
	gone(pid);
	VALUE(hits > 0);
	hits = 0;
}

static void show(const char *what, int n, struct pollfd *p, int count)
{
	if (n < 0)
		printf("%s: %s\n", what, strerrorname_np(errno));
	else
		printf("%s: %d ready", what, n);
	for (int i = 0; n >= 0 && i < count; i++)
		printf(", %d %s", i, events_name(p[i].revents));
	if (n >= 0)
		printf("\n");
}
#define POLL(p, count, timeout)                                                \
	show("poll " #p " of " #count, poll(p, count, timeout), p, count)

static int choose(const char *what, int fd, int kind, struct timeval *t)
{
	fd_set sets[3];
	int n;

	for (int i = 0; i < 3; i++) {
		FD_ZERO(&sets[i]);
		if (kind & 1 << i)
			FD_SET(fd, &sets[i]);
	}
	n = select(fd + 1, kind & 1 ? &sets[0] : NULL, kind & 2 ? &sets[1] : NULL,
		   kind & 4 ? &sets[2] : NULL, t);
	if (n < 0) {
		printf("%s: %s\n", what, strerrorname_np(errno));
		return n;
	}
	printf("%s: %d:%s%s%s\n", what, n, kind & 1 && FD_ISSET(fd, &sets[0]) ? " read" : "",
	       kind & 2 && FD_ISSET(fd, &sets[1]) ? " write" : "",
	       kind & 4 && FD_ISSET(fd, &sets[2]) ? " except" : "");
	return n;
}

static void waiting(int family)
{
	struct timeval t = { .tv_sec = 5 };
	char buffer[16];
	int p[2], fds[2];

	title("data that comes while a set waits");
	stream_pair(family, p);
	MUST(pipe(fds));
	struct pollfd one[] = { { p[1], POLLIN, 0 } };
	struct pollfd two[] = { { p[1], POLLIN | POLLRDHUP, 0 }, { fds[0], POLLIN, 0 },
				{ -1, POLLIN, 0 }, { NO_FD, POLLIN, 0 } };
	pid_t pid = soon(p[0], "a", 0);
	POLL(one, 1, 5000);
	gone(pid);
	TRY(recv(p[1], buffer, 16, 0));
	pid = soon(p[0], "b", 0);
	POLL(two, 3, 5000);
	gone(pid);
	POLL(two, 4, 5000);
	TRY(recv(p[1], buffer, 16, 0));
	POLL(two, 4, 5000);
	POLL(two, 3, 0);
	pid = soon(p[0], "c", 0);
	choose("select", p[1], 1, &t);
	VALUE(t.tv_sec == 4);
	gone(pid);
	TRY(recv(p[1], buffer, 16, 0));

	title("urgent data that comes while a set waits");
	one[0].events = POLLPRI;
	pid = soon(p[0], "!", MSG_OOB);
	POLL(one, 1, 5000);
	gone(pid);
	choose("select", p[1], 4, &t);
	choose("select", p[1], 7, &t);
	TRY(recv(p[1], buffer, 1, MSG_OOB));
	choose("select", p[1], 6, &t);
	pid = soon(p[0], "!", MSG_OOB);
	choose("select", p[1], 4, &t);
	gone(pid);
	TRY(recv(p[1], buffer, 1, MSG_OOB));
	two[0].events = POLLPRI;
	pid = soon(p[0], "!", MSG_OOB);
	POLL(two, 3, 5000);
	gone(pid);
	TRY(recv(p[1], buffer, 1, MSG_OOB));
	POLL(one, 1, 0);

	title("time-outs");
	t = (struct timeval){ .tv_usec = 10000 };
	choose("select", p[1], 1, &t);
	VALUE(t.tv_sec || t.tv_usec);
	POLL(one, 1, 10);
	POLL(two, 3, 10);
	t.tv_sec = -1;
	choose("select", p[1], 1, &t);
	TRY(select(-1, NULL, NULL, NULL, &t));
	TRY(poll(NOWHERE, 1, 0));

	title("the peer closes while a set waits");
	two[0].events = POLLIN | POLLRDHUP;
	pid = child();
	if (!pid) {
		close(p[1]);
		usleep(20000);
		_exit(0);
	}
	close(p[0]);
	POLL(two, 3, 5000);
	gone(pid);
	choose("select", p[1], 7, NULL);
	close(p[1]);
	close(fds[0]);
	close(fds[1]);
}

static void signals(int family)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	struct timespec t = { .tv_sec = 5 };
	sigset_t none, usr1;
	fd_set set;
	int p[2];

	title("signals");
	stream_pair(family, p);
	struct pollfd one[] = { { p[1], POLLIN, 0 } };
	sigemptyset(&none);
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	MUST(sigaction(SIGUSR1, &action, NULL));
	pid_t pid = alarms();
	POLL(one, 1, 5000);
	stop(pid);
	pid = alarms();
	choose("select", p[1], 1, NULL);
	stop(pid);

	title("one that is let in by the mask");
	MUST(sigprocmask(SIG_BLOCK, &usr1, NULL));
	raise(SIGUSR1);
	VALUE(hits);
	POLL(one, 1, 0);
	VALUE(hits);
	show("ppoll", ppoll(one, 1, &t, &none), one, 1);
	VALUE(hits);
	raise(SIGUSR1);
	FD_ZERO(&set);
	FD_SET(p[1], &set);
	TRY(pselect(p[1] + 1, &set, NULL, NULL, &t, &none));
	VALUE(hits);
	int ep = MUST(epoll_create1(0));
	struct epoll_event e = { .events = EPOLLIN };
	MUST(epoll_ctl(ep, EPOLL_CTL_ADD, p[1], &e));
	raise(SIGUSR1);
	TRY(epoll_pwait(ep, &e, 1, 5000, &none));
	VALUE(hits);

	title("one that is kept out by the mask");
	raise(SIGUSR1);
	MUST(send(p[0], "x", 1, 0));
	show("ppoll", ppoll(one, 1, &t, &usr1), one, 1);
	TRY(epoll_pwait(ep, &e, 1, 5000, &usr1));
	VALUE(hits);
	MUST(sigprocmask(SIG_UNBLOCK, &usr1, NULL));
	VALUE(hits);
	hits = 0;
	close(ep);
	close(p[0]);
	close(p[1]);
}

static void mixture(int family)
{
	struct itimerspec late = { .it_value.tv_nsec = 20000000 };
	char name[] = "/tmp/vink-wait-XXXXXX", buffer[256];
	uint64_t one = 1;
	sigset_t usr2;
	int p[2];

	title("with other files");
	stream_pair(family, p);
	sigemptyset(&usr2);
	sigaddset(&usr2, SIGUSR2);
	MUST(sigprocmask(SIG_BLOCK, &usr2, NULL));
	int folder = MUST(inotify_init1(0));
	MUST(mkdtemp(name) ? 0 : -1);
	MUST(inotify_add_watch(folder, name, IN_DELETE_SELF));
	struct pollfd all[] = {
		{ p[1], POLLIN, 0 },
		{ MUST(eventfd(0, 0)), POLLIN, 0 },
		{ MUST(timerfd_create(CLOCK_MONOTONIC, 0)), POLLIN, 0 },
		{ MUST(signalfd(-1, &usr2, 0)), POLLIN, 0 },
		{ folder, POLLIN, 0 },
		{ p[0], POLLIN, 0 },
	};
	POLL(all, 6, 0);
	MUST(timerfd_settime(all[2].fd, 0, &late, NULL));
	POLL(all, 6, 5000);
	MUST(read(all[2].fd, buffer, 8));
	MUST(write(all[1].fd, &one, 8));
	POLL(all, 6, 5000);
	MUST(read(all[1].fd, buffer, 8));
	raise(SIGUSR2);
	POLL(all, 6, 5000);
	MUST(read(all[3].fd, buffer, sizeof(buffer)));
	MUST(rmdir(name));
	POLL(all, 6, 5000);
	MUST(read(all[4].fd, buffer, sizeof(buffer)));
	MUST(send(p[1], "x", 1, 0));
	POLL(all, 6, 5000);
	MUST(send(p[0], "x", 1, 0));
	all[0].events |= POLLOUT;
	POLL(all, 6, 5000);
	pid_t pid = soon(p[0], "y", 0);
	MUST(recv(p[1], buffer, 1, 0));
	all[0].events = POLLIN;
	all[5].fd = -1;
	POLL(all, 6, 5000);
	gone(pid);
	for (int i = 0; i < 5; i++)
		close(all[i].fd);
	close(p[0]);
	MUST(sigprocmask(SIG_UNBLOCK, &usr2, NULL));
}

int main(void)
{
	begin();
	EACH_FAMILY(family) {
		title(family_name(family));
		waiting(family);
		signals(family);
		mixture(family);
	}
	return 0;
}
