/* Raw ICMP sockets: an echo to oneself, with its filter, and own headers. */
#include "check.h"
#include <netinet/icmp6.h>
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>

#ifndef ICMP_FILTER
#define ICMP_FILTER 1
#endif

static uint16_t checksum(const void *data, size_t len)
{
	const uint16_t *words = data;
	uint32_t sum = 0;

	for (; len > 1; len -= 2)
		sum += *words++;
	if (len)
		sum += *(const uint8_t *)words;
	sum = (sum >> 16) + (sum & 0xffff);
	return ~(sum + (sum >> 16));
}

static void v4(void)
{
	struct { struct icmphdr h; char text[8]; } echo = {
		{ .type = ICMP_ECHO, .un.echo = { htons(7), htons(1) } },
		"payload",
	};
	struct { struct iphdr ip; struct icmphdr h; char text[8]; } in;
	uint32_t only_replies = ~(1u << ICMP_ECHOREPLY);
	union address a, from;
	socklen_t len = loopback(AF_INET, 0, &a);

	title("IPv4");
	int s = FD(socket(AF_INET, SOCK_RAW, IPPROTO_ICMP));
	EVENTS(s);
	TRY(setsockopt(s, SOL_RAW, ICMP_FILTER, &only_replies, 4));
	echo.h.checksum = checksum(&echo, sizeof(echo));
	TRY(sendto(s, &echo, sizeof(echo), 0, &a.any, len));
	len = sizeof(from);
	TRY(recvfrom(s, &in, sizeof(in), 0, &from.any, &len));
	VALUE(len);
	VALUE(in.ip.version);
	VALUE(in.ip.ttl);
	VALUE(in.ip.protocol);
	VALUE(ntohs(in.ip.tot_len));
	VALUE(in.h.type);
	VALUE(ntohs(in.h.un.echo.id));
	TEXT(in.text);

	title("without the filter the request is seen first");
	only_replies = 0;
	TRY(setsockopt(s, SOL_RAW, ICMP_FILTER, &only_replies, 4));
	len = loopback(AF_INET, 0, &a);
	TRY(connect(s, &a.any, len));
	TRY(send(s, &echo, sizeof(echo), 0));
	TRY(recv(s, &in, sizeof(in), 0));
	VALUE(in.h.type);
	TRY(recv(s, &in, sizeof(in), 0));
	VALUE(in.h.type);
	close(s);

	title("IP_HDRINCL");
	s = FD(socket(AF_INET, SOCK_RAW, IPPROTO_RAW));
	VALUE(get_int(s, IPPROTO_IP, IP_HDRINCL));
	TRY(recv(s, &in, sizeof(in), MSG_DONTWAIT));
	int r = socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);
	memset(&in, 0, sizeof(in));
	in.ip = (struct iphdr){ .version = 4, .ihl = 5, .ttl = 9,
				.protocol = IPPROTO_ICMP,
				.saddr = htonl(0x7f000002),
				.daddr = htonl(INADDR_LOOPBACK) };
	in.h = (struct icmphdr){ .type = ICMP_ECHO };
	in.h.checksum = checksum(&in.h, sizeof(in.h) + sizeof(in.text));
	TRY(sendto(s, &in, sizeof(in), 0, &a.any, len));
	memset(&in, 0, sizeof(in));
	TRY(recv(r, &in, sizeof(in), 0));
	VALUE(in.ip.ttl);
	VALUE(ntohl(in.ip.saddr) & 0xff);
	VALUE(in.ip.check != 0);
	TRY(sendto(s, &in, 10, 0, &a.any, len));
	close(r);
	close(s);
}

static void v6(void)
{
	struct icmp6_hdr echo = { .icmp6_type = ICMP6_ECHO_REQUEST };
	struct icmp6_filter filter;
	union address a, from;
	socklen_t len = loopback(AF_INET6, 0, &a);
	int value = 2;

	title("IPv6");
	int s = FD(socket(AF_INET6, SOCK_RAW, IPPROTO_ICMPV6));
	ICMP6_FILTER_SETBLOCKALL(&filter);
	ICMP6_FILTER_SETPASS(ICMP6_ECHO_REPLY, &filter);
	TRY(setsockopt(s, IPPROTO_ICMPV6, ICMP6_FILTER, &filter,
		       sizeof(filter)));
	echo.icmp6_id = htons(7);
	/* The kernel fills the checksum. */
	TRY(sendto(s, &echo, sizeof(echo), 0, &a.any, len));
	len = sizeof(from);
	TRY(recvfrom(s, &echo, sizeof(echo), 0, &from.any, &len));
	VALUE(len);
	VALUE(echo.icmp6_type);
	VALUE(ntohs(echo.icmp6_id));
	VALUE(echo.icmp6_cksum != 0);
	VALUE(IN6_IS_ADDR_LOOPBACK(&from.v6.sin6_addr));
	TRY(setsockopt(s, IPPROTO_IPV6, IPV6_CHECKSUM, &value, 4));
	TRY(setsockopt(s, SOL_RAW, IPV6_CHECKSUM, &value, 4));
	value = 3;
	TRY(setsockopt(s, SOL_RAW, IPV6_CHECKSUM, &value, 4));
	close(s);
}

int main(void)
{
	begin();
	v4();
	v6();
	return 0;
}
