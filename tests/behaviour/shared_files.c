/* Processes that share one table of descriptors (CLONE_FILES), and how they part. */
#include "check.h"
#include <linux/close_range.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/mman.h>

/* A child with the parent's table, which stays behind a barrier. */
static int to_child[2], to_parent[2];

static void say(int to[2])
{
	MUST(write(to[1], "", 1));
}

static void await(int from[2])
{
	char byte;

	MUST(read(from[0], &byte, 1));
}

static pid_t sharing_child(void)
{
	fflush(stdout);
	pid_t pid = MUST(syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0));

	if (!pid)
		limit_life();
	return pid;
}

static void both_ways(int family)
{
	char buffer[16] = "";
	volatile int *shown = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int p[2];

	title("what one makes, the other has");
	pid_t pid = sharing_child();
	if (!pid) {
		stream_pair(family, p);
		shown[0] = p[0];
		shown[1] = p[1];
		MUST(send(p[0], "child", 5, 0));
		say(to_parent);
		await(to_child);
		printf("child: ");
		TRY(recv(shown[1], buffer, 16, MSG_DONTWAIT));
		printf("child: ");
		TRY(send(shown[2], "x", 1, 0));
		MUST(dup2(shown[0], 200));
		say(to_parent);
		await(to_child);
		printf("child: ");
		TRY(send(200, "y", 1, 0));
		_exit(0);
	}
	await(to_parent);
	TRY(recv(shown[1], buffer, 5, 0));
	TEXT(buffer);
	/* Closed for both; another one is made. */
	close(shown[1]);
	stream_pair(family, p);
	shown[2] = p[0];
	say(to_child);
	await(to_parent);
	TRY(recv(p[1], buffer, 1, 0));
	int ep = MUST(epoll_create1(0));
	struct epoll_event e = { .events = EPOLLIN };
	MUST(epoll_ctl(ep, EPOLL_CTL_ADD, p[1], &e));
	TRY(close(200));
	say(to_child);
	join(pid);
	/* The child's end closes nothing. */
	MUST(send(p[0], "z", 1, 0));
	TRY(epoll_wait(ep, &e, 1, 5000));
	TRY(recv(p[1], buffer, 1, 0));
	close(ep);
	close(p[0]);
	close(p[1]);
	close(shown[0]);
	munmap((void *)shown, 4096);
}

static void parting(int family, const char *how)
{
	char buffer[16];
	int p[2];

	title(how);
	stream_pair(family, p);
	pid_t pid = sharing_child();
	if (!pid) {
		if (!strcmp(how, "exec")) {
			char a[12], b[12];

			snprintf(a, sizeof(a), "%d", p[0]);
			snprintf(b, sizeof(b), "%d", p[1]);
			execl("/no/such/program", "none", NULL);
			MUST(fcntl(p[1], F_SETFD, FD_CLOEXEC));
			execl("/proc/self/exe", "shared_files", a, b, NULL);
			_exit(99);
		}
		if (!strcmp(how, "unshare"))
			MUST(unshare(CLONE_FILES));
		else
			MUST(close_range(500, 600, CLOSE_RANGE_UNSHARE));
		close(p[1]);
		say(to_parent);
		await(to_child);
		printf("child: ");
		TRY(send(p[0], "mine", 4, 0));
		_exit(0);
	}
	if (!strcmp(how, "exec")) {
		join(pid);
	} else {
		await(to_parent);
		/* Its close was its own, and so is ours. */
		close(p[0]);
		say(to_child);
		join(pid);
	}
	TRY(recv(p[1], buffer, 16, 0));
	TRY(recv(p[1], buffer, 16, MSG_DONTWAIT));
	close(p[0]);
	TRY(recv(p[1], buffer, 16, 0));
	close(p[1]);
}

int main(int argc, char **argv)
{
	if (argc > 2) {
		int kept = atoi(argv[1]), gone = atoi(argv[2]);

		TRY(send(kept, "executed", 8, 0));
		TRY(send(gone, "executed", 8, 0));
		close(kept);
		return 0;
	}
	begin();
	MUST(pipe(to_child));
	MUST(pipe(to_parent));
	EACH_FAMILY(family) {
		title(family_name(family));
		both_ways(family);
		parting(family, "unshare");
		parting(family, "close_range");
		parting(family, "exec");
	}
	return 0;
}
