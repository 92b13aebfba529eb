/* UDP, connected: the peer filters, and a refused datagram is reported. */
#include "check.h"

int main(void)
{
	begin();
	EACH_FAMILY(family) {
		union address a, none = { .any.sa_family = AF_UNSPEC };
		char buffer[32] = "";
		socklen_t len;
		int p[2];

		title(family_name(family));
		datagram_pair(family, p);
		TRY(send(p[0], "ping", 4, 0));
		TRY(recv(p[1], buffer, 32, 0));
		TEXT(buffer);
		int other = socket(family, SOCK_DGRAM, 0);
		len = loopback(family, port_of(p[1]), &a);
		TRY(sendto(other, "from a stranger", 15, 0, &a.any, len));
		TRY(send(p[0], "pong", 4, 0));
		TRY(recv(p[1], buffer, 32, 0));
		TEXT(buffer);
		TRY(recv(p[1], buffer, 32, MSG_DONTWAIT));
		len = sizeof(a);
		TRY(getpeername(p[0], &a.any, &len));
		VALUE(len);

		title("disconnected");
		TRY(connect(p[1], &none.any, sizeof(none.any)));
		TRY(getpeername(p[1], &a.any, &len));
		TRY(send(p[1], "x", 1, 0));
		TRY(connect(p[1], &none.any, sizeof(none.any)));
		close(p[0]);
		close(p[1]);
		close(other);

		title("refused");
		int c = socket(family, SOCK_DGRAM, 0);
		len = loopback(family, 4002, &a);
		TRY(connect(c, &a.any, len));
		TRY(send(c, "x", 1, 0));
		WAIT(c, POLLIN);
		EVENTS(c);
		TRY(send(c, "x", 1, 0));
		WAIT(c, 0);
		TRY(recv(c, buffer, 8, MSG_DONTWAIT));
		TRY(recv(c, buffer, 8, MSG_DONTWAIT));
		TRY(send(c, "x", 1, 0));
		WAIT(c, 0);
		TEXT(strerrorname_np(get_int(c, SOL_SOCKET, SO_ERROR)));
		VALUE(get_int(c, SOL_SOCKET, SO_ERROR));
		EVENTS(c);
		TRY(shutdown(c, SHUT_RD));
		EVENTS(c);
		TRY(recv(c, buffer, 8, 0));
		TRY(shutdown(c, SHUT_WR));
		TRY(send(c, "x", 1, MSG_NOSIGNAL));
		EVENTS(c);
		close(c);

		title("an unconnected socket does not hear of it");
		c = socket(family, SOCK_DGRAM, 0);
		TRY(sendto(c, "x", 1, 0, &a.any, len));
		TRY(sendto(c, "x", 1, 0, &a.any, len));
		TRY(recv(c, buffer, 8, MSG_DONTWAIT));
		close(c);
	}
	return 0;
}
