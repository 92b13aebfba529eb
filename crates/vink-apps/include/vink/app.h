/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Virtualized processes in C: programs that run inside a Vink worker, as tasks
 * of their machine.
 *
 * A shared object with a vink_app_main() is started as an app by its path and
 * arguments, "so:/path/lib.so ARGUMENTS": argv[0] is the path. What the function
 * returns is the exit status.
 *
 *	cc -shared -fPIC -I.../include -o lib.so app.c
 *
 * The calls of the table are those of the same names in libc, made on the
 * machine's kernel: they set errno, and their descriptors are the app's own and
 * no others'. libc's calls of these names are the host's, and what blocks there
 * blocks the whole worker.
 *
 * While a call waits, other apps run on, on the same thread. So an app has no
 * thread of its own and must make none; it makes a call now and then; global
 * variables are shared by all apps of the same file; its stack has 256 KiB, some
 * of which the kernel takes while it serves a call.
 *
 * Once the app is to stop, every call but close() fails with EINTR: return.
 * All descriptors are closed then.
 */
#ifndef VINK_APP_H
#define VINK_APP_H

#include <poll.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

/* Of this table. A later one only adds members at its end. */
#define VINK_APP_VERSION	1

struct vink_app {
	uint32_t version;	/* VINK_APP_VERSION of the worker */
	uint32_t size;		/* of the worker's table, bytes */

	int (*socket)(int domain, int type, int protocol);
	int (*bind)(int fd, const struct sockaddr *address, socklen_t len);
	int (*connect)(int fd, const struct sockaddr *address, socklen_t len);
	int (*listen)(int fd, int backlog);
	int (*accept4)(int fd, struct sockaddr *address, socklen_t *len,
		       int flags);
	int (*getsockname)(int fd, struct sockaddr *address, socklen_t *len);
	int (*getpeername)(int fd, struct sockaddr *address, socklen_t *len);
	int (*setsockopt)(int fd, int level, int name, const void *value,
			  socklen_t len);
	int (*getsockopt)(int fd, int level, int name, void *value,
			  socklen_t *len);
	int (*shutdown)(int fd, int how);

	ssize_t (*send)(int fd, const void *data, size_t len, int flags);
	ssize_t (*recv)(int fd, void *buffer, size_t len, int flags);
	ssize_t (*sendto)(int fd, const void *data, size_t len, int flags,
			  const struct sockaddr *address, socklen_t alen);
	ssize_t (*recvfrom)(int fd, void *buffer, size_t len, int flags,
			    struct sockaddr *address, socklen_t *alen);
	ssize_t (*sendmsg)(int fd, const struct msghdr *message, int flags);
	ssize_t (*recvmsg)(int fd, struct msghdr *message, int flags);
	ssize_t (*read)(int fd, void *buffer, size_t len);
	ssize_t (*write)(int fd, const void *data, size_t len);

	int (*poll)(struct pollfd *fds, nfds_t count, int ms);
	int (*epoll_create1)(int flags);
	int (*epoll_ctl)(int epfd, int what, int fd, struct epoll_event *event);
	int (*epoll_wait)(int epfd, struct epoll_event *events, int room,
			  int ms);
	int (*clock_gettime)(clockid_t clock, struct timespec *time);
	int (*nanosleep)(const struct timespec *time, struct timespec *left);
	/* With all their arguments, also those that libc takes or leaves. */
	int (*fcntl)(int fd, int command, long argument);
	int (*ioctl)(int fd, unsigned long request, void *argument);

	int (*close)(int fd);
	/* Any other call: as syscall(2), with all its arguments. */
	long (*syscall)(long number, long a, long b, long c, long d, long e,
			long f);

	/* Adds to the app's output, of which the newest 32 KiB are kept. */
	void (*print)(const char *text);
	/* Tells the owner that the app does what it is there for. */
	void (*ready)(void);
	/*
	 * What the app has done so far, as JSON text, for the owner. 0, or
	 * -1 with EINVAL: it is no JSON.
	 */
	int (*report)(const char *json);
	/* Whether the app is to stop. */
	int (*stopping)(void);
};

/* What the shared object defines. */
int vink_app_main(const struct vink_app *app, int argc, char **argv);

/* printf(3) to the app's output; at most 1023 bytes at a time. */
__attribute__((format(printf, 2, 3)))
static inline void vink_app_printf(const struct vink_app *app,
				   const char *format, ...)
{
	char text[1024];
	va_list words;

	va_start(words, format);
	vsnprintf(text, sizeof(text), format, words);
	va_end(words);
	app->print(text);
}

#endif /* VINK_APP_H */
