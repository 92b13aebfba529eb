/* Pointers to nowhere in each argument that takes one: EFAULT, no crash. */
#include "check.h"

int main(void)
{
	begin();
	EACH_FAMILY(family) {
		union address a;
		socklen_t len = loopback(family, 0, &a);
		char buffer[8];
		int value = 0, p[2], d[2];

		title(family_name(family));
		int s = socket(family, SOCK_STREAM, 0);
		TRY(bind(s, NOWHERE, len));
		TRY(bind(s, NULL, len));
		TRY(bind(s, (void *)-8L, len));
		TRY(connect(s, NOWHERE, len));
		TRY(getsockname(s, NOWHERE, &len));
		TRY(getsockname(s, &a.any, NOWHERE));
		TRY(getsockname(s, &a.any, NULL));
		TRY(getsockopt(s, SOL_SOCKET, SO_TYPE, NOWHERE, &len));
		TRY(getsockopt(s, SOL_SOCKET, SO_TYPE, &value, NOWHERE));
		TRY(setsockopt(s, SOL_SOCKET, SO_KEEPALIVE, NOWHERE, 4));
		TRY(ioctl(s, FIONREAD, NOWHERE));
		TRY(ioctl(s, SIOCGIFFLAGS, NOWHERE));
		TRY(ioctl(s, SIOCGIFCONF, NOWHERE));
		close(s);

		title("accept");
		int l = listener(family);
		int c = connect_to(family, SOCK_STREAM, port_of(l));
		WAIT(l, POLLIN);
		len = sizeof(a);
		TRY(accept(l, NOWHERE, &len));
		close(c);
		c = connect_to(family, SOCK_STREAM, port_of(l));
		TRY(accept(l, &a.any, NOWHERE));
		close(c);
		close(l);

		title("a stream");
		stream_pair(family, p);
		TRY(send(p[0], NOWHERE, 8, 0));
		TRY(write(p[0], NOWHERE, 8));
		TRY(send(p[0], NOWHERE, 0, 0));
		MUST(send(p[0], "12345678", 8, 0));
		WAIT(p[1], POLLIN);
		TRY(recv(p[1], NOWHERE, 4, 0));
		TRY(read(p[1], NOWHERE, 4));
		TRY(recv(p[1], buffer, 8, 0));
		struct iovec iov[2] = { { "ok", 2 }, { NOWHERE, 2 } };
		TRY(writev(p[0], iov, 2));
		iov[0] = (struct iovec){ buffer, 2 };
		MUST(send(p[0], "abcd", 4, 0));
		TRY(readv(p[1], iov, 2));
		TRY(writev(p[0], NOWHERE, 1));
		TRY(readv(p[1], NOWHERE, 1));
		volatile int many = 1025;
		TRY(writev(p[0], iov, -many));
		TRY(writev(p[0], iov, many));
		TRY(getpeername(p[0], NOWHERE, &len));

		title("datagrams");
		datagram_pair(family, d);
		TRY(send(d[0], NOWHERE, 8, 0));
		TRY(sendto(d[0], "x", 1, 0, NOWHERE, 16));
		TRY(sendmsg(d[0], NOWHERE, 0));
		TRY(recvmsg(d[1], NOWHERE, MSG_DONTWAIT));
		struct msghdr m = { .msg_iov = NOWHERE, .msg_iovlen = 1 };
		TRY(sendmsg(d[0], &m, 0));
		TRY(recvmsg(d[1], &m, MSG_DONTWAIT));
		m = (struct msghdr){ .msg_name = NOWHERE, .msg_namelen = 16 };
		TRY(sendmsg(d[0], &m, 0));
		MUST(send(d[0], "name", 4, 0));
		WAIT(d[1], POLLIN);
		len = sizeof(a);
		TRY(recvfrom(d[1], buffer, 8, 0, NOWHERE, &len));
		MUST(send(d[0], "name", 4, 0));
		WAIT(d[1], POLLIN);
		TRY(recvfrom(d[1], buffer, 8, 0, &a.any, NOWHERE));
		TRY(sendmmsg(d[0], NOWHERE, 1, 0));
		TRY(recvmmsg(d[1], NOWHERE, 1, MSG_DONTWAIT, NULL));
		TRY(socketpair(AF_UNIX, SOCK_STREAM, 0, NOWHERE));
		for (int i = 0; i < 2; i++) {
			close(p[i]);
			close(d[i]);
		}
	}
	return 0;
}
