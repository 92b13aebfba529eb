/* UDP, unconnected: sendto(), recvfrom(), addresses, and message bounds. */
#include "check.h"

int main(void)
{
	begin();
	EACH_FAMILY(family) {
		union address a, from;
		char buffer[32] = "";
		socklen_t len, from_len = sizeof(from);

		title(family_name(family));
		int s = FD(socket(family, SOCK_DGRAM, 0));
		EVENTS(s);
		TRY(recv(s, buffer, 8, MSG_DONTWAIT));
		len = loopback(family, 4000, &a);
		TRY(bind(s, &a.any, len));
		TRY(bind(s, &a.any, len));
		TRY(send(s, "x", 1, 0));
		TRY(listen(s, 1));
		TRY(accept(s, NULL, NULL));
		len = sizeof(from);
		TRY(getpeername(s, &from.any, &len));

		int c = socket(family, SOCK_DGRAM, 0);
		TRY(send(c, "x", 1, 0));
		len = loopback(family, 4000, &a);
		TRY(sendto(c, "first", 5, 0, &a.any, len));
		TRY(sendto(c, "", 0, 0, &a.any, len));
		TRY(sendto(c, "third", 5, MSG_CONFIRM, &a.any, len));
		WAIT(s, POLLIN);
		TRY(recvfrom(s, buffer, 32, 0, &from.any, &from_len));
		TEXT(buffer);
		VALUE(from_len);
		VALUE(from.any.sa_family == family);
		VALUE(port_of(c) == ntohs(from.v4.sin_port));
		TRY(recv(s, buffer, 32, 0));
		TRY(sendto(s, "answer", 6, 0, &from.any, from_len));
		TRY(recv(c, buffer, 32, 0));
		TEXT(buffer);
		TRY(recv(s, buffer, 32, 0));
		TRY(recv(s, buffer, 32, MSG_DONTWAIT));
		EVENTS(s);

		title("addresses that can't be sent to");
		TRY(sendto(c, "x", 1, 0, &a.any, 3));
		TRY(sendto(c, "x", 1, 0, &a.any, 200));
		TRY(sendto(c, "x", 1, 0, NOWHERE, len));
		a.v4.sin_port = 0;
		TRY(sendto(c, "x", 1, 0, &a.any, len));
		a.any.sa_family = AF_UNIX;
		TRY(sendto(c, "x", 1, 0, &a.any, len));
		len = loopback(family, 4000, &a);
		TRY(sendto(c, NOWHERE, 8, 0, &a.any, len));
		TRY(sendto(c, "x", 1, MSG_OOB, &a.any, len));

		title("too long");
		static char big[70000];
		TRY(sendto(c, big, 65508, 0, &a.any, len));
		TRY(sendto(c, big, 65528, 0, &a.any, len));
		TRY(sendto(c, big, 65507, 0, &a.any, len));
		TRY(recv(s, big, sizeof(big), 0));
		close(c);
		close(s);
	}
	return 0;
}
