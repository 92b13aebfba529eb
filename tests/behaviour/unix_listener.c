/* Listeners handed to a process that waits for them, and closed where they were made. */
#include "check.h"
#include <sys/epoll.h>

#define COUNT 2

struct message {
	char control[CMSG_SPACE(COUNT * sizeof(int))], byte;
	struct iovec iov;
	struct msghdr head;
};

static struct msghdr *prepare(struct message *m)
{
	memset(m, 0, sizeof(*m));
	m->iov.iov_base = &m->byte;
	m->iov.iov_len = 1;
	m->head.msg_iov = &m->iov;
	m->head.msg_iovlen = 1;
	m->head.msg_control = m->control;
	m->head.msg_controllen = sizeof(m->control);
	return &m->head;
}

static void serve(int over)
{
	struct message m;
	struct epoll_event e = { .events = EPOLLIN };
	char text[8] = "";
	int fds[COUNT];

	TRY(recvmsg(over, prepare(&m), MSG_CMSG_CLOEXEC));
	struct cmsghdr *c = CMSG_FIRSTHDR(&m.head);
	VALUE(c && c->cmsg_len == CMSG_LEN(sizeof(fds)));
	memcpy(fds, CMSG_DATA(c), sizeof(fds));
	MUST(write(over, "r", 1));
	for (int i = 0; i < COUNT; i++) {
		int set = MUST(epoll_create1(0));

		TRY(epoll_ctl(set, EPOLL_CTL_ADD, fds[i], &e));
		TRY(epoll_wait(set, &e, 1, -1));
		int s = FD(accept(fds[i], NULL, NULL));
		TRY(recv(s, text, sizeof(text), 0));
		TEXT(text);
		TRY(close(fds[i]));
		TRY(epoll_wait(set, &e, 1, 0));
		TRY(send(s, "bye", 3, 0));
		close(s);
		close(set);
	}
	fflush(stdout);
	_exit(0);
}

int main(void)
{
	int p[2], fds[COUNT];
	struct message m;
	char text[8] = "";

	begin();
	MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, p));
	pid_t pid = child();
	if (!pid)
		serve(p[1]);

	struct msghdr *head = prepare(&m);
	struct cmsghdr *c = CMSG_FIRSTHDR(head);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(fds));
	for (int i = 0; i < COUNT; i++)
		fds[i] = listener(families[i]);
	memcpy(CMSG_DATA(c), fds, sizeof(fds));
	MUST(sendmsg(p[0], head, 0));
	int ports[] = { port_of(fds[0]), port_of(fds[1]) };
	for (int i = 0; i < COUNT; i++)
		MUST(close(fds[i]));
	MUST(read(p[0], text, 1));
	for (int i = 0; i < COUNT; i++) {
		int s = connect_to(families[i], SOCK_STREAM, ports[i]);

		MUST(send(s, "hello", 5, 0));
		MUST(recv(s, text, 3, MSG_WAITALL));
		close(s);
	}
	join(pid);
	TEXT(text);
	int s = MUST(socket(AF_INET, SOCK_STREAM, 0));
	struct sockaddr_in gone = { .sin_family = AF_INET,
				    .sin_port = htons(ports[0]),
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	TRY(connect(s, (struct sockaddr *)&gone, sizeof(gone)));
	return 0;
}
