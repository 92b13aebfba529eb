/* TCP calls in the wrong state, and connections that can't be made. */
#include "check.h"

int main(void)
{
	begin();
	signal(SIGPIPE, SIG_IGN);
	EACH_FAMILY(family) {
		union address a, far;
		socklen_t len;
		char buffer[8];
		int value;

		title(family_name(family));
		int c = socket(family, SOCK_STREAM, 0);
		len = sizeof(a);
		TRY(getpeername(c, &a.any, &len));
		TRY(send(c, "x", 1, 0));
		TRY(recv(c, buffer, 8, 0));
		TRY(recv(c, buffer, 8, MSG_OOB));
		TRY(shutdown(c, SHUT_RDWR));
		TRY(accept(c, NULL, NULL));

		title("no listener");
		len = loopback(family, 4001, &a);
		TRY(connect(c, &a.any, len));
		VALUE(get_int(c, SOL_SOCKET, SO_ERROR));
		TRY(connect(c, &a.any, len));
		EVENTS(c);
		close(c);

		title("no route");
		memset(&far, 0, sizeof(far));
		len = loopback(family, 4001, &far);
		inet_pton(family, family == AF_INET ? "10.1.2.3" : "2001:db8::1",
			  family == AF_INET ? (void *)&far.v4.sin_addr :
					      (void *)&far.v6.sin6_addr);
		c = socket(family, SOCK_STREAM, 0);
		TRY(connect(c, &far.any, len));
		TRY(bind(c, &far.any, len));
		close(c);

		title("connected twice");
		int l = listener(family);
		len = loopback(family, port_of(l), &a);
		c = socket(family, SOCK_STREAM, 0);
		TRY(connect(c, &a.any, len));
		TRY(connect(c, &a.any, len));
		TRY(listen(c, 1));
		TRY(accept(c, NULL, NULL));
		TRY(bind(c, &a.any, len));
		close(c);

		title("a listener");
		TRY(connect(l, &a.any, len));
		TRY(bind(l, &a.any, len));
		TRY(send(l, "x", 1, 0));
		TRY(recv(l, buffer, 8, 0));
		TRY(listen(l, 8));
		value = fcntl(l, F_GETFL);
		fcntl(l, F_SETFL, value | O_NONBLOCK);
		close(accept(l, NULL, NULL));
		TRY(accept(l, NULL, NULL));
		TRY(shutdown(l, SHUT_RD));
		TRY(accept(l, NULL, NULL));
		close(l);
	}
	return 0;
}
