/* Event loops: the same wait again and again, and what must end it: blocked signals that its mask lets through, and data. */
#include "exact.h"
#include <poll.h>

static void caught(int signal)
{
	say("SIG%s", sigabbrev_np(signal));
}

static sigset_t none;
static struct pollfd fds[2];

/* Waits for long, after two waits that nothing ends. */
static void await(const char *what)
{
	struct timespec brief = span(5 * MS);

	for (int i = 0; i < 2; i++)
		if (ppoll(fds, 2, &brief, &none))
			say("a wait for %s is over too early", what);
	say("%s", what);
}

static void go_on(void)
{
	struct timespec t = span(1000 * MS);

	TRY(ppoll(fds, 2, &t, &none));
	for (int i = 0; i < 2; i++)
		if (fds[i].revents)
			say("%d: %#x", i, fds[i].revents);
}

/* A child that writes into a pipe 10 ms later, or ends. */
static void writer(int fd)
{
	if (MUST(fork()))
		return;
	rest(10 * MS);
	if (fd >= 0)
		MUST(write(fd, "x", 1));
	_exit(0);
}

int main(void)
{
	struct sigaction a = { .sa_handler = caught };
	int signals[] = { SIGUSR1, SIGCHLD, SIGPIPE, SIGALRM, SIGIO };
	sigset_t all;
	char byte;
	int first[2], second[2], dead[2];

	begin();
	sigemptyset(&none);
	sigemptyset(&all);
	for (int i = 0; i < 5; i++) {
		sigaddset(&all, signals[i]);
		MUST(sigaction(signals[i], &a, NULL));
	}
	MUST(sigprocmask(SIG_BLOCK, &all, NULL));
	MUST(pipe2(first, O_NONBLOCK));
	MUST(pipe(second));
	MUST(pipe(dead));
	fds[0] = (struct pollfd){ .fd = first[0], .events = POLLIN };
	fds[1] = (struct pollfd){ .fd = second[0], .events = POLLIN };

	await("a signal of its own");
	raise(SIGUSR1);
	go_on();
	await("an alarm");
	ualarm(20000, 0);
	go_on();
	await("a child");
	writer(-1);
	go_on();
	MUST(wait(NULL));
	await("a pipe without a reader");
	MUST(close(dead[0]));
	TRY(write(dead[1], "x", 1));
	go_on();

	/* Its own pipe, as FRR wakes itself up. */
	for (int i = 0; i < 2; i++) {
		await("its own pipe");
		MUST(write(first[1], "x", 1));
		go_on();
		TRY(read(first[0], &byte, 1));
		TRY(read(first[0], &byte, 1));
	}
	/* The same numbers are other files. */
	MUST(close(first[0]));
	MUST(close(first[1]));
	MUST(pipe2(first, O_NONBLOCK));
	MUST(dup2(second[0], dead[1]));
	await("another pipe");
	MUST(write(first[1], "x", 1));
	go_on();
	TRY(read(first[0], &byte, 1));
	/* Blocked reads between the waits; a child that has the file, too. */
	for (int i = 0; i < 2; i++) {
		writer(second[1]);
		TRY(read(second[0], &byte, 1));
		go_on();
		MUST(wait(NULL));
	}
	/* A file that sends a signal. */
	MUST(fcntl(second[0], F_SETOWN, getpid()));
	MUST(fcntl(second[0], F_SETFL, O_ASYNC));
	fds[1].events = 0;
	await("a file's signal");
	MUST(write(second[1], "x", 1));
	go_on();
	/* The end of the only writer. */
	fds[1].events = POLLIN;
	MUST(fcntl(second[0], F_SETFL, 0));
	TRY(read(second[0], &byte, 1));
	MUST(sigaddset(&none, SIGCHLD));
	await("the end of a pipe");
	writer(-1);
	MUST(close(second[1]));
	go_on();
	TRY(read(dead[1], &byte, 1));
	return 0;
}
