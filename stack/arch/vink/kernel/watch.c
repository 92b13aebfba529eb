// SPDX-License-Identifier: GPL-2.0
/*
 * Readiness, for a host that mirrors it into descriptors of its own.
 *
 * One epoll instance holds every watched file, and one task waits on it and
 * tells the host. The kernel's own epoll knows when a file is gone.
 */

#include <linux/fdtable.h>
#include <linux/file.h>
#include <linux/uaccess.h>
#include <linux/eventpoll.h>
#include <linux/poll.h>
#include <linux/sched/task.h>
#include <linux/syscalls.h>

#include <asm/versions.h>
#include <asm/vink.h>

static struct file *watches;

long vink_poll(int fd)
{
	CLASS(fd, f)(fd);

	if (fd_empty(f))
		return -EBADF;
	return vfs_poll(fd_file(f), NULL) & 0xffff;
}

long vink_watch(int fd, u64 cookie, u32 events)
{
	struct epoll_event event = {
		.events	= events | EPOLLET,
		.data	= cookie,
	};
	long err;
	int epfd;

	/* epoll works on descriptors: lend the task one for a moment. */
	epfd = get_unused_fd_flags(0);
	if (epfd < 0)
		return epfd;
	fd_install(epfd, get_file(watches));
	if (events) {
		err = do_epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event, false);
		if (err == -EEXIST)
			err = do_epoll_ctl(epfd, EPOLL_CTL_MOD, fd, &event,
					   false);
	} else {
		err = do_epoll_ctl(epfd, EPOLL_CTL_DEL, fd, NULL, false);
		if (err == -ENOENT)
			err = 0;
	}
	close_fd(epfd);
	return err ?: vink_poll(fd);
}

static int __noreturn watch_main(void *unused)
{
	static struct epoll_event events[64];
	int epfd = sys_epoll_create1(0);
	int i, n;

	watches = fget(epfd);
	for (;;) {
		n = sys_epoll_wait(epfd, (__force void __user *)events,
				   ARRAY_SIZE(events), -1);
		for (i = 0; i < n; i++)
			vink_ops->ready(vink_host, events[i].data,
					events[i].events);
		cond_resched();
	}
}

int vink_watch_init(void)
{
	int pid = user_mode_thread(watch_main, NULL, SIGCHLD);

	return pid < 0 ? pid : 0;
}
