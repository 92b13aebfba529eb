/* Multipath TCP: sockets, a connection, and falling back to plain TCP. */
#include "check.h"

#ifndef IPPROTO_MPTCP
#define IPPROTO_MPTCP 262
#endif
#ifndef SOL_MPTCP
#define SOL_MPTCP 284
#endif
#define MPTCP_INFO_OPTION 1

static void talk(int family, int listen_protocol, int connect_protocol)
{
	union address a;
	socklen_t len = loopback(family, 0, &a);
	char buffer[16] = "";
	/* The head of struct mptcp_info: subflows, ..., then flags. */
	struct { uint8_t counts[8]; uint32_t flags; } info = { 0 };

	int l = FD(socket(family, SOCK_STREAM, listen_protocol));
	TRY(bind(l, &a.any, len));
	TRY(listen(l, 1));
	len = loopback(family, port_of(l), &a);
	int c = FD(socket(family, SOCK_STREAM, connect_protocol));
	VALUE(get_int(c, SOL_SOCKET, SO_PROTOCOL));
	TRY(connect(c, &a.any, len));
	int s = FD(accept(l, NULL, NULL));
	TRY(send(c, "over", 4, 0));
	TRY(recv(s, buffer, 16, 0));
	TEXT(buffer);
	TRY(send(s, "back", 4, 0));
	TRY(recv(c, buffer, 16, 0));
	TEXT(buffer);
	len = sizeof(info);
	TRY(getsockopt(c, SOL_MPTCP, MPTCP_INFO_OPTION, &info, &len));
	VALUE(info.flags & 1); /* fallen back */
	TRY(shutdown(c, SHUT_WR));
	WAIT(s, POLLRDHUP);
	TRY(recv(s, buffer, 16, 0));
	TRY(close(s));
	WAIT(c, POLLHUP);
	TRY(recv(c, buffer, 16, 0));
	close(c);
	close(l);
}

int main(void)
{
	begin();
	EACH_FAMILY(family) {
		title(family_name(family));
		talk(family, IPPROTO_MPTCP, IPPROTO_MPTCP);
		title("the client speaks plain TCP");
		talk(family, IPPROTO_MPTCP, IPPROTO_TCP);
		title("the server speaks plain TCP");
		talk(family, IPPROTO_TCP, IPPROTO_MPTCP);
	}
	TRY(socket(AF_INET, SOCK_DGRAM, IPPROTO_MPTCP));
	return 0;
}
