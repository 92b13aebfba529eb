/* The ways to start a program with a socket: inetd's, posix_spawn(), vfork(), daemons. */
#include "check.h"
#include <linux/close_range.h>
#include <linux/sched.h>
#include <sched.h>
#include <spawn.h>

extern char **environ;

/* What the started program does: 0 and 1 are its client. */
static int serve(void)
{
	char line[64];
	ssize_t n = read(0, line, sizeof(line));

	for (ssize_t i = 0; i < n; i++)
		line[i] ^= 0x20;
	return write(1, line, n) == n ? n : 99;
}

static char *const argv[] = { "spawn", "serve", NULL };

/* Talks with the process that got the other end, and waits for its end. */
static void converse(const char *how, int p[2], pid_t pid)
{
	char line[64] = "";
	int status = 0;

	close(p[1]);
	MUST(send(p[0], "hello", 5, 0));
	ssize_t n = recv(p[0], line, sizeof(line), 0);
	printf("%s: %zd \"%s\"", how, n, line);
	/* The end of all that had it. */
	n = recv(p[0], line, sizeof(line), 0);
	if (pid > 0)
		MUST(waitpid(pid, &status, 0));
	printf(", then %zd, exited with %d\n", n, WEXITSTATUS(status));
	close(p[0]);
}

static void inetd(int family)
{
	char self[] = "/proc/self/exe";
	posix_spawn_file_actions_t actions;
	int p[2];
	pid_t pid;

	stream_pair(family, p);
	pid = child();
	if (!pid) {
		for (int fd = 0; fd <= 2; fd++)
			MUST(dup2(p[1], fd));
		closefrom(3);
		execve(self, argv, environ);
		_exit(98);
	}
	converse("fork", p, pid);

	stream_pair(family, p);
	pid = vfork();
	if (!pid) {
		dup2(p[1], 0);
		dup2(p[1], 1);
		close(p[0]);
		close(p[1]);
		execve(self, argv, environ);
		_exit(98);
	}
	converse("vfork", p, pid);

	stream_pair(family, p);
	MUST(fcntl(p[0], F_SETFD, FD_CLOEXEC));
	MUST(fcntl(p[1], F_SETFD, FD_CLOEXEC));
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, p[1], 0);
	posix_spawn_file_actions_adddup2(&actions, 0, 1);
	MUST(-posix_spawn(&pid, self, &actions, NULL, argv, environ));
	converse("posix_spawn", p, pid);

	stream_pair(family, p);
	MUST(fcntl(p[0], F_SETFD, FD_CLOEXEC));
	MUST(fcntl(p[1], F_SETFD, FD_CLOEXEC));
	posix_spawn_file_actions_addclosefrom_np(&actions, 3);
	TRY(posix_spawn(&pid, "/no/such/program", &actions, NULL, argv, environ));
	posix_spawnp(&pid, self, &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	converse("after one that failed", p, pid);

	stream_pair(family, p);
	int program = MUST(open(self, O_RDONLY | O_CLOEXEC));
	pid = child();
	if (!pid) {
		dup2(p[1], 0);
		dup2(p[1], 1);
		syscall(SYS_close_range, 3, ~0U, CLOSE_RANGE_CLOEXEC);
		fexecve(program, argv, environ);
		_exit(98);
	}
	close(program);
	converse("fexecve", p, pid);

	stream_pair(family, p);
	struct clone_args args = { .flags = CLONE_PIDFD | CLONE_CLEAR_SIGHAND, .exit_signal = SIGCHLD };
	int pidfd = -1;
	args.pidfd = (uintptr_t)&pidfd;
	fflush(stdout);
	pid = MUST(syscall(SYS_clone3, &args, sizeof(args)));
	if (!pid) {
		dup2(p[1], 0);
		dup2(p[1], 1);
		MUST(close_range(3, ~0U, CLOSE_RANGE_UNSHARE));
		execve(self, argv, environ);
		_exit(98);
	}
	struct pollfd end = { pidfd, POLLIN, 0 };
	converse("clone3", p, 0);
	VALUE(poll(&end, 1, 5000));
	join(pid);
	close(pidfd);

	stream_pair(family, p);
	pid = child();
	if (!pid) {
		close(p[0]);
		dup2(p[1], 9);
		close(p[1]);
		execl("/bin/sh", "sh", "-c", "exec <&9 >&9 9>&-; head -c 5; exit 3", NULL);
		_exit(98);
	}
	converse("a shell", p, pid);
}

static void daemons(int family)
{
	char byte, line[16] = "";
	int l = listener(family), ready[2];

	title("a daemon");
	MUST(pipe(ready));
	pid_t pid = child();
	if (!pid) {
		MUST(daemon(1, 1));
		/* The first process is gone; no signal ends this one. */
		prctl(PR_SET_PDEATHSIG, 0);
		alarm(30);
		MUST(write(ready[1], getsid(0) == getpgrp() ? "y" : "n", 1));
		int c = MUST(accept(l, NULL, NULL));
		MUST(read(c, line, sizeof(line)));
		MUST(write(c, "from the daemon", 15));
		_exit(0);
	}
	join(pid);
	MUST(read(ready[0], &byte, 1));
	int c = connect_to(family, SOCK_STREAM, port_of(l));
	MUST(send(c, "hello", 5, 0));
	TRY(recv(c, line, 15, MSG_WAITALL));
	printf("%.15s\n", line);
	TRY(recv(c, line, 15, 0));
	close(c);
	close(l);
	close(ready[0]);
	close(ready[1]);
}

static void ranges(int family)
{
	char byte;
	int p[2];

	title("close_range");
	stream_pair(family, p);
	int a = MUST(fcntl(p[0], F_DUPFD, 100)), b = MUST(fcntl(p[1], F_DUPFD, 200));
	TRY(close_range(101, 199, 0));
	TRY(close_range(100, 100, CLOSE_RANGE_CLOEXEC));
	VALUE(fcntl(a, F_GETFD));
	TRY(send(a, "x", 1, 0));
	TRY(close_range(200, 300, 0));
	TRY(send(b, "x", 1, 0));
	TRY(close_range(300, 200, 0));
	TRY(close_range(100, 100, 64));
	TRY(send(a, "x", 1, 0));
	TRY(close_range(100, 100, CLOSE_RANGE_UNSHARE));
	TRY(send(a, "x", 1, 0));
	TRY(recv(p[1], &byte, 1, 0));
	close(p[0]);
	TRY(recv(p[1], &byte, 1, 0));
	close(p[1]);
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "serve"))
		return serve();
	begin();
	EACH_FAMILY(family) {
		title(family_name(family));
		inetd(family);
		daemons(family);
		ranges(family);
	}
	return 0;
}
