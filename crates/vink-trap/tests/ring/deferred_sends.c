/*
 * Sends by threads, by signal handlers, between signals, and by killed processes: deferred_sends
 * threads|signals|between|killed ADDRESS PORT, of a deferred_sends.py server.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what) \
	do { \
		if (!(what)) { \
			fprintf(stderr, "%d: %s: %m\n", __LINE__, #what); \
			_exit(1); \
		} \
	} while (0)

#define MESSAGES 10000
#define SIGNALS 2000
#define SPACED 10000
#define ROUNDS 4
#define ENDS 40

static struct sockaddr_in server = {.sin_family = AF_INET};
static int plain, other;
static volatile sig_atomic_t signals;
static int may_end;

static int connect_for(const char *what, int name)
{
	char first[33];
	int s = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	CHECK(connect(s, (void *)&server, sizeof(server)) == 0);
	CHECK(setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) == 0);
	snprintf(first, sizeof(first), "%-15s %-16d", what, name);
	CHECK(send(s, first, 32, 0) == 32);
	return s;
}

/* As with poll(2) first, so without. */
static void receive(int s, void *to, size_t len, int polls)
{
	struct pollfd p = {.fd = s, .events = POLLIN};
	char *at = to;
	ssize_t got;

	while (len) {
		if (polls)
			CHECK(poll(&p, 1, 100000) == 1 || errno == EINTR);
		got = recv(s, at, len, 0);
		CHECK(got > 0 || (got < 0 && errno == EINTR && may_end));
		if (got > 0) {
			at += got;
			len -= got;
		}
	}
}

static void *send_messages(void *number)
{
	for (uint32_t n = 0; n < MESSAGES; n++) {
		uint32_t message[2] = {(uintptr_t)number, n};

		CHECK(send(plain, message, 8, 0) == 8);
	}
	return NULL;
}

static void threads(void)
{
	uint32_t next[2] = {0}, message[2];
	pthread_t ids[2];

	for (uintptr_t n = 0; n < 2; n++)
		CHECK(pthread_create(&ids[n], NULL, send_messages, (void *)n) == 0);
	for (int n = 0; n < 2 * MESSAGES; n++) {
		receive(plain, message, 8, 1);
		CHECK(message[0] < 2 && next[message[0]]++ == message[1]);
	}
	for (int n = 0; n < 2; n++)
		CHECK(pthread_join(ids[n], NULL) == 0);
	puts("each thread's are in order");
}

static void handle(int number)
{
	int before = errno, n = signals;

	(void)number;
	if (n < SIGNALS) {
		CHECK(send(other, &n, 4, 0) == 4);
		signals = n + 1;
	}
	errno = before;
}

static void interrupted(int flags)
{
	struct sigaction action = {.sa_handler = handle, .sa_flags = flags};
	struct itimerval often = {{0, 100}, {0, 100}}, never = {0};
	static char data[4000], found[4000];
	unsigned int round = 0;

	may_end = !(flags & SA_RESTART);
	signals = 0;
	CHECK(sigaction(SIGALRM, &action, NULL) == 0);
	CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
	for (; signals < SIGNALS; round++) {
		size_t len = round * 7919 % sizeof(data) + 1, sent = 0, most = round % 3 ? 4000 : 100;

		memset(data, round, len);
		data[len - 1] = round >> 8;
		while (sent < len) {
			size_t part = len - sent < most ? len - sent : most;
			ssize_t done = send(plain, data + sent, part, 0);

			CHECK(done > 0 || (done < 0 && errno == EINTR && may_end));
			sent += done > 0 ? done : 0;
		}
		receive(plain, found, len, round % 2);
		CHECK(memcmp(data, found, len) == 0);
	}
	CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
	for (int n = 0, number; n < SIGNALS; n++) {
		receive(other, &number, 4, 1);
		CHECK(number == n);
	}
	puts(may_end ? "calls end" : "calls go on");
}

static void ignore(int number)
{
	(void)number;
}

static uint64_t now(void)
{
	struct timespec time;

	CHECK(clock_gettime(CLOCK_MONOTONIC, &time) == 0);
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static void send_all(int s, uint32_t n)
{
	ssize_t done;

	while ((done = send(s, &n, sizeof(n), 0)) != sizeof(n))
		CHECK(done < 0 && errno == EINTR);
}

/*
 * A worker that has served a call polls for some 50 us more. Sends come just when it ends that, and signals whose handler
 * makes no call when such a send has to tell it.
 */
static void between(void)
{
	struct sigaction action = {.sa_handler = ignore};
	struct itimerval often = {{0, 60}, {0, 60}}, never = {0};
	char answer[128] = "";
	int s = connect_for("sink", 0), type;

	CHECK(sigaction(SIGALRM, &action, NULL) == 0);
	CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
	for (uint32_t n = 0; n < SPACED; n++) {
		struct pollfd p = {.fd = s, .events = POLLOUT};
		socklen_t len = sizeof(type);
		uint64_t until;

		/* Of what is waited for more is known. */
		CHECK(n > 10 || poll(&p, 1, 100000) == 1 || errno == EINTR);

		/* Not posted: from now on the worker polls. */
		CHECK(getsockopt(s, SOL_SOCKET, SO_TYPE, &type, &len) == 0);
		send_all(s, n);
		until = now() + 30000 + n * 7919 % 50000;
		while (now() < until)
			;
		send_all(s, n);
	}
	CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
	close(s);
	s = connect_for("ask", 0);
	CHECK(recv(s, answer, sizeof(answer) - 1, MSG_WAITALL) > 0);
	puts(answer);
}

/* Many sends are on their way when their process is killed, which does not take long. */
static void send_and_die(int round)
{
	struct pollfd p = {.events = POLLOUT};
	int ends[ENDS], n, m;

	for (n = 0; n < ENDS; n++)
		ends[n] = connect_for("sink", round * ENDS + n);
	for (m = 0; m < 50; m++)
		for (n = 0; n < ENDS; n++) {
			p.fd = ends[n];
			CHECK(m > 3 || poll(&p, 1, 100000) == 1);
			CHECK(send(ends[n], &m, sizeof(m), 0) == sizeof(m));
		}
	kill(getpid(), SIGKILL);
}

static void killed(void)
{
	char first[128] = "", answer[128];
	int status, s;
	pid_t child;

	for (int round = 0; round < ROUNDS; round++) {
		child = fork();
		CHECK(child >= 0);
		if (child == 0)
			send_and_die(round);
		CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
		for (int n = 0; n < ENDS; n++) {
			memset(answer, 0, sizeof(answer));
			s = connect_for("ask", round * ENDS + n);
			CHECK(recv(s, answer, sizeof(answer) - 1, MSG_WAITALL) > 0);
			close(s);
			if (!*first)
				strcpy(first, answer);
			CHECK(strcmp(first, answer) == 0);
		}
	}
	puts(first);
}

int main(int argc, char **argv)
{
	CHECK(argc == 4 && inet_aton(argv[2], &server.sin_addr));
	server.sin_port = htons(atoi(argv[3]));
	if (strcmp(argv[1], "killed") == 0) {
		killed();
		return 0;
	}
	if (strcmp(argv[1], "between") == 0) {
		between();
		return 0;
	}
	plain = connect_for("mirror", 0);
	if (strcmp(argv[1], "threads") == 0) {
		threads();
	} else {
		other = connect_for("mirror", 1);
		interrupted(SA_RESTART);
		interrupted(0);
	}
	return 0;
}
