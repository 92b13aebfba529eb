/* Sending and receiving without ever waiting: asked again as long as it is in vain, every byte arrives. */
#include "check.h"

enum { TOTAL = 3 << 20, PIECE = 50000 };

static void send_all(int fd)
{
	static unsigned char piece[PIECE];
	long sent = 0;

	while (sent < TOTAL) {
		long len = TOTAL - sent < PIECE ? TOTAL - sent : PIECE;

		for (long i = 0; i < len; i++)
			piece[i] = (sent + i) * 31 >> 3;
		long done = send(fd, piece, len, MSG_NOSIGNAL);
		if (done < 0 && errno != EAGAIN)
			_exit(1);
		if (done > 0)
			sent += done;
	}
	_exit(0);
}

int main(void)
{
	static unsigned char piece[PIECE];
	union address a;

	begin();
	int l = listener(AF_INET);
	socklen_t len = loopback(AF_INET, port_of(l), &a);
	int c = FD(socket(AF_INET, SOCK_STREAM, 0));
	TRY(connect(c, &a.any, len));
	int s = FD(accept(l, NULL, NULL));
	TRY(fcntl(c, F_SETFL, O_NONBLOCK));
	TRY(fcntl(s, F_SETFL, O_NONBLOCK));

	title("nothing comes");
	long in_vain = 0;
	for (int i = 0; i < 1000; i++)
		in_vain += recv(s, piece, 1, 0) < 0 && errno == EAGAIN;
	VALUE(in_vain);

	title("one asks for data, the other for room");
	pid_t child = fork();
	if (child == 0)
		send_all(c);
	long received = 0, wrong = 0;
	while (received < TOTAL) {
		long done = read(s, piece, sizeof(piece));
		if (done < 0 && errno == EAGAIN)
			continue;
		if (done <= 0)
			break;
		for (long i = 0; i < done; i++)
			wrong += piece[i] != (unsigned char)((received + i) * 31 >> 3);
		received += done;
	}
	VALUE(received);
	VALUE(wrong);
	int status = 0;
	VALUE(waitpid(child, &status, 0) == child);
	VALUE(WEXITSTATUS(status));

	title("an error ends it");
	TRY(close(c));
	char byte;
	do
		errno = 0;
	while (read(s, &byte, 1) < 0 && errno == EAGAIN);
	VALUE(errno);
	return 0;
}
