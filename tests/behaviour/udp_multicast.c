/* Multicast on the loopback interface: join, loop back, leave. */
#include "check.h"

static void join_group(int family, int fd, int join)
{
	if (family == AF_INET) {
		struct ip_mreqn m = { .imr_ifindex = 1 };

		inet_pton(AF_INET, "239.1.2.3", &m.imr_multiaddr);
		TRY(setsockopt(fd, IPPROTO_IP,
			       join ? IP_ADD_MEMBERSHIP : IP_DROP_MEMBERSHIP,
			       &m, sizeof(m)));
	} else {
		struct ipv6_mreq m = { .ipv6mr_interface = 1 };

		inet_pton(AF_INET6, "ff02::1234", &m.ipv6mr_multiaddr);
		TRY(setsockopt(fd, IPPROTO_IPV6,
			       join ? IPV6_JOIN_GROUP : IPV6_LEAVE_GROUP, &m,
			       sizeof(m)));
	}
}

int main(void)
{
	begin();
	EACH_FAMILY(family) {
		union address any = { .any.sa_family = family }, to;
		char buffer[16] = "";

		title(family_name(family));
		socklen_t len = loopback(family, 4004, &to);
		any.v4.sin_port = htons(4004);
		int s = socket(family, SOCK_DGRAM, 0);
		int c = socket(family, SOCK_DGRAM, 0);
		TRY(bind(s, &any.any, len));
		join_group(family, s, 0);
		join_group(family, s, 1);
		join_group(family, s, 1);

		if (family == AF_INET) {
			struct ip_mreqn out = { .imr_ifindex = 1 };

			inet_pton(AF_INET, "239.1.2.3", &to.v4.sin_addr);
			TRY(sendto(c, "?", 1, 0, &to.any, len));
			TRY(setsockopt(c, IPPROTO_IP, IP_MULTICAST_IF, &out,
				       sizeof(out)));
			DEFAULT(c, IPPROTO_IP, IP_MULTICAST_TTL);
			DEFAULT(c, IPPROTO_IP, IP_MULTICAST_LOOP);
		} else {
			inet_pton(AF_INET6, "ff02::1234", &to.v6.sin6_addr);
			ROUND_TRIP(c, IPPROTO_IPV6, IPV6_MULTICAST_IF, 1);
			ROUND_TRIP(c, IPPROTO_IPV6, IPV6_MULTICAST_IF, 77);
			DEFAULT(c, IPPROTO_IPV6, IPV6_MULTICAST_HOPS);
			DEFAULT(c, IPPROTO_IPV6, IPV6_MULTICAST_LOOP);
		}
		/* IPv6 has no route to groups on lo, which is not multicast. */
		TRY(sendto(c, "hello group", 11, 0, &to.any, len));
		if (family == AF_INET) {
			TRY(recv(s, buffer, 16, 0));
			TEXT(buffer);
		}

		title("left");
		join_group(family, s, 0);
		int off = 0;
		TRY(setsockopt(s, IPPROTO_IP, IP_MULTICAST_ALL, &off,
			       sizeof(off)));
		TRY(sendto(c, "nothing", 7, 0, &to.any, len));
		len = loopback(family, 4004, &to);
		TRY(sendto(c, "marker", 6, 0, &to.any, len));
		memset(buffer, 0, sizeof(buffer));
		TRY(recv(s, buffer, 16, 0));
		TEXT(buffer);

		title("bad groups");
		if (family == AF_INET) {
			struct ip_mreqn m = { .imr_ifindex = 1 };

			inet_pton(AF_INET, "10.0.0.1", &m.imr_multiaddr);
			TRY(setsockopt(s, IPPROTO_IP, IP_ADD_MEMBERSHIP, &m,
				       sizeof(m)));
			inet_pton(AF_INET, "239.1.2.3", &m.imr_multiaddr);
			TRY(setsockopt(s, IPPROTO_IP, IP_ADD_MEMBERSHIP, &m, 4));
			m.imr_ifindex = 77;
			TRY(setsockopt(s, IPPROTO_IP, IP_ADD_MEMBERSHIP, &m,
				       sizeof(m)));
		} else {
			struct ipv6_mreq m = { .ipv6mr_interface = 77 };

			inet_pton(AF_INET6, "ff02::1", &m.ipv6mr_multiaddr);
			TRY(setsockopt(s, IPPROTO_IPV6, IPV6_JOIN_GROUP, &m,
				       sizeof(m)));
			inet_pton(AF_INET6, "2001:db8::1", &m.ipv6mr_multiaddr);
			TRY(setsockopt(s, IPPROTO_IPV6, IPV6_JOIN_GROUP, &m,
				       sizeof(m)));
		}
		close(s);
		close(c);
	}
	return 0;
}
