/* Ping sockets: closed to all groups at first, then open by ping_group_range. */
#include "check.h"
#include <netinet/icmp6.h>
#include <netinet/ip_icmp.h>

int main(void)
{
	begin();
	TRY(socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP));
	TRY(socket(AF_INET6, SOCK_DGRAM, IPPROTO_ICMPV6));
	int f = FD(open("/proc/sys/net/ipv4/ping_group_range", O_RDWR));
	/* A user namespace with one group can only name that one. */
	VALUE(write(f, "0 2147483647", 12) == 12 || write(f, "0 0", 3) == 3);
	close(f);

	EACH_FAMILY(family) {
		union address a, from;
		socklen_t alen = loopback(family, 0, &a), flen = sizeof(from);
		struct { struct icmphdr h; char text[8]; } echo = {
			{ .type = family == AF_INET ? ICMP_ECHO :
						      ICMP6_ECHO_REQUEST,
			  .un.echo.sequence = htons(5) },
			"payload",
		}, in = { 0 };

		title(family_name(family));
		int s = FD(socket(family, SOCK_DGRAM,
				  family == AF_INET ? IPPROTO_ICMP :
						      (int)IPPROTO_ICMPV6));
		a.v4.sin_port = htons(4006);
		TRY(bind(s, &a.any, alen));
		VALUE(port_of(s));
		a.v4.sin_port = 0;
		TRY(sendto(s, &echo, sizeof(echo), 0, &a.any, alen));
		TRY(recvfrom(s, &in, sizeof(in), 0, &from.any, &flen));
		VALUE(flen);
		VALUE(in.h.type);
		VALUE(ntohs(in.h.un.echo.id));
		VALUE(ntohs(in.h.un.echo.sequence));
		TEXT(in.text);
		echo.h.type = 200;
		TRY(sendto(s, &echo, sizeof(echo), 0, &a.any, alen));
		TRY(sendto(s, &echo, 4, 0, &a.any, alen));
		TRY(listen(s, 1));
		close(s);
	}
	return 0;
}
