/* IPv6 sockets that serve IPv4 as well, through mapped addresses. */
#include "check.h"

int main(void)
{
	union address a, peer;
	socklen_t len;
	char text[INET6_ADDRSTRLEN], buffer[8] = "";

	begin();
	int l = socket(AF_INET6, SOCK_STREAM, 0);
	len = loopback(AF_INET6, 4300, &a);
	a.v6.sin6_addr = in6addr_any;
	TRY(bind(l, &a.any, len));
	TRY(listen(l, 4));
	int c = connect_to(AF_INET, SOCK_STREAM, 4300);
	len = sizeof(peer);
	int s = FD(accept(l, &peer.any, &len));
	VALUE(len);
	TEXT(inet_ntop(AF_INET6, &peer.v6.sin6_addr, text, sizeof(text)));
	TRY(send(s, "mapped", 6, 0));
	TRY(recv(c, buffer, 8, 0));
	TEXT(buffer);
	int value = AF_INET;
	TRY(setsockopt(s, IPPROTO_IPV6, IPV6_ADDRFORM, &value, 4));
	VALUE(get_int(s, SOL_SOCKET, SO_DOMAIN));

	title("the port is taken for both");
	int other = socket(AF_INET, SOCK_STREAM, 0);
	len = loopback(AF_INET, 4300, &a);
	TRY(bind(other, &a.any, len));

	title("V6ONLY");
	int only = socket(AF_INET6, SOCK_STREAM, 0);
	set_int(only, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	len = loopback(AF_INET6, 4301, &a);
	a.v6.sin6_addr = in6addr_any;
	TRY(bind(only, &a.any, len));
	TRY(listen(only, 1));
	int v4 = socket(AF_INET, SOCK_STREAM, 0);
	len = loopback(AF_INET, 4301, &a);
	TRY(connect(v4, &a.any, len));
	TRY(bind(other, &a.any, len));
	int v6 = socket(AF_INET6, SOCK_STREAM, 0);
	len = loopback(AF_INET6, 4301, &a);
	inet_pton(AF_INET6, "::ffff:127.0.0.1", &a.v6.sin6_addr);
	set_int(v6, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	TRY(connect(v6, &a.any, len));

	title("UDP to a mapped address");
	int u4 = bound(AF_INET, SOCK_DGRAM);
	int u6 = socket(AF_INET6, SOCK_DGRAM, 0);
	a.v6.sin6_port = htons(port_of(u4));
	TRY(sendto(u6, "to v4", 5, 0, &a.any, len));
	memset(buffer, 0, sizeof(buffer));
	TRY(recv(u4, buffer, 8, 0));
	TEXT(buffer);
	return 0;
}
