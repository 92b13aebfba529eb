/* IP_* options: defaults, there and back, bounds. */
#include "check.h"

int main(void)
{
	begin();
	int s = socket(AF_INET, SOCK_DGRAM, 0);

	DEFAULT(s, IPPROTO_IP, IP_TTL);
	DEFAULT(s, IPPROTO_IP, IP_TOS);
	DEFAULT(s, IPPROTO_IP, IP_MTU_DISCOVER);
	DEFAULT(s, IPPROTO_IP, IP_MULTICAST_ALL);
	DEFAULT(s, IPPROTO_IP, IP_MTU);
	ROUND_TRIP(s, IPPROTO_IP, IP_TTL, 1);
	ROUND_TRIP(s, IPPROTO_IP, IP_TTL, 255);
	ROUND_TRIP(s, IPPROTO_IP, IP_TTL, 256);
	ROUND_TRIP(s, IPPROTO_IP, IP_TTL, 0);
	ROUND_TRIP(s, IPPROTO_IP, IP_TTL, -1);
	ROUND_TRIP(s, IPPROTO_IP, IP_TOS, 0x10);
	ROUND_TRIP(s, IPPROTO_IP, IP_TOS, 0xff);
	ROUND_TRIP(s, IPPROTO_IP, IP_TOS, 0x1ff);
	ROUND_TRIP(s, IPPROTO_IP, IP_RECVTTL, 1);
	ROUND_TRIP(s, IPPROTO_IP, IP_RECVTOS, 1);
	ROUND_TRIP(s, IPPROTO_IP, IP_PKTINFO, 1);
	ROUND_TRIP(s, IPPROTO_IP, IP_RECVOPTS, 1);
	ROUND_TRIP(s, IPPROTO_IP, IP_RETOPTS, 1);
	ROUND_TRIP(s, IPPROTO_IP, IP_RECVERR, 1);
	ROUND_TRIP(s, IPPROTO_IP, IP_RECVORIGDSTADDR, 1);
	ROUND_TRIP(s, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
	ROUND_TRIP(s, IPPROTO_IP, IP_MTU_DISCOVER, 9);
	ROUND_TRIP(s, IPPROTO_IP, IP_MULTICAST_TTL, 8);
	ROUND_TRIP(s, IPPROTO_IP, IP_MULTICAST_TTL, 256);
	ROUND_TRIP(s, IPPROTO_IP, IP_MULTICAST_LOOP, 0);
	ROUND_TRIP(s, IPPROTO_IP, IP_FREEBIND, 1);
	ROUND_TRIP(s, IPPROTO_IP, IP_TRANSPARENT, 1);
	ROUND_TRIP(s, IPPROTO_IP, IP_NODEFRAG, 1);
	ROUND_TRIP(s, IPPROTO_IP, IP_MINTTL, 5);
	ROUND_TRIP(s, IPPROTO_IP, IP_UNICAST_IF, 0);
	ROUND_TRIP(s, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
	ROUND_TRIP(s, IPPROTO_IP, IP_HDRINCL, 1);
	ROUND_TRIP(s, IPPROTO_IP, 12345, 1);

	title("what is connected knows its MTU");
	union address a;
	socklen_t len = loopback(AF_INET, 4200, &a);
	TRY(connect(s, &a.any, len));
	VALUE(get_int(s, IPPROTO_IP, IP_MTU));

	title("an address of no host");
	int b = socket(AF_INET, SOCK_STREAM, 0);
	inet_pton(AF_INET, "192.0.2.9", &a.v4.sin_addr);
	TRY(bind(b, &a.any, len));
	set_int(b, IPPROTO_IP, IP_FREEBIND, 1);
	TRY(bind(b, &a.any, len));

	title("header options");
	unsigned char options[] = { 7, 7, 4, 0, 0, 0, 0, 0 }, back[40];
	int t = socket(AF_INET, SOCK_DGRAM, 0);
	TRY(setsockopt(t, IPPROTO_IP, IP_OPTIONS, options, 8));
	len = sizeof(back);
	TRY(getsockopt(t, IPPROTO_IP, IP_OPTIONS, back, &len));
	VALUE(len);
	VALUE(back[0]);
	TRY(setsockopt(t, IPPROTO_IP, IP_OPTIONS, options, 100));
	options[1] = 99;
	TRY(setsockopt(t, IPPROTO_IP, IP_OPTIONS, options, 8));

	title("lengths");
	unsigned char byte = 9;
	TRY(setsockopt(t, IPPROTO_IP, IP_TTL, &byte, 1));
	len = 1;
	byte = 0;
	TRY(getsockopt(t, IPPROTO_IP, IP_TTL, &byte, &len));
	VALUE(byte);
	VALUE(len);
	len = 0;
	TRY(getsockopt(t, IPPROTO_IP, IP_TTL, &byte, &len));
	VALUE(len);
	TRY(setsockopt(t, IPPROTO_IP, IP_TTL, &byte, 0));
	TRY(setsockopt(t, IPPROTO_IP, IP_TTL, NOWHERE, 4));
	return 0;
}
