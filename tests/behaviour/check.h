/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the behaviour programs share: one printed line per check, the loopback
 * interface brought up, and sockets on it. Nothing printed may depend on
 * ephemeral ports, process ids, times or descriptor numbers, so that a run on
 * the host and a run on Vink can be compared line by line.
 */
#ifndef CHECK_H
#define CHECK_H

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* A descriptor that is not open. */
#define NO_FD 999
/* An address that is not mapped; volatile, so that the compiler can't tell. */
static volatile uintptr_t nowhere = 8;
#define NOWHERE ((void *)nowhere)

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	struct sockaddr_un un;
	struct sockaddr_storage all;
};

static const int families[] = { AF_INET, AF_INET6 };
#define EACH_FAMILY(f)                                                         \
	for (unsigned f##_ = 0, f; f##_ < 2 && (f = families[f##_], 1); f##_++)

/* Prints the call and its result or errno, and gives the result back. */
#define TRY(call) (errno = 0, report(#call, (long)(call)))
/* The same for calls that return a descriptor, whose number is not shown. */
#define FD(call) (errno = 0, (int)report_fd(#call, (call)))
/* Prints an expression and its value. */
#define VALUE(expr) ((void)printf("%s is %ld\n", #expr, (long)(expr)))
/* Prints an expression and the text that it gives. */
#define TEXT(expr) ((void)printf("%s is \"%s\"\n", #expr, (expr)))
/* For set-up that is not what the program is about: silent unless it fails. */
#define MUST(call)                                                             \
	({                                                                     \
		long must_ = (long)(call);                                     \
		if (must_ < 0) {                                               \
			printf("set-up: %s: %s\n", #call,                      \
			       strerrorname_np(errno));                        \
			exit(2);                                               \
		}                                                              \
		must_;                                                         \
	})

static inline long report(const char *what, long result)
{
	if (result == -1 && errno)
		printf("%s: %s\n", what, strerrorname_np(errno));
	else
		printf("%s = %ld\n", what, result);
	return result;
}

static inline long report_fd(const char *what, int fd)
{
	if (fd < 0)
		printf("%s: %s\n", what, strerrorname_np(errno));
	else
		printf("%s = a descriptor\n", what);
	return fd;
}

static inline void title(const char *text)
{
	printf("-- %s\n", text);
}

static inline const char *family_name(int family)
{
	return family == AF_INET ? "IPv4" : "IPv6";
}

/* "POLLIN|POLLHUP" for a poll() or epoll mask, which agree in these bits. */
static inline const char *events_name(unsigned events)
{
	static const struct { unsigned bit; const char *name; } names[] = {
		{ POLLIN, "IN" }, { POLLPRI, "PRI" }, { POLLOUT, "OUT" },
		{ POLLERR, "ERR" }, { POLLHUP, "HUP" }, { POLLNVAL, "NVAL" },
		{ POLLRDHUP, "RDHUP" },
	};
	static char text[64];

	text[0] = 0;
	for (unsigned i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (!(events & names[i].bit))
			continue;
		if (*text)
			strcat(text, "|");
		strcat(text, names[i].name);
	}
	return *text ? text : "none";
}

/* Waits up to two seconds for any of the events and prints those found. */
static inline unsigned wait_for(const char *what, int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };

	poll(&p, 1, 2000);
	printf("%s: %s\n", what, events_name(p.revents));
	return p.revents;
}
#define WAIT(fd, events) wait_for("poll " #fd " for " #events, fd, events)

/* The events that are there already. */
static inline void show_events(const char *what, int fd)
{
	struct pollfd p = { .fd = fd,
			    .events = POLLIN | POLLOUT | POLLPRI | POLLRDHUP };

	poll(&p, 1, 0);
	printf("events of %s: %s\n", what, events_name(p.revents));
}
#define EVENTS(fd) show_events(#fd, fd)

static inline socklen_t loopback(int family, int port, union address *a)
{
	memset(a, 0, sizeof(*a));
	a->any.sa_family = family;
	if (family == AF_INET) {
		a->v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		a->v4.sin_port = htons(port);
		return sizeof(a->v4);
	}
	a->v6.sin6_addr = in6addr_loopback;
	a->v6.sin6_port = htons(port);
	return sizeof(a->v6);
}

static inline int port_of(int fd)
{
	union address a;
	socklen_t len = sizeof(a);

	MUST(getsockname(fd, &a.any, &len));
	return ntohs(a.any.sa_family == AF_INET ? a.v4.sin_port :
						  a.v6.sin6_port);
}

/* A socket bound to a free port of the loopback address. */
static inline int bound(int family, int type)
{
	union address a;
	socklen_t len = loopback(family, 0, &a);
	int fd = MUST(socket(family, type, 0));

	MUST(bind(fd, &a.any, len));
	return fd;
}

static inline int listener(int family)
{
	int fd = bound(family, SOCK_STREAM);

	MUST(listen(fd, 16));
	return fd;
}

static inline int connect_to(int family, int type, int port)
{
	union address a;
	socklen_t len = loopback(family, port, &a);
	int fd = MUST(socket(family, type, 0));

	MUST(connect(fd, &a.any, len));
	return fd;
}

/* Both ends of a connection: pair[0] has called connect(). */
static inline void stream_pair(int family, int pair[2])
{
	int l = listener(family);

	pair[0] = connect_to(family, SOCK_STREAM, port_of(l));
	pair[1] = MUST(accept(l, NULL, NULL));
	MUST(close(l));
}

/* Two datagram sockets connected to each other. */
static inline void datagram_pair(int family, int pair[2])
{
	union address a;
	socklen_t len;

	pair[0] = bound(family, SOCK_DGRAM);
	pair[1] = connect_to(family, SOCK_DGRAM, port_of(pair[0]));
	len = loopback(family, port_of(pair[1]), &a);
	MUST(connect(pair[0], &a.any, len));
}

static inline void set_int(int fd, int level, int option, int value)
{
	MUST(setsockopt(fd, level, option, &value, sizeof(value)));
}

static inline long get_int(int fd, int level, int option)
{
	int value = -1;
	socklen_t len = sizeof(value);

	MUST(getsockopt(fd, level, option, &value, &len));
	return value;
}

/* Sets an integer option and prints what is read back, with its length. */
static inline void set_and_get(const char *name, int fd, int level, int option,
			       int value)
{
	socklen_t len = sizeof(value);
	int back = -1;

	if (setsockopt(fd, level, option, &value, sizeof(value)) < 0) {
		printf("set %s to %d: %s\n", name, value,
		       strerrorname_np(errno));
		return;
	}
	if (getsockopt(fd, level, option, &back, &len) < 0)
		printf("set %s to %d, get: %s\n", name, value,
		       strerrorname_np(errno));
	else
		printf("set %s to %d, get %d in %u bytes\n", name, value, back,
		       len);
}
#define ROUND_TRIP(fd, level, option, value)                                   \
	set_and_get(#option, fd, level, option, value)

/* An option's value before it is set. */
static inline void get_default(const char *name, int fd, int level, int option)
{
	socklen_t len = sizeof(int);
	int value = -1;

	if (getsockopt(fd, level, option, &value, &len) < 0)
		printf("get %s: %s\n", name, strerrorname_np(errno));
	else
		printf("get %s: %d in %u bytes\n", name, value, len);
}
#define DEFAULT(fd, level, option) get_default(#option, fd, level, option)

/*
 * Ends the process after 30 seconds, or with its parent, so that a failed run
 * leaves nothing behind. A forked child calls it again.
 */
static inline void limit_life(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(30);
}

/* fork(), and a child that can't outlive the test. */
static inline pid_t child(void)
{
	pid_t pid;

	fflush(stdout);
	pid = MUST(fork());
	if (!pid)
		limit_life();
	return pid;
}

/* Waits for a child and prints how it ended. */
static inline void join(pid_t pid)
{
	int status;

	MUST(waitpid(pid, &status, 0));
	if (WIFEXITED(status))
		printf("child exited with %d\n", WEXITSTATUS(status));
	else
		printf("child was ended by SIG%s\n",
		       sigabbrev_np(WTERMSIG(status)));
}

/* Every program begins with this: a fresh network has its loopback down. */
static inline void begin(void)
{
	struct ifreq ifr = { .ifr_name = "lo" };
	int fd;

	limit_life();
	setvbuf(stdout, NULL, _IOLBF, 0);
	fd = MUST(socket(AF_INET, SOCK_DGRAM, 0));
	MUST(ioctl(fd, SIOCGIFFLAGS, &ifr));
	ifr.ifr_flags |= IFF_UP;
	MUST(ioctl(fd, SIOCSIFFLAGS, &ifr));
	MUST(close(fd));
}

#endif /* CHECK_H */
