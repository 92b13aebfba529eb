/* TCP, the ordinary course: listen, connect, accept, talk, close. */
#include "check.h"

int main(void)
{
	begin();
	EACH_FAMILY(family) {
		union address a;
		socklen_t len = loopback(family, 0, &a);
		char buffer[32] = "";

		title(family_name(family));
		int l = FD(socket(family, SOCK_STREAM, 0));
		TRY(bind(l, &a.any, len));
		TRY(listen(l, 4));
		EVENTS(l);

		int c = FD(socket(family, SOCK_STREAM, IPPROTO_TCP));
		EVENTS(c);
		len = loopback(family, port_of(l), &a);
		TRY(connect(c, &a.any, len));
		WAIT(l, POLLIN);
		len = sizeof(a);
		int s = FD(accept(l, &a.any, &len));
		VALUE(len);
		VALUE(a.any.sa_family == family);
		EVENTS(c);
		EVENTS(s);

		TRY(send(c, "hello", 5, 0));
		TRY(recv(s, buffer, sizeof(buffer), 0));
		TEXT(buffer);
		TRY(write(s, "world!", 6));
		TRY(read(c, buffer, 3));
		TRY(read(c, buffer + 3, sizeof(buffer) - 3));
		TEXT(buffer);
		TRY(send(c, "", 0, 0));
		TRY(recv(s, buffer, sizeof(buffer), MSG_DONTWAIT));

		TRY(close(c));
		WAIT(s, POLLIN | POLLRDHUP);
		TRY(recv(s, buffer, sizeof(buffer), 0));
		TRY(close(s));
		TRY(close(l));
		TRY(close(l));
	}
	return 0;
}
