/* Eight megabytes from a child, in pieces of odd sizes, byte for byte. */
#include "check.h"

enum { TOTAL = 8 << 20 };

static uint8_t byte_at(long i)
{
	return (i ^ (i >> 8) ^ (i >> 16)) & 255;
}

int main(void)
{
	static uint8_t block[65536];

	begin();
	EACH_FAMILY(family) {
		long done = 0, wrong = 0, n = 0;
		int p[2];

		title(family_name(family));
		stream_pair(family, p);
		pid_t pid = child();
		if (!pid) {
			close(p[0]);
			for (long at = 0; at < TOTAL;) {
				long len = 1 + at * 13 % sizeof(block);

				if (len > TOTAL - at)
					len = TOTAL - at;
				for (long i = 0; i < len; i++)
					block[i] = byte_at(at + i);
				if (send(p[1], block, len, 0) != len)
					_exit(1);
				at += len;
			}
			_exit(0);
		}
		close(p[1]);
		while ((n = recv(p[0], block, sizeof(block), 0)) > 0) {
			for (long i = 0; i < n; i++)
				wrong += block[i] != byte_at(done + i);
			done += n;
		}
		VALUE(n);
		VALUE(done);
		VALUE(wrong);
		join(pid);
		close(p[0]);
	}
	return 0;
}
