/*
 * SCTP, one-to-one style (RFC 6458 section 4). A host kernel may lack SCTP, so
 * the expected lines are in sctp.expected: what the RFC and sctp(7) say.
 */
#include "check.h"

int main(void)
{
	begin();
	signal(SIGPIPE, SIG_IGN);
	EACH_FAMILY(family) {
		union address a;
		char buffer[16] = "";
		struct iovec iov = { buffer, 3 };
		struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

		title(family_name(family));
		int l = FD(socket(family, SOCK_STREAM, IPPROTO_SCTP));
		int c = FD(socket(family, SOCK_STREAM, IPPROTO_SCTP));
		if (l < 0 || c < 0)
			continue;
		socklen_t len = loopback(family, 0, &a);
		TRY(bind(l, &a.any, len));
		TRY(listen(l, 4));
		TRY(send(c, "x", 1, 0));
		TRY(recv(c, buffer, 16, 0));
		len = loopback(family, port_of(l), &a);
		TRY(connect(c, &a.any, len));
		TRY(connect(c, &a.any, len));
		WAIT(l, POLLIN);
		int s = FD(accept(l, NULL, NULL));

		title("message bounds are kept");
		TRY(send(c, "first", 5, 0));
		TRY(send(c, "second", 6, 0));
		TRY(recv(s, buffer, 16, 0));
		TEXT(buffer);
		TRY(recvmsg(s, &m, 0));
		VALUE(!!(m.msg_flags & MSG_EOR));
		TRY(recvmsg(s, &m, 0));
		VALUE(!!(m.msg_flags & MSG_EOR));
		TRY(send(c, "", 0, 0));

		title("the other way, and the end");
		memset(buffer, 0, sizeof(buffer));
		TRY(send(s, "back", 4, 0));
		TRY(recv(c, buffer, 16, 0));
		TEXT(buffer);
		TRY(close(s));
		WAIT(c, POLLRDHUP);
		TRY(recv(c, buffer, 16, 0));
		TRY(send(c, "x", 1, 0));
		close(c);
		close(l);

		title("refused");
		c = socket(family, SOCK_STREAM, IPPROTO_SCTP);
		TRY(connect(c, &a.any, len));
		close(c);
	}
	return 0;
}
