/* A descriptor on its way over a unix socket: unix(7), SCM_RIGHTS. */
#include "check.h"

static void send_fd(int over, int fd)
{
	char control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec iov = { "f", 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	TRY(sendmsg(over, &m, 0));
}

static int receive_fd(int over)
{
	char control[CMSG_SPACE(sizeof(int))], byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	int fd = -1;

	TRY(recvmsg(over, &m, MSG_CMSG_CLOEXEC));
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	if (c)
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	VALUE(fd >= 0);
	VALUE(fcntl(fd, F_GETFD));
	return fd;
}
