/* Connections that end with a reset, and what the other end sees of it. */
#include "check.h"

int main(void)
{
	begin();
	signal(SIGPIPE, SIG_IGN);
	EACH_FAMILY(family) {
		struct linger now = { .l_onoff = 1, .l_linger = 0 };
		char buffer[8];
		int p[2];

		title(family_name(family));
		stream_pair(family, p);
		TRY(setsockopt(p[0], SOL_SOCKET, SO_LINGER, &now, sizeof(now)));
		TRY(close(p[0]));
		WAIT(p[1], POLLIN | POLLRDHUP);
		TRY(recv(p[1], buffer, 8, 0));
		TRY(recv(p[1], buffer, 8, 0));
		TRY(send(p[1], "x", 1, 0));
		VALUE(get_int(p[1], SOL_SOCKET, SO_ERROR));
		EVENTS(p[1]);
		close(p[1]);

		title("the error is taken by SO_ERROR once");
		stream_pair(family, p);
		setsockopt(p[0], SOL_SOCKET, SO_LINGER, &now, sizeof(now));
		close(p[0]);
		WAIT(p[1], POLLIN);
		TEXT(strerrorname_np(get_int(p[1], SOL_SOCKET, SO_ERROR)));
		VALUE(get_int(p[1], SOL_SOCKET, SO_ERROR));
		EVENTS(p[1]);
		TRY(recv(p[1], buffer, 8, 0));
		TRY(send(p[1], "x", 1, 0));
		close(p[1]);

		title("closed with unread data");
		stream_pair(family, p);
		TRY(send(p[1], "unread", 6, 0));
		WAIT(p[0], POLLIN);
		TRY(close(p[0]));
		WAIT(p[1], POLLIN);
		TRY(recv(p[1], buffer, 8, 0));
		close(p[1]);

		title("written to after the other end has closed");
		stream_pair(family, p);
		TRY(close(p[0]));
		WAIT(p[1], POLLIN);
		TRY(send(p[1], "x", 1, 0));
		WAIT(p[1], POLLERR);
		TRY(send(p[1], "x", 1, 0));
		TRY(recv(p[1], buffer, 8, 0));
		close(p[1]);

		title("reset before accept");
		int l = listener(family);
		int c = connect_to(family, SOCK_STREAM, port_of(l));
		setsockopt(c, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
		WAIT(l, POLLIN);
		close(c);
		int s = FD(accept(l, NULL, NULL));
		TRY(recv(s, buffer, 8, 0));
		close(s);

		title("the listener is closed with a connection waiting");
		c = connect_to(family, SOCK_STREAM, port_of(l));
		WAIT(l, POLLIN);
		close(l);
		WAIT(c, POLLIN);
		TRY(recv(c, buffer, 8, 0));
		close(c);
	}
	return 0;
}
