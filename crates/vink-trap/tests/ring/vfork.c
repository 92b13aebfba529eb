/* vfork(2) by a program that may post calls: whose memory the child has, and what it leaves there. */
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MUST(call) ({ \
	int result_ = (call); \
	if (result_ < 0) { \
		perror(#call); \
		exit(1); \
	} \
	result_; \
})

static char *const truth[] = { "/bin/true", NULL };
static volatile int seen;
static int ends[2];

static int status_of(pid_t pid)
{
	int status;

	MUST(waitpid(MUST(pid), &status, 0));
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static const char *memory_of_child(void)
{
	pid_t pid;

	seen = 0;
	pid = vfork();
	if (!pid) {
		seen = 1;
		execv(truth[0], truth);
		_exit(98);
	}
	return status_of(pid) ? "of one that failed" : seen ? "its parent's" : "its own";
}

static int mappings(void)
{
	FILE *file = fopen("/proc/self/maps", "r");
	int lines = 0;

	for (int c = getc(file); c != EOF; c = getc(file))
		lines += c == '\n';
	fclose(file);
	return lines;
}

static void connect_ends(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int listener = MUST(socket(AF_INET, SOCK_STREAM, 0));
	socklen_t len = sizeof(to);

	MUST(bind(listener, (void *)&to, sizeof(to)));
	MUST(listen(listener, 1));
	MUST(getsockname(listener, (void *)&to, &len));
	ends[0] = MUST(socket(AF_INET, SOCK_STREAM, 0));
	MUST(connect(ends[0], (void *)&to, sizeof(to)));
	ends[1] = MUST(accept(listener, NULL, NULL));
	close(listener);
}

static void converse(int times)
{
	char text[8];

	while (times--) {
		MUST(write(ends[0], "hello", 5));
		MUST(read(ends[1], text, sizeof(text)));
	}
}

static void *waits(void *until)
{
	char byte;

	MUST(read(*(int *)until, &byte, 1));
	return NULL;
}

/* The child makes calls that might be posted, and that its parent would not ask for a ring after. */
static int busy_child(void)
{
	pid_t pid = vfork();

	if (!pid) {
		converse(300);
		close(ends[0]);
		MUST(dup2(ends[1], ends[0]));
		MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
		execv(truth[0], truth);
		_exit(98);
	}
	return status_of(pid);
}

/* ... and has a child itself. */
static int nested(void)
{
	pid_t pid = vfork(), other;

	if (!pid) {
		other = vfork();
		if (!other) {
			execv(truth[0], truth);
			_exit(98);
		}
		status_of(other);
		execv("/no/such/program", truth);
		_exit(errno == ENOENT ? 7 : 98);
	}
	return status_of(pid);
}

int main(void)
{
	pthread_t thread;
	int pipes[2], before;

	connect_ends();
	printf("the child's memory is %s\n", memory_of_child());
	before = mappings();
	for (int n = 0; n < 50; n++)
		memory_of_child();
	printf("%d mappings more\n", mappings() - before);
	printf("a busy child: %d\n", busy_child());
	printf("one that has a child: %d\n", nested());
	MUST(pipe(pipes));
	MUST(-pthread_create(&thread, NULL, waits, &pipes[0]));
	printf("beside a thread it is %s\n", memory_of_child());
	MUST(write(pipes[1], "x", 1));
	MUST(-pthread_join(thread, NULL));
	converse(300);
	printf("with a ring it is %s\n", memory_of_child());
	converse(2);
	return 0;
}
