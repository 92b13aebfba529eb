/* fork: both hold the socket, and it lives until the last one lets go. */
#include "check.h"

int main(void)
{
	begin();
	EACH_FAMILY(family) {
		char buffer[32] = "";
		int p[2], status[2];

		title(family_name(family));
		title("the child accepts from the parent's listener");
		int l = listener(family);
		pid_t pid = child();
		if (!pid) {
			int s = accept(l, NULL, NULL);

			send(s, "from the child", 14, 0);
			_exit(7);
		}
		int c = connect_to(family, SOCK_STREAM, port_of(l));
		TRY(recv(c, buffer, 32, 0));
		TEXT(buffer);
		join(pid);
		TRY(recv(c, buffer, 32, 0));
		close(c);

		title("the parent closes, the child goes on");
		stream_pair(family, p);
		MUST(pipe(status));
		pid = child();
		if (!pid) {
			char byte;

			close(p[1]);
			read(status[0], &byte, 1); /* the parent has closed */
			send(p[0], "alive", 5, 0);
			_exit(0);
		}
		TRY(close(p[0]));
		EVENTS(p[1]);
		MUST(write(status[1], "x", 1));
		memset(buffer, 0, sizeof(buffer));
		TRY(recv(p[1], buffer, 32, 0));
		TEXT(buffer);
		join(pid);
		TRY(recv(p[1], buffer, 32, 0));
		close(p[1]);

		title("a killed child lets go as well");
		stream_pair(family, p);
		pid = child();
		if (!pid) {
			char byte;

			close(p[1]);
			recv(p[0], &byte, 1, 0); /* for ever */
			_exit(0);
		}
		close(p[0]);
		MUST(kill(pid, SIGKILL));
		join(pid);
		TRY(recv(p[1], buffer, 32, 0));
		close(p[1]);

		title("flags are shared over fork, descriptors are not");
		stream_pair(family, p);
		pid = child();
		if (!pid) {
			fcntl(p[0], F_SETFL, O_NONBLOCK);
			shutdown(p[1], SHUT_WR);
			close(p[0]);
			close(p[1]);
			_exit(0);
		}
		join(pid);
		VALUE(!!(fcntl(p[0], F_GETFL) & O_NONBLOCK));
		TRY(recv(p[0], buffer, 32, 0));
		TRY(send(p[0], "x", 1, 0));
		TRY(recv(p[1], buffer, 32, 0));

		title("a grandchild");
		pid = child();
		if (!pid) {
			pid_t inner = child();

			if (!inner) {
				send(p[0], "grandchild", 10, 0);
				_exit(3);
			}
			waitpid(inner, NULL, 0);
			_exit(4);
		}
		join(pid);
		memset(buffer, 0, sizeof(buffer));
		TRY(recv(p[1], buffer, 32, 0));
		TEXT(buffer);
		close(p[0]);
		close(p[1]);
		close(l);
	}
	return 0;
}
