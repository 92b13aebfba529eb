/*
 * Descriptors on their way over unix sockets, the hard cases: arrays of TCP
 * sockets and files, many messages at once, peeked, cut off, never received,
 * handed on unseen, used by another thread, between unrelated processes.
 */
#include "check.h"
#include <pthread.h>

#define MOST 8

/* A message of one byte with these descriptors. */
struct message {
	struct msghdr header;
	struct iovec iov;
	char byte;
	char control[CMSG_SPACE(MOST * sizeof(int))];
};

static struct msghdr *fill(struct message *m, const int *fds, int n)
{
	memset(m, 0, sizeof(*m));
	m->byte = 'm';
	m->iov = (struct iovec){ &m->byte, 1 };
	m->header = (struct msghdr){ .msg_iov = &m->iov, .msg_iovlen = 1,
				     .msg_control = m->control,
				     .msg_controllen = CMSG_SPACE(n * sizeof(int)) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m->header);

	if (!fds)
		return &m->header;
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(n * sizeof(int));
	memcpy(CMSG_DATA(c), fds, n * sizeof(int));
	return &m->header;
}

/* Takes the descriptors of a message that came; how many. */
static int take(struct message *m, int *fds)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(&m->header);
	int n = c ? (c->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;

	memcpy(fds, CMSG_DATA(c), n * sizeof(int));
	/* A later look here finds nothing. */
	memset(m, 0x55, sizeof(*m));
	return n;
}

static int send_fds(int over, const int *fds, int n)
{
	struct message m;

	return sendmsg(over, fill(&m, fds, n), 0);
}

static int receive_fds(int over, int *fds, int room, int flags)
{
	struct message m;
	int n;

	MUST(recvmsg(over, fill(&m, NULL, room), flags));
	n = m.header.msg_flags & MSG_CTRUNC;
	if (n)
		printf("cut off\n");
	return take(&m, fds);
}

/* What is written to one end comes out at the other. */
static void goes(const char *what, int from, int to)
{
	char buffer[8] = "";

	printf("%s: sent %zd", what, write(from, "hello", 5));
	printf(", came %zd", read(to, buffer, sizeof(buffer)));
	printf(" \"%s\"\n", buffer);
}

static void *use(void *fd)
{
	TRY(send(*(int *)fd, "thread", 6, 0));
	return NULL;
}

int main(void)
{
	int p[2], tcp[2], pipes[2], got[MOST];
	char buffer[16] = "";
	pthread_t thread;

	begin();
	MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, p));
	MUST(pipe(pipes));

	title("an array of sockets and files");
	stream_pair(AF_INET, tcp);
	TRY(send_fds(p[0], (int[]){ tcp[0], pipes[1], tcp[1], pipes[0] }, 4));
	TRY(receive_fds(p[1], got, MOST, 0));
	goes("socket to socket", got[0], got[2]);
	goes("old to new", tcp[1], got[0]);
	goes("pipe", got[1], got[3]);
	for (int i = 0; i < 4; i++)
		close(got[i]);
	goes("when those are closed", tcp[0], tcp[1]);

	title("sendmmsg and recvmmsg");
	struct message m[3], r[3];
	struct mmsghdr out[3], in[3];
	int each[3][2] = { { tcp[0], pipes[0] }, { tcp[1], tcp[0] }, { pipes[1], tcp[1] } };
	for (int i = 0; i < 3; i++) {
		out[i] = (struct mmsghdr){ .msg_hdr = *fill(&m[i], each[i], 2) };
		in[i] = (struct mmsghdr){ .msg_hdr = *fill(&r[i], NULL, MOST) };
	}
	TRY(sendmmsg(p[0], out, 3, 0));
	TRY(recvmmsg(p[1], in, 3, MSG_WAITFORONE, NULL));
	for (int i = 0; i < 3; i++) {
		VALUE(in[i].msg_len);
		r[i].header = in[i].msg_hdr;
		VALUE(take(&r[i], got + 2 * i));
	}
	goes("first", got[0], got[2]);
	goes("second", got[5], got[3]);
	goes("pipe", got[4], got[1]);
	for (int i = 0; i < 6; i++)
		close(got[i]);

	title("peeked at, then received");
	TRY(send_fds(p[0], (int[]){ tcp[0] }, 1));
	TRY(receive_fds(p[1], got, MOST, MSG_PEEK));
	TRY(receive_fds(p[1], got + 1, MOST, 0));
	goes("peeked", got[0], tcp[1]);
	close(got[0]);
	goes("received", got[1], tcp[1]);
	close(got[1]);

	title("cut off");
	TRY(send_fds(p[0], (int[]){ pipes[0], tcp[0], tcp[0], tcp[1] }, 4));
	/* Room for two, as the padding counts. */
	VALUE(receive_fds(p[1], got, 1, 0) <= 2);
	close(got[0]);

	title("closed by all when it was received");
	TRY(send_fds(p[0], (int[]){ tcp[0] }, 1));
	close(tcp[0]);
	receive_fds(p[1], got, MOST, 0);
	goes("received", got[0], tcp[1]);
	close(got[0]);
	TRY(recv(tcp[1], buffer, 8, MSG_DONTWAIT));
	close(tcp[1]);

	title("closed by all while it was on its way, and data comes");
	stream_pair(AF_INET6, tcp);
	TRY(send_fds(p[0], (int[]){ tcp[0] }, 1));
	close(tcp[0]);
	TRY(send(tcp[1], "late", 4, 0));
	TRY(shutdown(tcp[1], SHUT_WR));
	receive_fds(p[1], got, MOST, 0);
	EVENTS(got[0]);
	TRY(read(got[0], buffer, 16));
	TRY(read(got[0], buffer, 16));
	TRY(write(got[0], "back", 4));
	close(got[0]);
	TRY(read(tcp[1], buffer, 16));
	TRY(read(tcp[1], buffer, 16));
	close(tcp[1]);

	title("never received");
	stream_pair(AF_INET, tcp);
	TRY(send_fds(p[0], (int[]){ tcp[0] }, 1));
	close(tcp[0]);
	TRY(recv(tcp[1], buffer, 8, MSG_DONTWAIT));
	TRY(recv(p[1], buffer, 1, 0));
	TRY(recv(tcp[1], buffer, 8, 0));
	close(tcp[1]);

	title("the unix sockets closed with it inside");
	int q[2];
	MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, q));
	stream_pair(AF_INET, tcp);
	TRY(send_fds(q[0], (int[]){ tcp[0] }, 1));
	close(tcp[0]);
	close(q[0]);
	close(q[1]);
	TRY(recv(tcp[1], buffer, 8, 0));
	close(tcp[1]);

	title("received by one thread, used by another");
	stream_pair(AF_INET, tcp);
	TRY(send_fds(p[0], (int[]){ tcp[0] }, 1));
	receive_fds(p[1], got, MOST, 0);
	MUST(pthread_create(&thread, NULL, use, &got[0]));
	pthread_join(thread, NULL);
	TRY(recv(tcp[1], buffer, 8, 0));

	title("handed on without a look, and inherited so");
	TRY(send_fds(p[0], got, 1));
	close(got[0]);
	receive_fds(p[1], got, MOST, 0);
	TRY(send_fds(p[1], got, 1));
	receive_fds(p[0], got + 1, MOST, 0);
	pid_t pid = child();
	if (!pid) {
		TRY(send(got[1], "child", 5, 0));
		exit(0);
	}
	join(pid);
	close(got[0]);
	TRY(recv(tcp[1], buffer, 8, 0));
	goes("parent", got[1], tcp[1]);
	close(got[1]);

	title("duplicated before it is used");
	TRY(send_fds(p[0], (int[]){ tcp[0] }, 1));
	receive_fds(p[1], got, MOST, 0);
	MUST(dup2(got[0], pipes[0]));
	close(got[0]);
	goes("copy", pipes[0], tcp[1]);

	title("between unrelated processes");
	union address a = { .un.sun_family = AF_UNIX };
	socklen_t len = sizeof(a.un.sun_family) + 20;
	sprintf(a.un.sun_path + 1, "vink-test-%d", getpid());
	int l = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
	MUST(bind(l, &a.any, len));
	MUST(listen(l, 4));
	pid_t middle = child();
	if (!middle) {
		pid_t last = fork();

		if (last)
			_exit(0);
		alarm(30);
		close(p[0]);
		close(p[1]);
		close(tcp[0]);
		close(tcp[1]);
		close(pipes[0]);
		int s = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
		MUST(connect(s, &a.any, len));
		receive_fds(s, got, MOST, 0);
		MUST(write(got[0], "unrelated", 9));
		exit(0);
	}
	join(middle);
	int c = MUST(accept(l, NULL, NULL));
	send_fds(c, (int[]){ tcp[0] }, 1);
	close(tcp[0]);
	close(pipes[0]);
	memset(buffer, 0, sizeof(buffer));
	TRY(recv(tcp[1], buffer, 9, MSG_WAITALL));
	TEXT(buffer);
	TRY(recv(tcp[1], buffer, 9, 0));
	return 0;
}
