/* A datagram longer than the buffer: cut off, and said so where asked. */
#include "check.h"

int main(void)
{
	begin();
	EACH_FAMILY(family) {
		char buffer[32] = "";
		struct iovec iov = { buffer, 3 };
		struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
		int p[2], waiting;

		title(family_name(family));
		datagram_pair(family, p);
		for (int i = 0; i < 6; i++)
			MUST(send(p[0], "0123456789", 10, 0));
		WAIT(p[1], POLLIN);
		TRY(ioctl(p[1], FIONREAD, &waiting));
		VALUE(waiting);
		TRY(recv(p[1], buffer, 4, 0));
		TEXT(buffer);
		TRY(recv(p[1], buffer, 4, MSG_TRUNC));
		TRY(recv(p[1], buffer, 4, MSG_PEEK | MSG_TRUNC));
		TRY(recvmsg(p[1], &m, 0));
		VALUE(!!(m.msg_flags & MSG_TRUNC));
		TRY(recvmsg(p[1], &m, MSG_TRUNC));
		VALUE(!!(m.msg_flags & MSG_TRUNC));
		iov.iov_len = 32;
		TRY(recvmsg(p[1], &m, MSG_TRUNC));
		VALUE(m.msg_flags);
		TRY(recv(p[1], buffer, 0, 0));
		TRY(recv(p[1], buffer, 32, MSG_DONTWAIT));
		TRY(send(p[0], "x", 1, 0));
		TRY(recv(p[1], NOWHERE, 4, 0));
		TRY(recv(p[1], buffer, 32, MSG_DONTWAIT));
		close(p[0]);
		close(p[1]);
	}
	return 0;
}
