/* exec: a socket goes along unless it is marked close-on-exec. */
#include "check.h"

/* What the program does when it is executed again. */
static int again(int kept, int gone)
{
	char buffer[16] = "";

	setvbuf(stdout, NULL, _IOLBF, 0);
	limit_life();
	VALUE(fcntl(kept, F_GETFD));
	TRY(fcntl(gone, F_GETFD));
	TRY(recv(kept, buffer, 16, 0));
	TEXT(buffer);
	TRY(send(kept, "executed", 8, 0));
	int s = FD(socket(AF_INET, SOCK_STREAM, 0));
	TRY(close(s));
	return 5;
}

int main(int argc, char **argv)
{
	if (argc == 3)
		return again(atoi(argv[1]), atoi(argv[2]));
	begin();
	EACH_FAMILY(family) {
		char kept[12], gone[12], buffer[16] = "";
		int p[2];

		title(family_name(family));
		stream_pair(family, p);
		int other = FD(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
		snprintf(kept, sizeof(kept), "%d", p[0]);
		snprintf(gone, sizeof(gone), "%d", other);
		TRY(send(p[1], "before exec", 11, 0));
		pid_t pid = child();
		if (!pid) {
			close(p[1]);
			execl("/proc/self/exe", argv[0], kept, gone, NULL);
			_exit(99);
		}
		join(pid);
		TRY(recv(p[1], buffer, 16, 0));
		TEXT(buffer);
		close(p[0]);
		TRY(recv(p[1], buffer, 16, 0));
		close(p[1]);
		close(other);
	}
	return 0;
}
