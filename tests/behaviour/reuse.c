/* Addresses in use: EADDRINUSE, SO_REUSEADDR, SO_REUSEPORT, TIME_WAIT. */
#include "check.h"

static int try_bind(int family, int type, int port, int addr, int reuseport)
{
	union address a;
	socklen_t len = loopback(family, port, &a);
	int fd = MUST(socket(family, type, 0));

	if (addr)
		set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	if (reuseport)
		set_int(fd, SOL_SOCKET, SO_REUSEPORT, 1);
	printf("bind, SO_REUSEADDR %d, SO_REUSEPORT %d: ", addr, reuseport);
	if (bind(fd, &a.any, len) < 0)
		printf("%s\n", strerrorname_np(errno));
	else
		printf("ok\n");
	return fd;
}

int main(void)
{
	begin();
	EACH_FAMILY(family) {
		int fd[4];

		title(family_name(family));
		title("streams");
		fd[0] = try_bind(family, SOCK_STREAM, 4700, 0, 0);
		fd[1] = try_bind(family, SOCK_STREAM, 4700, 0, 0);
		fd[2] = try_bind(family, SOCK_STREAM, 4700, 1, 0);
		fd[3] = try_bind(family, SOCK_STREAM, 4700, 0, 1);
		for (int i = 0; i < 4; i++)
			close(fd[i]);

		fd[0] = try_bind(family, SOCK_STREAM, 4701, 1, 0);
		fd[1] = try_bind(family, SOCK_STREAM, 4701, 1, 0);
		TRY(listen(fd[0], 1));
		TRY(listen(fd[1], 1));
		fd[2] = try_bind(family, SOCK_STREAM, 4701, 1, 0);
		for (int i = 0; i < 3; i++)
			close(fd[i]);

		title("two listeners on one port");
		fd[0] = try_bind(family, SOCK_STREAM, 4702, 0, 1);
		fd[1] = try_bind(family, SOCK_STREAM, 4702, 0, 1);
		TRY(listen(fd[0], 32));
		TRY(listen(fd[1], 32));
		int got = 0;
		for (int i = 0; i < 20; i++)
			connect_to(family, SOCK_STREAM, 4702);
		for (int i = 0; i < 2; i++) {
			fcntl(fd[i], F_SETFL, O_NONBLOCK);
			while (accept(fd[i], NULL, NULL) >= 0)
				got++;
		}
		VALUE(got);
		for (int i = 0; i < 2; i++)
			close(fd[i]);

		title("a port in TIME_WAIT");
		fd[0] = try_bind(family, SOCK_STREAM, 4703, 1, 0);
		TRY(listen(fd[0], 1));
		int c = connect_to(family, SOCK_STREAM, 4703);
		int s = MUST(accept(fd[0], NULL, NULL));
		char byte;
		TRY(close(s)); /* the server goes first */
		TRY(recv(c, &byte, 1, 0));
		TRY(close(c));
		TRY(close(fd[0]));
		fd[1] = try_bind(family, SOCK_STREAM, 4703, 0, 0);
		fd[2] = try_bind(family, SOCK_STREAM, 4703, 1, 0);
		close(fd[1]);
		close(fd[2]);

		title("datagrams");
		fd[0] = try_bind(family, SOCK_DGRAM, 4704, 0, 0);
		fd[1] = try_bind(family, SOCK_DGRAM, 4704, 1, 0);
		close(fd[0]);
		close(fd[1]);
		fd[0] = try_bind(family, SOCK_DGRAM, 4704, 1, 0);
		fd[1] = try_bind(family, SOCK_DGRAM, 4704, 1, 0);
		fd[2] = try_bind(family, SOCK_DGRAM, 4704, 0, 1);
		for (int i = 0; i < 3; i++)
			close(fd[i]);

		title("listen without bind");
		int l = socket(family, SOCK_STREAM, 0);
		TRY(listen(l, 1));
		VALUE(port_of(l) > 0);
		close(l);
	}
	return 0;
}
