/* Unix sockets: kinds, names, credentials, and descriptors handed over. */
#include "handover.h"
#include <stddef.h>

int main(void)
{
	char buffer[32] = "";
	int p[2], fds[2];

	begin();
	TRY(socketpair(AF_UNIX, SOCK_STREAM, 0, p));
	TRY(send(p[0], "stream", 6, 0));
	TRY(recv(p[1], buffer, 32, 0));
	TEXT(buffer);
	struct ucred credentials;
	socklen_t len = sizeof(credentials);
	TRY(getsockopt(p[0], SOL_SOCKET, SO_PEERCRED, &credentials, &len));
	VALUE(credentials.pid == getpid());
	VALUE(credentials.uid == getuid());

	title("a pipe handed over");
	TRY(pipe(fds));
	send_fd(p[0], fds[0]);
	int got = receive_fd(p[1]);
	TRY(write(fds[1], "through", 7));
	TRY(read(got, buffer, 32));
	TEXT(buffer);
	close(got);

	title("named in the abstract space");
	union address a = { .un.sun_family = AF_UNIX };
	memcpy(a.un.sun_path + 1, "vink-check", 10);
	len = offsetof(struct sockaddr_un, sun_path) + 11;
	int l = FD(socket(AF_UNIX, SOCK_SEQPACKET, 0));
	TRY(bind(l, &a.any, len));
	TRY(listen(l, 1));
	int c = FD(socket(AF_UNIX, SOCK_SEQPACKET, 0));
	TRY(connect(c, &a.any, len));
	int s = FD(accept(l, NULL, NULL));
	TRY(send(c, "one", 3, 0));
	TRY(send(c, "two", 3, 0));
	memset(buffer, 0, sizeof(buffer));
	TRY(recv(s, buffer, 32, 0));
	TEXT(buffer);
	int other = socket(AF_UNIX, SOCK_DGRAM, 0);
	TRY(connect(other, &a.any, len));
	TRY(close(l));
	TRY(connect(other, &a.any, len));
	TRY(socketpair(AF_INET, SOCK_STREAM, 0, p));
	return 0;
}
