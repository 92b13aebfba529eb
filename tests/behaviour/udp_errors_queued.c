/* IP_RECVERR: the ICMP error with its origin and the refused datagram. */
#include "check.h"
#include <linux/errqueue.h>

int main(void)
{
	begin();
	EACH_FAMILY(family) {
		union address a, name;
		char data[32] = "", control[512];
		struct iovec iov = { data, sizeof(data) - 1 };
		struct msghdr m = { .msg_name = &name, .msg_iov = &iov,
				    .msg_namelen = sizeof(name), .msg_iovlen = 1,
				    .msg_control = control,
				    .msg_controllen = sizeof(control) };

		title(family_name(family));
		socklen_t len = loopback(family, 4005, &a);
		int c = socket(family, SOCK_DGRAM, 0);
		if (family == AF_INET)
			ROUND_TRIP(c, IPPROTO_IP, IP_RECVERR, 1);
		else
			ROUND_TRIP(c, IPPROTO_IPV6, IPV6_RECVERR, 1);
		TRY(recvmsg(c, &m, MSG_ERRQUEUE));
		TRY(sendto(c, "refused", 7, 0, &a.any, len));
		WAIT(c, POLLERR);
		TRY(recv(c, data, 8, MSG_DONTWAIT));
		m.msg_controllen = sizeof(control);
		TRY(recvmsg(c, &m, MSG_ERRQUEUE));
		TEXT(data);
		VALUE(!!(m.msg_flags & MSG_ERRQUEUE));
		VALUE(ntohs(name.v4.sin_port));
		struct cmsghdr *h = CMSG_FIRSTHDR(&m);
		VALUE(h->cmsg_level);
		VALUE(h->cmsg_type);
		struct sock_extended_err e;
		memcpy(&e, CMSG_DATA(h), sizeof(e));
		TEXT(strerrorname_np(e.ee_errno));
		VALUE(e.ee_origin);
		VALUE(e.ee_type);
		VALUE(e.ee_code);
		TRY(recvmsg(c, &m, MSG_ERRQUEUE));
		EVENTS(c);
		close(c);
	}
	return 0;
}
