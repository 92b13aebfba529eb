/* connect() on a non-blocking socket: in progress, then done or refused. */
#include "check.h"

int main(void)
{
	begin();
	EACH_FAMILY(family) {
		union address a;

		title(family_name(family));
		int l = listener(family);
		socklen_t len = loopback(family, port_of(l), &a);
		int c = FD(socket(family, SOCK_STREAM | SOCK_NONBLOCK, 0));
		TRY(connect(c, &a.any, len));
		WAIT(c, POLLOUT);
		VALUE(get_int(c, SOL_SOCKET, SO_ERROR));
		TRY(connect(c, &a.any, len));
		TRY(connect(c, &a.any, len));
		char byte;
		TRY(recv(c, &byte, 1, 0));
		WAIT(l, POLLIN);
		int s = FD(accept(l, NULL, NULL));
		VALUE(fcntl(s, F_GETFL) & O_NONBLOCK);
		TRY(fcntl(l, F_SETFL, O_NONBLOCK));
		TRY(accept(l, NULL, NULL));
		TRY(send(s, "z", 1, 0));
		WAIT(c, POLLIN);
		TRY(recv(c, &byte, 1, 0));
		TRY(recv(c, &byte, 1, 0));
		close(s);
		close(c);

		title("refused");
		TRY(close(l));
		c = socket(family, SOCK_STREAM | SOCK_NONBLOCK, 0);
		TRY(connect(c, &a.any, len));
		WAIT(c, POLLOUT);
		TEXT(strerrorname_np(get_int(c, SOL_SOCKET, SO_ERROR)));
		VALUE(get_int(c, SOL_SOCKET, SO_ERROR));
		TRY(connect(c, &a.any, len));
		WAIT(c, POLLOUT);
		TRY(send(c, "x", 1, MSG_NOSIGNAL));
		close(c);
	}
	return 0;
}
