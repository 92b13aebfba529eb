/* splice(), sendfile() and their kin between files, pipes and sockets. */
#include "check.h"
#include <pthread.h>
#include <sys/sendfile.h>

#define BULK (3 << 20)

static void on_signal(int sig)
{
	(void)sig;
}

static int write_end;

static void on_signal_write(int sig)
{
	(void)sig;
	MUST(write(write_end, "late", 4));
}

static void handle(int sig, void (*handler)(int), int flags)
{
	struct sigaction a = { .sa_handler = handler, .sa_flags = flags };

	MUST(sigaction(sig, &a, NULL));
}

/* SIGALRM after a twentieth of a second. */
static void soon(void)
{
	struct itimerval t = { .it_value.tv_usec = 50000 };

	MUST(setitimer(ITIMER_REAL, &t, NULL));
}

static char byte_at(unsigned n)
{
	return n * 7 + n / 251;
}

struct job {
	int from, to;
};

/* Writes BULK bytes, in odd pieces. */
static void *produce(void *job)
{
	char piece[4097];
	unsigned done = 0;

	while (done < BULK) {
		unsigned len = done % 3 ? 4097 : 77;

		if (len > BULK - done)
			len = BULK - done;
		for (unsigned i = 0; i < len; i++)
			piece[i] = byte_at(done + i);
		done += MUST(write(((struct job *)job)->to, piece, len));
	}
	close(((struct job *)job)->to);
	return NULL;
}

/* Reads up to the end; how many bytes were right. */
static void *consume(void *job)
{
	char piece[5000];
	uintptr_t right = 0;
	ssize_t n;

	while ((n = MUST(read(((struct job *)job)->from, piece, sizeof(piece)))) > 0)
		for (int i = 0; i < n; i++)
			right += piece[i] == byte_at(right);
	return (void *)right;
}

/* As a proxy does it. */
static void *relay(void *job)
{
	struct job *j = job;
	int p[2];
	ssize_t n;

	MUST(pipe(p));
	while ((n = MUST(splice(j->from, NULL, p[1], NULL, 1 << 20,
				SPLICE_F_MOVE | SPLICE_F_MORE))) > 0)
		while (n > 0)
			n -= MUST(splice(p[0], NULL, j->to, NULL, n, SPLICE_F_MOVE));
	close(p[0]);
	close(p[1]);
	close(j->to);
	return NULL;
}

static void one_way(int family)
{
	char buffer[32] = "";
	int p[2], fds[2];

	title("pipe to socket");
	stream_pair(family, p);
	MUST(pipe(fds));
	MUST(write(fds[1], "spliced", 7));
	TRY(splice(fds[0], NULL, p[0], NULL, 3, 0));
	TRY(splice(fds[0], NULL, p[0], NULL, 100, SPLICE_F_MORE));
	TRY(recv(p[1], buffer, 7, MSG_WAITALL));
	TEXT(buffer);
	TRY(splice(fds[0], NULL, p[0], NULL, 1, SPLICE_F_NONBLOCK));
	MUST(fcntl(fds[0], F_SETFL, O_NONBLOCK));
	TRY(splice(fds[0], NULL, p[0], NULL, 1, 0));
	MUST(fcntl(fds[0], F_SETFL, 0));

	title("socket to pipe");
	MUST(send(p[0], "again", 5, 0));
	WAIT(p[1], POLLIN);
	TRY(splice(p[1], NULL, fds[1], NULL, 2, 0));
	TRY(splice(p[1], NULL, fds[1], NULL, 100, 0));
	memset(buffer, 0, sizeof(buffer));
	TRY(read(fds[0], buffer, 32));
	TEXT(buffer);
	MUST(fcntl(p[1], F_SETFL, O_NONBLOCK));
	TRY(splice(p[1], NULL, fds[1], NULL, 5, 0));
	TRY(splice(p[1], NULL, fds[1], NULL, 5, SPLICE_F_NONBLOCK));
	MUST(fcntl(p[1], F_SETFL, 0));

	title("a full pipe");
	MUST(fcntl(fds[1], F_SETPIPE_SZ, 4096));
	memset(buffer, 'x', sizeof(buffer));
	for (int i = 0; i < 4096 / 32; i++)
		MUST(write(fds[1], buffer, 32));
	MUST(send(p[0], "more", 4, 0));
	WAIT(p[1], POLLIN);
	TRY(splice(p[1], NULL, fds[1], NULL, 4, SPLICE_F_NONBLOCK));
	handle(SIGALRM, on_signal, 0);
	soon();
	TRY(splice(p[1], NULL, fds[1], NULL, 4, 0));
	TRY(recv(p[1], buffer, 4, MSG_PEEK));

	title("a signal while a pipe is empty");
	int empty[2];
	MUST(pipe(empty));
	soon();
	TRY(splice(empty[0], NULL, p[1], NULL, 4, 0));
	handle(SIGALRM, on_signal_write, SA_RESTART);
	write_end = empty[1];
	soon();
	TRY(splice(empty[0], NULL, p[1], NULL, 4, 0));
	memset(buffer, 0, sizeof(buffer));
	TRY(recv(p[0], buffer, 4, 0));
	TEXT(buffer);
	limit_life();
	handle(SIGALRM, SIG_DFL, 0);

	title("ends");
	close(empty[1]);
	TRY(splice(empty[0], NULL, p[1], NULL, 4, 0));
	close(empty[0]);
	MUST(pipe(empty));
	close(empty[0]);
	TRY(splice(p[1], NULL, empty[1], NULL, 4, 0));
	close(empty[1]);
	MUST(pipe(empty));
	TRY(splice(p[1], NULL, empty[1], NULL, 100, 0));
	shutdown(p[0], SHUT_WR);
	TRY(splice(p[1], NULL, empty[1], NULL, 100, 0));
	TRY(splice(empty[0], NULL, p[0], NULL, 100, 0));
	VALUE(read(empty[0], buffer, 32));
	for (int i = 0; i < 2; i++) {
		close(p[i]);
		close(fds[i]);
		close(empty[i]);
	}
}

static void refused(int family)
{
	char name[] = "/tmp/vink-splice-XXXXXX";
	int p[2], fds[2], other[2];
	loff_t offset = 0;

	title("what cannot be");
	stream_pair(family, p);
	MUST(pipe(fds));
	MUST(pipe(other));
	MUST(write(fds[1], "pipe", 4));
	MUST(send(p[0], "sock", 4, 0));
	int file = MUST(mkstemp(name));
	MUST(unlink(name));
	MUST(write(file, "file", 4));
	MUST(lseek(file, 0, SEEK_SET));
	WAIT(p[1], POLLIN);
	TRY(splice(p[1], NULL, p[0], NULL, 1, 0));
	TRY(splice(p[1], NULL, file, NULL, 1, 0));
	TRY(splice(file, NULL, p[0], NULL, 1, 0));
	TRY(splice(fds[0], &offset, p[0], NULL, 1, 0));
	TRY(splice(fds[0], NULL, p[0], &offset, 1, 0));
	TRY(splice(p[1], &offset, fds[1], NULL, 1, 0));
	TRY(splice(p[1], NULL, fds[1], &offset, 1, 0));
	TRY(splice(p[1], NULL, fds[0], NULL, 1, 0));
	TRY(splice(fds[1], NULL, p[0], NULL, 1, 0));
	TRY(splice(p[1], NULL, NO_FD, NULL, 1, 0));
	TRY(splice(NO_FD, NULL, p[1], NULL, 1, 0));
	TRY(splice(p[1], NULL, fds[1], NULL, 1, 64));
	TRY(splice(p[1], NULL, fds[1], NULL, 0, 0));
	TRY(tee(p[1], fds[1], 1, 0));
	TRY(tee(fds[0], p[1], 1, 0));
	struct iovec iov = { name, 4 };
	TRY(vmsplice(p[1], &iov, 1, 0));
	TRY(copy_file_range(p[1], NULL, file, NULL, 1, 0));
	TRY(copy_file_range(file, NULL, p[1], NULL, 1, 0));
	TRY(sendfile(p[0], p[1], NULL, 1));
	TRY(sendfile(file, p[1], NULL, 1));
	TRY(sendfile(fds[1], p[1], &offset, 1));
	TRY(sendfile(fds[0], p[1], NULL, 1));
	TRY(sendfile(p[0], fds[0], NULL, 1));
	TRY(sendfile(p[0], fds[0], &offset, 1));
	TRY(sendfile(p[0], NO_FD, NULL, 1));
	TRY(sendfile(NO_FD, file, NULL, 1));
	offset = -1;
	TRY(sendfile(p[0], file, &offset, 1));
	TRY(sendfile(p[0], file, NOWHERE, 1));

	title("one thing that can be");
	TRY(sendfile(fds[1], p[1], NULL, 1));

	title("all that is still there");
	TRY(tee(fds[0], other[1], 100, 0));
	TRY(read(fds[0], name, 10));
	TRY(recv(p[1], name, 10, 0));
	TRY(read(file, name, 10));
	for (int i = 0; i < 2; i++) {
		close(p[i]);
		close(fds[i]);
		close(other[i]);
	}
	close(file);
}

static void files(int family)
{
	char name[] = "/tmp/vink-splice-XXXXXX", buffer[32] = "";
	off_t offset = 2;
	int p[2];

	title("sendfile");
	stream_pair(family, p);
	int file = MUST(mkstemp(name));
	MUST(unlink(name));
	MUST(write(file, "0123456789", 10));
	TRY(sendfile(p[0], file, NULL, 4));
	MUST(lseek(file, 0, SEEK_SET));
	TRY(sendfile(p[0], file, NULL, 4));
	TRY(sendfile(p[0], file, &offset, 4));
	VALUE(offset);
	MUST(lseek(file, 8, SEEK_SET));
	TRY(sendfile(p[0], file, NULL, 100));
	VALUE(lseek(file, 0, SEEK_CUR));
	TRY(recv(p[1], buffer, 10, MSG_WAITALL));
	TEXT(buffer);

	title("sendfile to a socket that is full");
	MUST(ftruncate(file, 64 << 20));
	MUST(fcntl(p[0], F_SETFL, O_NONBLOCK));
	offset = 0;
	ssize_t n, sum = 0;
	while ((n = sendfile(p[0], file, &offset, 64 << 20)) > 0)
		sum += n;
	VALUE(n == -1 && errno == EAGAIN);
	VALUE(sum == offset && sum > 0 && sum < 64 << 20);
	shutdown(p[0], SHUT_WR);
	while ((n = recv(p[1], buffer, sizeof(buffer), 0)) > 0 && sum > 0)
		sum -= n;
	VALUE(sum);
	TRY(sendfile(p[0], file, NULL, 4));
	close(p[0]);
	close(p[1]);
	close(file);
}

static void datagrams(int family)
{
	char buffer[32] = "";
	int p[2], fds[2];

	title("datagrams");
	datagram_pair(family, p);
	MUST(pipe(fds));
	MUST(write(fds[1], "datagram", 8));
	TRY(splice(fds[0], NULL, p[0], NULL, 8, 0));
	TRY(recv(p[1], buffer, 32, 0));
	TEXT(buffer);
	MUST(send(p[0], "one", 3, 0));
	MUST(send(p[0], "", 0, 0));
	MUST(send(p[0], "three", 5, 0));
	TRY(splice(p[1], NULL, fds[1], NULL, 32, 0));
	TRY(splice(p[1], NULL, fds[1], NULL, 32, 0));
	TRY(splice(p[1], NULL, fds[1], NULL, 2, 0));
	memset(buffer, 0, sizeof(buffer));
	TRY(read(fds[0], buffer, 32));
	TEXT(buffer);
	for (int i = 0; i < 2; i++) {
		close(p[i]);
		close(fds[i]);
	}
}

/* From a socket or to one, without a pipe in between. */
static void *pour(void *job)
{
	struct job *j = job;

	while (MUST(splice(j->from, NULL, j->to, NULL, 1 << 20, 0)) > 0)
		;
	close(j->to);
	return NULL;
}

static void bulk(int family)
{
	int in[2], first[2], second[2], out[2];
	pthread_t threads[5];
	void *right;

	MUST(pipe(in));
	stream_pair(family, first);
	stream_pair(family, second);
	MUST(pipe(out));
	struct {
		void *(*work)(void *);
		struct job job;
	} jobs[] = {
		{ produce, { -1, in[1] } },
		{ pour, { in[0], first[0] } },
		{ relay, { first[1], second[0] } },
		{ pour, { second[1], out[1] } },
		{ consume, { out[0], -1 } },
	};
	for (int i = 0; i < 5; i++)
		MUST(pthread_create(&threads[i], NULL, jobs[i].work, &jobs[i].job));
	for (int i = 0; i < 5; i++)
		pthread_join(threads[i], &right);
	VALUE((uintptr_t)right == BULK);
	close(in[0]);
	close(first[1]);
	close(second[1]);
	close(out[0]);
}

/* splice() ends at urgent data, and does not wait for what comes behind. */
static void urgent(int family)
{
	int p[2], fds[2];

	stream_pair(family, p);
	MUST(pipe(fds));
	MUST(send(p[0], "abC", 3, MSG_OOB));
	WAIT(p[1], POLLPRI);
	TRY(splice(p[1], NULL, fds[1], NULL, 10, 0));
	TRY(splice(p[1], NULL, fds[1], NULL, 10, 0));
	MUST(send(p[0], "de", 2, 0));
	TRY(splice(p[1], NULL, fds[1], NULL, 10, 0));
	close(p[0]);
	close(p[1]);
	close(fds[0]);
	close(fds[1]);
}

int main(void)
{
	begin();
	signal(SIGPIPE, SIG_IGN);
	EACH_FAMILY(family) {
		title(family_name(family));
		one_way(family);
		refused(family);
		files(family);
		datagrams(family);
		title("urgent data");
		urgent(family);
		title("a pipe, a socket, a proxy, a socket and a pipe");
		bulk(family);

		title("... under a rain of signals");
		handle(SIGUSR1, on_signal, SA_RESTART);
		pid_t pid = child();
		if (!pid) {
			for (;;) {
				usleep(300);
				kill(getppid(), SIGUSR1);
			}
		}
		bulk(family);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	title("SIGPIPE");
	pid_t pid = child();
	if (!pid) {
		int p[2], fds[2];

		signal(SIGPIPE, SIG_DFL);
		stream_pair(AF_INET, p);
		MUST(pipe(fds));
		MUST(send(p[0], "data", 4, 0));
		WAIT(p[1], POLLIN);
		close(fds[0]);
		splice(p[1], NULL, fds[1], NULL, 4, 0);
		_exit(0);
	}
	join(pid);
	return 0;
}
