/* accept4() and socket(): the flags for close-on-exec and non-blocking. */
#include "check.h"

static void flags(int fd)
{
	VALUE(fcntl(fd, F_GETFD));
	VALUE(!!(fcntl(fd, F_GETFL) & O_NONBLOCK));
}

int main(void)
{
	begin();
	EACH_FAMILY(family) {
		title(family_name(family));
		int l = listener(family), c, s;

		c = FD(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
		flags(c);
		close(c);
		c = FD(socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
		flags(c);
		close(c);
		c = FD(socket(family, SOCK_STREAM, 0));
		flags(c);
		close(c);

		c = connect_to(family, SOCK_STREAM, port_of(l));
		s = FD(accept4(l, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
		flags(s);
		close(s);
		close(c);
		c = connect_to(family, SOCK_STREAM, port_of(l));
		TRY(accept4(l, NULL, NULL, 1));
		s = FD(accept4(l, NULL, NULL, SOCK_CLOEXEC));
		flags(s);
		close(s);
		close(c);
		TRY(fcntl(l, F_SETFL, O_NONBLOCK));
		TRY(accept4(l, NULL, NULL, 0));
		close(l);
	}
	return 0;
}
