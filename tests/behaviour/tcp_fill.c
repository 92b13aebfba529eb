/* A full send buffer: EAGAIN, no POLLOUT, and all of it arrives in the end. */
#include "check.h"

static char block[10000];
static long sent;
static unsigned sum_out;

/* The next bytes of the stream: so many of them as there is room for, or send(2)'s error. */
static long put(int fd, size_t most, int flags)
{
	for (size_t i = 0; i < most; i++)
		block[i] = (sent + i) * 7;
	long n = send(fd, block, most, flags);

	for (long i = 0; i < n; i++)
		sum_out = sum_out * 31 + (uint8_t)block[i];
	if (n > 0)
		sent += n;
	return n;
}

int main(void)
{
	begin();
	EACH_FAMILY(family) {
		long received = 0, n;
		unsigned sum_in = 0;
		int full = 0;
		int p[2];

		title(family_name(family));
		stream_pair(family, p);
		TRY(fcntl(p[0], F_SETFL, O_NONBLOCK));
		TRY(fcntl(p[1], F_SETFL, O_NONBLOCK));
		sent = 0;
		sum_out = 0;
		/* Full is what refuses one byte as well, unless an acknowledgement came in between. */
		for (int tries = 0; tries < 100 && !full; tries++) {
			while (put(p[0], sizeof(block), 0) > 0)
				;
			full = put(p[0], 1, MSG_DONTWAIT) < 0;
		}
		VALUE(full);
		TEXT(strerrorname_np(errno));
		VALUE(sent > 100000);
		EVENTS(p[0]);

		shutdown(p[0], SHUT_WR);
		while (1) {
			struct pollfd wait = { p[1], POLLIN, 0 };

			poll(&wait, 1, 2000);
			n = recv(p[1], block, sizeof(block), 0);
			if (n <= 0)
				break;
			for (long i = 0; i < n; i++)
				sum_in = sum_in * 31 + (uint8_t)block[i];
			received += n;
		}
		VALUE(n);
		VALUE(sent == received);
		VALUE(sum_in == sum_out);
		close(p[0]);
		close(p[1]);
	}
	return 0;
}
