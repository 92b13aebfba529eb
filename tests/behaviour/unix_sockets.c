/* Unix sockets: kinds, names, credentials, and descriptors handed over. */
#include "check.h"
#include <stddef.h>

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
	int p[2], fds[2];

	begin();
	TRY(socketpair(AF_UNIX, SOCK_STREAM, 0, p));
	TRY(send(p[0], "stream", 6, 0));
	TRY(recv(p[1], buffer, 32, 0));
	TEXT(buffer);
	struct ucred credentials;
	socklen_t len = sizeof(credentials);
	TRY(getsockopt(p[0], SOL_SOCKET, SO_PEERCRED, &credentials, &len));
	VALUE(credentials.pid == getpid());
	VALUE(credentials.uid == getuid());

	title("a pipe handed over");
	TRY(pipe(fds));
	send_fd(p[0], fds[0]);
	int got = receive_fd(p[1]);
	TRY(write(fds[1], "through", 7));
	TRY(read(got, buffer, 32));
	TEXT(buffer);
	close(got);

	title("named in the abstract space");
	union address a = { .un.sun_family = AF_UNIX };
	memcpy(a.un.sun_path + 1, "vink-check", 10);
	len = offsetof(struct sockaddr_un, sun_path) + 11;
	int l = FD(socket(AF_UNIX, SOCK_SEQPACKET, 0));
	TRY(bind(l, &a.any, len));
	TRY(listen(l, 1));
	int c = FD(socket(AF_UNIX, SOCK_SEQPACKET, 0));
	TRY(connect(c, &a.any, len));
	int s = FD(accept(l, NULL, NULL));
	TRY(send(c, "one", 3, 0));
	TRY(send(c, "two", 3, 0));
	memset(buffer, 0, sizeof(buffer));
	TRY(recv(s, buffer, 32, 0));
	TEXT(buffer);
	int other = socket(AF_UNIX, SOCK_DGRAM, 0);
	TRY(connect(other, &a.any, len));
	TRY(close(l));
	TRY(connect(other, &a.any, len));
	TRY(socketpair(AF_INET, SOCK_STREAM, 0, p));
	return 0;
}
