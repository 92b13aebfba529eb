/* Control messages of datagrams: packet info, TTL, TOS, time stamps. */
#include "check.h"

static void show(int fd)
{
	char data[64], control[512];
	struct iovec iov = { data, sizeof(data) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };

	TRY(recvmsg(fd, &m, 0));
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		int value = 0;

		printf("level %d type %d, %zu bytes", c->cmsg_level,
		       c->cmsg_type, (size_t)c->cmsg_len - CMSG_LEN(0));
		memcpy(&value, CMSG_DATA(c),
		       c->cmsg_len - CMSG_LEN(0) < 4 ? 1 : 4);
		if (c->cmsg_level != SOL_SOCKET)
			printf(": %d", value);
		printf("\n");
	}
}

int main(void)
{
	begin();
	EACH_FAMILY(family) {
		int p[2];

		title(family_name(family));
		datagram_pair(family, p);
		send(p[0], "plain", 5, 0);
		show(p[1]);
		set_int(p[1], SOL_SOCKET, SO_TIMESTAMP, 1);
		send(p[0], "stamped", 7, 0);
		show(p[1]);
		set_int(p[1], SOL_SOCKET, SO_TIMESTAMPNS, 1);
		send(p[0], "stamped", 7, 0);
		show(p[1]);
		set_int(p[1], SOL_SOCKET, SO_TIMESTAMPNS, 0);
		set_int(p[1], SOL_SOCKET, SO_RXQ_OVFL, 1);
		if (family == AF_INET) {
			set_int(p[1], IPPROTO_IP, IP_PKTINFO, 1);
			set_int(p[1], IPPROTO_IP, IP_RECVTTL, 1);
			set_int(p[1], IPPROTO_IP, IP_RECVTOS, 1);
			set_int(p[0], IPPROTO_IP, IP_TTL, 17);
			set_int(p[0], IPPROTO_IP, IP_TOS, 0x20);
		} else {
			set_int(p[1], IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
			set_int(p[1], IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1);
			set_int(p[1], IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
			set_int(p[0], IPPROTO_IPV6, IPV6_UNICAST_HOPS, 17);
			set_int(p[0], IPPROTO_IPV6, IPV6_TCLASS, 0x20);
		}
		send(p[0], "told", 4, 0);
		show(p[1]);

		title("the sender says so for one datagram");
		char control[CMSG_SPACE(sizeof(int))] = { 0 };
		struct iovec iov = { "said", 4 };
		struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1,
				    .msg_control = control,
				    .msg_controllen = sizeof(control) };
		struct cmsghdr *c = CMSG_FIRSTHDR(&m);
		int ttl = 99;

		c->cmsg_level = family == AF_INET ? IPPROTO_IP : IPPROTO_IPV6;
		c->cmsg_type = family == AF_INET ? IP_TTL : IPV6_HOPLIMIT;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &ttl, sizeof(ttl));
		TRY(sendmsg(p[0], &m, 0));
		show(p[1]);
		c->cmsg_len = 3;
		TRY(sendmsg(p[0], &m, 0));
		c->cmsg_len = CMSG_LEN(sizeof(int));
		c->cmsg_type = 1234;
		TRY(sendmsg(p[0], &m, 0));
		m.msg_control = NOWHERE;
		TRY(sendmsg(p[0], &m, 0));

		title("too little room");
		send(p[0], "cut", 3, 0);
		char data[8];
		iov = (struct iovec){ data, sizeof(data) };
		m.msg_control = control;
		m.msg_controllen = CMSG_LEN(1);
		TRY(recvmsg(p[1], &m, 0));
		VALUE(!!(m.msg_flags & MSG_CTRUNC));
		close(p[0]);
		close(p[1]);
	}
	return 0;
}
