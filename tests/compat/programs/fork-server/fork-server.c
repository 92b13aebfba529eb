/* SPDX-License-Identifier: GPL-2.0 */
/* A process per connection: serve PORT squares numbers, ask HOST PORT N asks for N squares in as many processes. */
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void reap(int signal)
{
	int saved = errno;

	(void)signal;
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
	errno = saved;
}

static void answer(int fd)
{
	char line[64] = "";
	long number;

	while (read(fd, line, sizeof(line) - 1) > 0) {
		number = atol(line);
		dprintf(fd, "%ld\n", number * number);
	}
	exit(0);
}

static void serve(int port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port) };
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	int fd;

	signal(SIGCHLD, reap);
	if (bind(listener, (struct sockaddr *)&a, sizeof(a)) || listen(listener, 256))
		err(1, "port %d", port);
	for (;;) {
		fd = accept(listener, NULL, NULL);
		if (fd < 0)
			err(1, "accept");
		switch (fork()) {
		case -1:
			err(1, "fork");
		case 0:
			close(listener);
			answer(fd);
		}
		close(fd);
	}
}

static void ask(const char *host, int port, int number)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	char line[64];
	ssize_t n;

	inet_pton(AF_INET, host, &a.sin_addr);
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)))
		err(1, "connect");
	dprintf(fd, "%d\n", number);
	n = read(fd, line, sizeof(line) - 1);
	if (n <= 0)
		err(1, "read");
	line[n] = 0;
	printf("%d squared is %s", number, line);
	fflush(stdout);
	/* The process ends with the connection open. */
	_exit(0);
}

int main(int argc, char **argv)
{
	int failed = 0, status, i;

	if (argc == 3 && !strcmp(argv[1], "serve"))
		serve(atoi(argv[2]));
	if (argc != 5)
		errx(2, "serve PORT | ask HOST PORT N");
	for (i = 0; i < atoi(argv[4]); i++) {
		switch (fork()) {
		case -1:
			err(1, "fork");
		case 0:
			ask(argv[2], atoi(argv[3]), i);
		}
	}
	while (wait(&status) > 0)
		failed |= status;
	return failed != 0;
}
