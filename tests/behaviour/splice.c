/* splice() between a pipe and a socket, both ways. */
#include "check.h"

int main(void)
{
	begin();
	EACH_FAMILY(family) {
		char buffer[8] = "";
		int p[2], fds[2];

		title(family_name(family));
		stream_pair(family, p);
		MUST(pipe(fds));
		MUST(write(fds[1], "spliced", 7));
		TRY(splice(fds[0], NULL, p[0], NULL, 7, 0));
		TRY(recv(p[1], buffer, 7, MSG_WAITALL));
		TEXT(buffer);
		MUST(send(p[0], "again", 5, 0));
		WAIT(p[1], POLLIN);
		TRY(splice(p[1], NULL, fds[1], NULL, 5, 0));
		memset(buffer, 0, sizeof(buffer));
		TRY(read(fds[0], buffer, 8));
		TEXT(buffer);
		TRY(splice(p[0], NULL, p[1], NULL, 1, 0));
		for (int i = 0; i < 2; i++) {
			close(p[i]);
			close(fds[i]);
		}
	}
	return 0;
}
