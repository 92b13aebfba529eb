/* A child that goes on with its parent's sockets, and asks for one of its own. */
#include "../check.h"

int main(void)
{
	int p[2], file;

	begin();
	stream_pair(AF_INET, p);
	pid_t pid = child();
	if (!pid) {
		TRY(send(p[0], "x", 1, 0));
		TRY(recv(p[1], &p, 1, 0));
		TRY(socket(AF_INET, SOCK_STREAM, 0));
		TRY(dup(p[0]));
		TRY(close(p[0]));
		TRY(close(p[0]));
		FD(socket(AF_UNIX, SOCK_STREAM, 0));
		file = FD(open("/dev/null", O_WRONLY));
		TRY(write(file, "x", 1));
		fflush(stdout);
		_exit(0);
	}
	join(pid);
	TRY(send(p[0], "x", 1, 0));
	TRY(recv(p[1], &file, 1, 0));
	return 0;
}
