/* A TCP socket handed over a unix socket, to oneself and to a child. */
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

int main(void)
{
	char buffer[32] = "";
	int p[2], tcp[2];

	begin();
	MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, p));
	stream_pair(AF_INET, tcp);
	title("to oneself");
	send_fd(p[0], tcp[0]);
	int got = receive_fd(p[1]);
	TRY(send(got, "from here", 9, MSG_NOSIGNAL));
	TRY(recv(tcp[1], buffer, 32, MSG_DONTWAIT));
	TEXT(buffer);
	close(got);

	title("to a child");
	pid_t pid = child();
	if (!pid) {
		close(tcp[0]);
		close(tcp[1]);
		got = receive_fd(p[1]);
		TRY(send(got, "from the child", 14, MSG_NOSIGNAL));
		fflush(stdout);
		_exit(0);
	}
	send_fd(p[0], tcp[0]);
	join(pid);
	TRY(recv(tcp[1], buffer, 32, MSG_DONTWAIT));
	TEXT(buffer);
	return 0;
}
