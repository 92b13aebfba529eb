/* poll, ppoll, select and pselect over sockets, pipes and bad descriptors. */
#include "check.h"
#include <sys/select.h>

int main(void)
{
	begin();
	EACH_FAMILY(family) {
		int p[2], fds[2], closed;
		char buffer[8];

		title(family_name(family));
		stream_pair(family, p);
		MUST(pipe(fds));
		closed = dup(p[0]);
		close(closed);
		struct pollfd set[] = {
			{ p[1], POLLIN, 0 }, { fds[0], POLLIN, 0 },
			{ closed, POLLIN, 0 }, { -1, POLLIN, 0 },
			{ p[0], POLLOUT, 0 },
		};
		TRY(poll(set, 5, 0));
		for (int i = 0; i < 5; i++)
			TEXT(events_name(set[i].revents));
		set[2].fd = set[4].fd = -1;
		TRY(poll(set, 5, 0));
		TRY(poll(set, 5, 10));
		MUST(send(p[0], "x", 1, 0));
		TRY(poll(set, 5, 2000));
		TEXT(events_name(set[0].revents));
		MUST(write(fds[1], "x", 1));
		struct timespec zero = { 0, 0 };
		TRY(ppoll(set, 5, &zero, NULL));
		TEXT(events_name(set[0].revents));
		TEXT(events_name(set[1].revents));
		TRY(poll(NOWHERE, 1, 0));
		TRY(poll(NULL, 0, 0));

		title("woken while waiting");
		MUST(read(p[1], buffer, 8));
		MUST(read(fds[0], buffer, 8));
		pid_t pid = child();
		if (!pid) {
			send(p[0], "wake", 4, 0);
			_exit(0);
		}
		TRY(poll(set, 2, -1));
		TEXT(events_name(set[0].revents));
		TEXT(events_name(set[1].revents));
		join(pid);

		title("select");
		fd_set in, out, odd;
		struct timeval now = { 0, 0 };
		int top = p[0] > fds[1] ? p[0] : fds[1];
		if (p[1] > top)
			top = p[1];
		FD_ZERO(&in);
		FD_SET(p[1], &in);
		FD_SET(fds[0], &in);
		FD_ZERO(&out);
		FD_SET(p[0], &out);
		FD_SET(fds[1], &out);
		FD_ZERO(&odd);
		FD_SET(p[0], &odd);
		TRY(select(top + 1, &in, &out, &odd, &now));
		VALUE(!!FD_ISSET(p[1], &in));
		VALUE(!!FD_ISSET(fds[0], &in));
		VALUE(!!FD_ISSET(p[0], &out));
		VALUE(!!FD_ISSET(fds[1], &out));
		VALUE(!!FD_ISSET(p[0], &odd));
		MUST(read(p[1], buffer, 8));
		FD_ZERO(&in);
		FD_SET(p[1], &in);
		TRY(pselect(top + 1, &in, NULL, NULL, &zero, NULL));
		VALUE(!!FD_ISSET(p[1], &in));
		FD_SET(p[1], &in);
		MUST(send(p[0], "!", 1, MSG_OOB));
		FD_ZERO(&odd);
		FD_SET(p[1], &odd);
		TRY(select(top + 1, NULL, NULL, &odd, NULL));
		VALUE(!!FD_ISSET(p[1], &odd));
		FD_ZERO(&in);
		FD_SET(closed, &in);
		TRY(select(closed + 1, &in, NULL, NULL, &now));
		TRY(select(-1, NULL, NULL, NULL, &now));
		TRY(select(0, NULL, NULL, NULL, &now));
		close(p[0]);
		close(p[1]);
		close(fds[0]);
		close(fds[1]);
	}
	return 0;
}
