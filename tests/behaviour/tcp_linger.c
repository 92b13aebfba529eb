/* SO_LINGER: what it holds, and a lingering close that delivers everything. */
#include "check.h"

int main(void)
{
	begin();
	EACH_FAMILY(family) {
		struct linger linger = { 0, 0 };
		socklen_t len = sizeof(linger);
		char buffer[16];
		int p[2];

		title(family_name(family));
		stream_pair(family, p);
		TRY(getsockopt(p[0], SOL_SOCKET, SO_LINGER, &linger, &len));
		printf("%d %d in %u bytes\n", linger.l_onoff, linger.l_linger,
		       len);
		linger = (struct linger){ 7, 5 };
		TRY(setsockopt(p[0], SOL_SOCKET, SO_LINGER, &linger, len));
		TRY(getsockopt(p[0], SOL_SOCKET, SO_LINGER, &linger, &len));
		printf("%d %d in %u bytes\n", linger.l_onoff, linger.l_linger,
		       len);
		TRY(setsockopt(p[0], SOL_SOCKET, SO_LINGER, &linger, 4));
		len = 4;
		TRY(getsockopt(p[0], SOL_SOCKET, SO_LINGER, &linger, &len));
		VALUE(len);

		TRY(send(p[0], "last words", 10, 0));
		/* The reader closes first, so that lingering ends at once. */
		TRY(recv(p[1], buffer, 16, 0));
		TRY(close(p[1]));
		WAIT(p[0], POLLRDHUP);
		TRY(close(p[0]));
	}
	return 0;
}
