/* Socket calls on what is closed, or open but no socket. */
#include "check.h"
#include <sys/sendfile.h>

static void all(int fd)
{
	union address a;
	socklen_t len = loopback(AF_INET, 4400, &a);
	struct msghdr m = { 0 };
	struct mmsghdr mm = { 0 };
	char byte = 0;
	int value = 1;
	socklen_t vlen = sizeof(value);

	TRY(bind(fd, &a.any, len));
	TRY(listen(fd, 1));
	TRY(connect(fd, &a.any, len));
	TRY(accept(fd, NULL, NULL));
	TRY(accept4(fd, NULL, NULL, 0));
	TRY(getsockname(fd, &a.any, &len));
	TRY(getpeername(fd, &a.any, &len));
	TRY(send(fd, &byte, 1, 0));
	TRY(sendto(fd, &byte, 1, 0, &a.any, len));
	TRY(recv(fd, &byte, 1, 0));
	TRY(recvfrom(fd, &byte, 1, 0, &a.any, &len));
	TRY(sendmsg(fd, &m, 0));
	TRY(recvmsg(fd, &m, 0));
	TRY(sendmmsg(fd, &mm, 1, 0));
	TRY(recvmmsg(fd, &mm, 1, 0, NULL));
	TRY(getsockopt(fd, SOL_SOCKET, SO_TYPE, &value, &vlen));
	TRY(setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &value, vlen));
	TRY(shutdown(fd, SHUT_RDWR));
}

int main(void)
{
	begin();
	title("not open");
	all(NO_FD);
	title("minus one");
	all(-1);
	title("a file");
	int fd = open("/dev/null", O_RDWR);
	all(fd);
	title("the ends of a pipe");
	int p[2];
	MUST(pipe(p));
	all(p[0]);
	TRY(send(p[1], "x", 1, 0));
	title("a path only");
	int path = open("/", O_PATH);
	TRY(listen(path, 1));
	TRY(send(path, "x", 1, 0));

	title("file calls on a socket");
	int s = socket(AF_INET, SOCK_STREAM, 0);
	char byte;
	TRY(lseek(s, 0, SEEK_SET));
	TRY(pread(s, &byte, 1, 0));
	TRY(pwrite(s, &byte, 1, 0));
	TRY(ftruncate(s, 0));
	TRY(fsync(s));
	TRY(fchdir(s));
	TRY(close(s));
	TRY(read(s, &byte, 1));
	TRY(write(s, &byte, 1));
	TRY(close(s));
	return 0;
}
