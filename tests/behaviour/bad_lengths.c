/* Lengths that are too short, too long or negative. */
#include "check.h"

int main(void)
{
	begin();
	EACH_FAMILY(family) {
		union address a;
		socklen_t len = loopback(family, 0, &a);
		char buffer[200] = "";
		int p[2];

		title(family_name(family));
		int s = socket(family, SOCK_STREAM, 0);
		TRY(bind(s, &a.any, 0));
		TRY(bind(s, &a.any, 2));
		TRY(bind(s, &a.any, 15));
		TRY(bind(s, &a.any, 129));
		TRY(bind(s, &a.any, -1));
		TRY(bind(s, &a.any, 24));
		close(s);
		s = socket(family, SOCK_STREAM, 0);
		TRY(bind(s, &a.any, 128));
		close(s);
		s = socket(family, SOCK_STREAM, 0);
		TRY(connect(s, &a.any, 1));
		TRY(connect(s, &a.any, 4));
		TRY(connect(s, &a.any, 200));
		TRY(connect(s, &a.any, -1));

		title("names");
		stream_pair(family, p);
		len = 4;
		memset(&a, 0xee, sizeof(a));
		TRY(getsockname(p[0], &a.any, &len));
		VALUE(len);
		VALUE(a.any.sa_family == family);
		VALUE(((uint8_t *)&a)[4]);
		len = 0;
		TRY(getpeername(p[0], &a.any, &len));
		VALUE(len);
		len = -1;
		TRY(getpeername(p[0], &a.any, &len));
		len = sizeof(a);
		TRY(getpeername(p[0], &a.any, &len));
		VALUE(len);

		title("data");
		TRY(send(p[0], buffer, 0, 0));
		TRY(recv(p[1], buffer, 1, MSG_DONTWAIT));
		struct msghdr m = { 0 };
		TRY(sendmsg(p[0], &m, 0));
		struct iovec iov = { buffer, (size_t)-1 };
		m = (struct msghdr){ .msg_iov = &iov, .msg_iovlen = 1 };
		TRY(sendmsg(p[0], &m, 0));
		m.msg_iovlen = 1025;
		TRY(sendmsg(p[0], &m, 0));
		TRY(recvmsg(p[1], &m, MSG_DONTWAIT));
		iov.iov_len = 1;
		m.msg_iovlen = 1;
		m.msg_name = &a;
		m.msg_namelen = -1;
		TRY(sendmsg(p[0], &m, 0));
		m.msg_namelen = 500;
		TRY(sendmsg(p[0], &m, 0));
		TRY(recv(p[1], buffer, 8, MSG_DONTWAIT));
		m.msg_namelen = 0;
		m.msg_control = buffer;
		m.msg_controllen = (size_t)1 << 40;
		TRY(sendmsg(p[0], &m, 0));
		TRY(listen(p[0], -1));
		TRY(listen(s, -1));
		close(s);
		close(p[0]);
		close(p[1]);
	}
	return 0;
}
