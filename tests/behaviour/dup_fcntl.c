/* dup, dup2, dup3 and fcntl on sockets: numbers, shared and own flags. */
#include "check.h"

int main(void)
{
	begin();
	EACH_FAMILY(family) {
		char buffer[8] = "";
		int p[2];

		title(family_name(family));
		stream_pair(family, p);

		title("the lowest free number");
		int hole = dup(p[0]); /* where the listener was */
		int low = dup(p[0]);
		close(low);
		VALUE(socket(family, SOCK_STREAM, 0) == low);
		VALUE(dup(p[0]) == low + 1);
		close(low);
		VALUE(dup(p[0]) == low);
		close(low);
		close(low + 1);
		VALUE(open("/dev/null", O_RDONLY) == low);
		VALUE(socket(family, SOCK_DGRAM, 0) == low + 1);
		close(low);
		close(low + 1);

		close(hole);

		title("two numbers, one socket");
		int d = dup(p[0]);
		TRY(send(d, "dup", 3, 0));
		TRY(recv(p[1], buffer, 8, 0));
		TEXT(buffer);
		TRY(fcntl(d, F_SETFL, O_NONBLOCK));
		VALUE(!!(fcntl(p[0], F_GETFL) & O_NONBLOCK));
		VALUE((fcntl(p[0], F_GETFL) & O_ACCMODE) == O_RDWR);
		TRY(recv(p[0], buffer, 8, 0));
		TRY(fcntl(d, F_SETFD, FD_CLOEXEC));
		VALUE(fcntl(d, F_GETFD));
		VALUE(fcntl(p[0], F_GETFD));
		TRY(close(p[0]));
		TRY(send(d, "still", 5, 0));
		TRY(recv(p[1], buffer, 8, 0));
		TRY(recv(p[1], buffer, 8, MSG_DONTWAIT));

		title("dup2 and dup3");
		VALUE(dup2(d, 100));
		VALUE(fcntl(100, F_GETFD));
		TRY(send(100, "hundred", 7, 0));
		TRY(recv(p[1], buffer, 8, 0));
		VALUE(dup2(p[1], 100));
		TRY(send(100, "swapped", 7, 0));
		TRY(recv(d, buffer, 8, MSG_WAITALL));
		VALUE(dup2(100, 100));
		VALUE(dup3(d, 101, O_CLOEXEC));
		VALUE(fcntl(101, F_GETFD));
		TRY(dup3(d, d, 0));
		TRY(dup3(d, 102, O_NONBLOCK));
		TRY(dup2(d, -1));
		TRY(dup2(NO_FD, 100));
		TRY(dup(NO_FD));
		int null = open("/dev/null", O_RDWR);
		VALUE(dup2(null, 100));
		TRY(send(100, "x", 1, 0));
		VALUE(dup2(d, null) == null);
		TRY(send(null, "file", 4, 0));
		TRY(close(100));
		TRY(close(101));
		TRY(close(null));
		TRY(recv(p[1], buffer, 8, 0));

		title("F_DUPFD");
		VALUE(fcntl(d, F_DUPFD, 200));
		VALUE(fcntl(d, F_DUPFD, 200));
		VALUE(fcntl(d, F_DUPFD_CLOEXEC, 200));
		VALUE(fcntl(200, F_GETFD));
		VALUE(fcntl(202, F_GETFD));
		TRY(fcntl(d, F_DUPFD, -1));
		for (int i = 200; i < 203; i++)
			TRY(close(i));
		TRY(close(d));
		WAIT(p[1], POLLIN);
		TRY(recv(p[1], buffer, 8, 0));

		title("other commands");
		TRY(fcntl(p[1], F_SETFL, O_APPEND));
		VALUE(!!(fcntl(p[1], F_GETFL) & O_APPEND));
		TRY(fcntl(p[1], 9999, 0));
		TRY(fcntl(p[1], F_GETPIPE_SZ));
		TRY(fcntl(NO_FD, F_GETFL));
		close(p[1]);
	}
	return 0;
}
