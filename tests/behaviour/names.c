/* getsockname() and getpeername() before, during and after a connection. */
#include "check.h"

static union address name_of(int fd, int peer)
{
	union address a = { 0 };
	socklen_t len = sizeof(a);

	if (peer)
		TRY(getpeername(fd, &a.any, &len));
	else
		TRY(getsockname(fd, &a.any, &len));
	return a;
}

static void show(int fd, int peer)
{
	union address a = name_of(fd, peer);
	char text[INET6_ADDRSTRLEN] = "";

	inet_ntop(a.any.sa_family,
		  a.any.sa_family == AF_INET ? (void *)&a.v4.sin_addr :
					       (void *)&a.v6.sin6_addr,
		  text, sizeof(text));
	printf("%s, %s port\n", text, a.v4.sin_port ? "with a" : "no");
}

int main(void)
{
	begin();
	EACH_FAMILY(family) {
		union address a;
		int p[2];

		title(family_name(family));
		int s = socket(family, SOCK_STREAM, 0);
		show(s, 0);
		show(s, 1);
		socklen_t len = loopback(family, 4800, &a);
		TRY(bind(s, &a.any, len));
		show(s, 0);
		VALUE(port_of(s));
		close(s);

		stream_pair(family, p);
		show(p[0], 0);
		show(p[0], 1);
		VALUE(name_of(p[0], 0).v4.sin_port ==
		      name_of(p[1], 1).v4.sin_port);
		VALUE(name_of(p[1], 0).v4.sin_port ==
		      name_of(p[0], 1).v4.sin_port);
		shutdown(p[1], SHUT_RDWR);
		WAIT(p[0], POLLRDHUP);
		show(p[0], 1);
		shutdown(p[0], SHUT_RDWR);
		show(p[0], 1);
		close(p[0]);
		close(p[1]);

		title("a datagram socket finds its own address");
		int d = socket(family, SOCK_DGRAM, 0);
		TRY(connect(d, &a.any, len));
		show(d, 0);
		VALUE(name_of(d, 1).v4.sin_port == htons(4800));
		close(d);
	}
	return 0;
}
