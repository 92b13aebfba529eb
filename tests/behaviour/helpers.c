/* Other programs, run while sockets are open, which go on working: system(), popen(), posix_spawn(), fork and exec. */
#include "check.h"
#include <spawn.h>

extern char **environ;

static int p[2];

static void still(void)
{
	char text[8] = "";

	TRY(send(p[0], "still", 5, 0));
	TRY(recv(p[1], text, sizeof(text), 0));
	TEXT(text);
}

static void ended(pid_t pid)
{
	int status;

	MUST(waitpid(pid, &status, 0));
	VALUE(WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

int main(void)
{
	char *echo[] = { "sh", "-c", "echo from a helper; exit 3", NULL };
	char text[64] = "";
	posix_spawn_file_actions_t actions;
	int ends[2];
	pid_t pid;

	begin();
	stream_pair(AF_INET, p);
	for (int i = 0; i < 2; i++)
		MUST(fcntl(p[i], F_SETFD, FD_CLOEXEC));
	title("system()");
	fflush(stdout);
	TRY(WEXITSTATUS(system("echo from a helper; exit 3")));
	still();
	title("popen()");
	FILE *f = popen("echo from a helper", "r");
	VALUE(fgets(text, sizeof(text), f) == text);
	TEXT(text);
	TRY(pclose(f));
	still();
	title("posix_spawn()");
	MUST(pipe(ends));
	MUST(-posix_spawn_file_actions_init(&actions));
	MUST(-posix_spawn_file_actions_adddup2(&actions, ends[1], 1));
	MUST(-posix_spawn_file_actions_addclose(&actions, ends[0]));
	MUST(-posix_spawnp(&pid, "sh", &actions, NULL, echo, environ));
	ended(pid);
	TRY(read(ends[0], text, sizeof(text)));
	still();
	title("fork() and exec()");
	fflush(stdout);
	pid = MUST(fork());
	if (!pid) {
		dup2(ends[1], 1);
		close(p[0]);
		execvp("sh", echo);
		_exit(1);
	}
	ended(pid);
	TRY(read(ends[0], text, sizeof(text)));
	still();
	title("vfork() and exec()");
	pid = vfork();
	if (!pid) {
		execvp("sh", echo);
		_exit(1);
	}
	ended(pid);
	still();
	return 0;
}
