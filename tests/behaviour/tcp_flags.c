/* Flags of recv() and send() on a stream: PEEK, TRUNC, WAITALL, MORE, ... */
#include "check.h"

int main(void)
{
	begin();
	EACH_FAMILY(family) {
		char buffer[32] = "";
		int p[2];

		title(family_name(family));
		stream_pair(family, p);
		TRY(recv(p[1], buffer, 8, MSG_DONTWAIT));
		TRY(send(p[0], "abcdefgh", 8, 0));
		WAIT(p[1], POLLIN);
		TRY(recv(p[1], buffer, 4, MSG_PEEK));
		TEXT(buffer);
		TRY(recv(p[1], buffer, 32, MSG_PEEK | MSG_DONTWAIT));
		TEXT(buffer);

		title("MSG_TRUNC discards");
		TRY(recv(p[1], NOWHERE, 3, MSG_TRUNC));
		memset(buffer, 0, sizeof(buffer));
		TRY(recv(p[1], buffer, 32, 0));
		TEXT(buffer);

		title("MSG_WAITALL");
		pid_t pid = child();
		if (!pid) {
			send(p[0], "one", 3, 0);
			send(p[0], "two", 3, 0);
			send(p[0], "six", 3, 0);
			_exit(0);
		}
		memset(buffer, 0, sizeof(buffer));
		TRY(recv(p[1], buffer, 8, MSG_WAITALL));
		TEXT(buffer);
		join(pid);
		TRY(recv(p[1], buffer, 8, MSG_WAITALL | MSG_DONTWAIT));
		TRY(send(p[0], "end", 3, 0));
		TRY(shutdown(p[0], SHUT_WR));
		TRY(recv(p[1], buffer, 8, MSG_WAITALL));

		title("MSG_MORE holds a part until it is pushed");
		TRY(send(p[1], "part ", 5, MSG_MORE));
		TRY(send(p[1], "whole", 5, 0));
		memset(buffer, 0, sizeof(buffer));
		TRY(recv(p[0], buffer, 10, MSG_WAITALL));
		TEXT(buffer);

		title("other flags");
		TRY(send(p[1], "r", 1, MSG_DONTROUTE));
		TRY(recv(p[0], buffer, 1, MSG_CMSG_CLOEXEC));
		TRY(recv(p[0], buffer, 1, MSG_ERRQUEUE));
		TRY(recv(p[0], buffer, 0, MSG_DONTWAIT));
		close(p[0]);
		close(p[1]);
	}
	return 0;
}
