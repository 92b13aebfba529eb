/* No descriptors left: EMFILE from every call that makes one, and recovery. */
#include "check.h"
#include <sys/resource.h>

int main(void)
{
	struct rlimit limit = { 24, 24 };
	int fds[64], n = 0, p[2];

	begin();
	int l = listener(AF_INET);
	int c = connect_to(AF_INET, SOCK_STREAM, port_of(l));
	MUST(setrlimit(RLIMIT_NOFILE, &limit));
	while ((fds[n] = socket(AF_INET, SOCK_STREAM, 0)) >= 0)
		n++;
	TEXT(strerrorname_np(errno));
	VALUE(n > 10);
	TRY(socket(AF_INET6, SOCK_DGRAM, 0));
	TRY(accept(l, NULL, NULL));
	TRY(dup(l));
	TRY(fcntl(l, F_DUPFD, 0));
	TRY(fcntl(l, F_DUPFD, 24));
	TRY(dup2(l, 24));
	TRY(pipe(p));
	TRY(close(fds[--n]));
	int s = FD(accept(l, NULL, NULL));
	TRY(send(s, "x", 1, 0));
	TRY(recv(c, p, 1, 0));
	while (n > 0)
		MUST(close(fds[--n]));
	FD(socket(AF_INET, SOCK_STREAM, 0));
	return 0;
}
