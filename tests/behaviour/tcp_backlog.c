/* A full accept queue drops the next connection's SYN until there is room. */
#include "check.h"

int main(void)
{
	begin();
	EACH_FAMILY(family) {
		union address a;
		int c[3];

		title(family_name(family));
		int l = bound(family, SOCK_STREAM);
		TRY(listen(l, 1));
		socklen_t len = loopback(family, port_of(l), &a);
		for (int i = 0; i < 3; i++) {
			c[i] = socket(family, SOCK_STREAM | SOCK_NONBLOCK, 0);
			TRY(connect(c[i], &a.any, len));
			if (i < 2)
				WAIT(c[i], POLLOUT);
		}
		EVENTS(c[2]);
		int s = FD(accept(l, NULL, NULL));
		title("the SYN is sent again after a second");
		WAIT(c[2], POLLOUT);
		VALUE(get_int(c[2], SOL_SOCKET, SO_ERROR));
		close(s);
		for (int i = 0; i < 3; i++)
			close(c[i]);
		close(l);
	}
	return 0;
}
