/* A full send buffer: EAGAIN, no POLLOUT, and all of it arrives in the end. */
#include "check.h"

int main(void)
{
	begin();
	EACH_FAMILY(family) {
		static char block[10000];
		long sent = 0, received = 0, n;
		unsigned sum_out = 0, sum_in = 0;
		int p[2];

		title(family_name(family));
		stream_pair(family, p);
		TRY(fcntl(p[0], F_SETFL, O_NONBLOCK));
		TRY(fcntl(p[1], F_SETFL, O_NONBLOCK));
		for (;;) {
			for (unsigned i = 0; i < sizeof(block); i++)
				block[i] = (sent + i) * 7;
			n = send(p[0], block, sizeof(block), 0);
			if (n < 0)
				break;
			for (long i = 0; i < n; i++)
				sum_out = sum_out * 31 + (uint8_t)block[i];
			sent += n;
		}
		TEXT(strerrorname_np(errno));
		VALUE(sent > 100000);
		EVENTS(p[0]);
		TRY(send(p[0], "x", 1, MSG_DONTWAIT));

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
