/* Urgent data: MSG_OOB, the mark, SO_OOBINLINE. */
#include "check.h"

static void at_mark(int fd)
{
	int mark = -1;

	TRY(ioctl(fd, SIOCATMARK, &mark));
	VALUE(mark);
}

int main(void)
{
	begin();
	EACH_FAMILY(family) {
		char buffer[16] = "";
		int p[2];

		title(family_name(family));
		stream_pair(family, p);
		TRY(recv(p[1], buffer, 1, MSG_OOB));
		TRY(send(p[0], "abC", 3, MSG_OOB));
		WAIT(p[1], POLLPRI);
		TRY(send(p[0], "de", 2, 0));
		at_mark(p[1]);
		TRY(recv(p[1], buffer, 1, MSG_OOB));
		TEXT(buffer);
		TRY(recv(p[1], buffer, 1, MSG_OOB));
		memset(buffer, 0, sizeof(buffer));
		TRY(recv(p[1], buffer, 16, 0));
		TEXT(buffer);
		at_mark(p[1]);
		TRY(recv(p[1], buffer, 2, MSG_WAITALL));
		TEXT(buffer);
		at_mark(p[1]);
		EVENTS(p[1]);

		title("inline");
		set_int(p[1], SOL_SOCKET, SO_OOBINLINE, 1);
		VALUE(get_int(p[1], SOL_SOCKET, SO_OOBINLINE));
		TRY(send(p[0], "xyZ", 3, MSG_OOB));
		WAIT(p[1], POLLPRI);
		TRY(recv(p[1], buffer, 1, MSG_OOB));
		memset(buffer, 0, sizeof(buffer));
		TRY(recv(p[1], buffer, 16, 0));
		TEXT(buffer);
		at_mark(p[1]);
		memset(buffer, 0, sizeof(buffer));
		TRY(recv(p[1], buffer, 16, 0));
		TEXT(buffer);
		close(p[0]);
		close(p[1]);
	}
	return 0;
}
