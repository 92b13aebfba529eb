// SPDX-License-Identifier: GPL-2.0
/*
 * Uses of TCP that the ready apps do not make, for vink explore --coverage.
 *
 *	so:tcp.so SCENARIO client|server [CONGESTION-CONTROL]
 *
 * Both ends of a scenario are beside each other. What a scenario is for is in
 * its lab; the server is 10.0.0.2, and the client 10.0.0.1.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/genetlink.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <linux/tcp_metrics.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <vink/app.h>

#define PORT	80
#define MS	1000000L
#define SIZE(a)	(sizeof(a) / sizeof((a)[0]))

static const struct vink_app *app;
static char data[256 << 10];

static void wait_ms(long ms)
{
	struct timespec time = { ms / 1000, ms % 1000 * MS };

	app->nanosleep(&time, NULL);
}

static int set(int fd, int level, int name, int value)
{
	return app->setsockopt(fd, level, name, &value, sizeof(value));
}

static int tcp_set(int fd, int name, int value)
{
	return set(fd, IPPROTO_TCP, name, value);
}

static struct sockaddr_in at(const char *address, int port)
{
	struct sockaddr_in name = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = inet_addr(address),
	};

	return name;
}

static int bound(int port)
{
	struct sockaddr_in own = at("0.0.0.0", port);
	int fd = app->socket(AF_INET, SOCK_STREAM, 0);

	set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	app->bind(fd, (void *)&own, sizeof(own));
	return fd;
}

static int listener(int port)
{
	int fd = bound(port);

	app->listen(fd, 8);
	app->ready();
	return fd;
}

static int accepted(int fd)
{
	return app->accept4(fd, NULL, NULL, 0);
}

/*
 * Of connections to one port each has a part. It goes by the peer's port, as
 * they may come in any order.
 */
#define PARTS	7000

static void accept_parts(int listens, int *fds, int count)
{
	struct sockaddr_in peer;
	socklen_t len;
	int fd, i;

	for (i = 0; i < count; i++) {
		len = sizeof(peer);
		fd = app->accept4(listens, (void *)&peer, &len, 0);
		fds[ntohs(peer.sin_port) - PARTS] = fd;
	}
}

static int dial(int fd, const char *address, int port)
{
	struct sockaddr_in to = at(address, port);

	return app->connect(fd, (void *)&to, sizeof(to));
}

static int dialled(int port)
{
	int fd = app->socket(AF_INET, SOCK_STREAM, 0);

	dial(fd, "10.0.0.2", port);
	return fd;
}

static int dialled_as(int part)
{
	int fd = bound(PARTS + part);

	dial(fd, "10.0.0.2", PORT);
	return fd;
}

static void begin(int fd, const char *address, int port)
{
	app->fcntl(fd, F_SETFL, O_NONBLOCK);
	dial(fd, address, port);
}

static void drain(int fd)
{
	while (app->recv(fd, data, sizeof(data), 0) > 0)
		;
}

static void abort_it(int fd)
{
	struct linger at_once = { 1, 0 };

	app->setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	app->close(fd);
}

static void finish(int fd)
{
	app->shutdown(fd, SHUT_WR);
	drain(fd);
	app->close(fd);
}

/* Nothing that comes reaches the socket, as if its host were gone. */
static void deafen(int fd)
{
	struct sock_filter none = { BPF_RET | BPF_K, 0, 0, 0 };
	struct sock_fprog program = { 1, &none };

	app->setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program,
			sizeof(program));
}

/* Each option is set and got, in each of some states. */
static void all_options(int fd)
{
	static const char *const names[] = {
		"reno", "vegas", "westwood", "dctcp", "bbr", "cubic", "none",
	};
	static const int values[] = { -1, 0, 1, 2, 40, 1000, 1 << 20 };
	char key[16] = "0123456789abcdef";
	char out[512];
	socklen_t len;
	int name;
	size_t i;

	for (name = 1; name <= 43; name++) {
		for (i = 0; i < SIZE(values); i++) {
			/* Repairing is a scenario of its own. */
			if (name == TCP_REPAIR || name == TCP_ULP ||
			    name == TCP_CONGESTION || name == TCP_MAXSEG ||
			    name == TCP_WINDOW_CLAMP || name == TCP_TX_DELAY ||
			    name == TCP_USER_TIMEOUT || name == TCP_LINGER2)
				continue;
			tcp_set(fd, name, values[i]);
		}
		len = sizeof(out);
		app->getsockopt(fd, IPPROTO_TCP, name, out, &len);
		len = 2;
		app->getsockopt(fd, IPPROTO_TCP, name, out, &len);
	}
	for (i = 0; i < SIZE(names); i++) {
		app->setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, names[i],
				strlen(names[i]));
		len = sizeof(out);
		app->getsockopt(fd, IPPROTO_TCP, TCP_CC_INFO, out, &len);
		len = sizeof(out);
		app->getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, out, &len);
	}
	app->setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5);
	app->setsockopt(fd, IPPROTO_TCP, TCP_ULP, "tls", 3);
	app->setsockopt(fd, IPPROTO_TCP, TCP_ULP, "none", 4);
	app->setsockopt(fd, IPPROTO_TCP, TCP_FASTOPEN_KEY, key, sizeof(key));
	len = sizeof(out);
	app->getsockopt(fd, IPPROTO_TCP, TCP_FASTOPEN_KEY, out, &len);
	tcp_set(fd, TCP_MAXSEG, 1000);
	tcp_set(fd, TCP_MAXSEG, 1);
	tcp_set(fd, TCP_WINDOW_CLAMP, 60000);
	tcp_set(fd, TCP_USER_TIMEOUT, 100000);
	tcp_set(fd, TCP_USER_TIMEOUT, -1);
	tcp_set(fd, TCP_LINGER2, 10);
	tcp_set(fd, TCP_LINGER2, 1000);
	tcp_set(fd, TCP_LINGER2, -1);
	tcp_set(fd, TCP_LINGER2, 0);
	tcp_set(fd, TCP_KEEPIDLE, 100);
	tcp_set(fd, TCP_CORK, 0);
	tcp_set(fd, TCP_DEFER_ACCEPT, 0);
	app->setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, key, 1);
	app->setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, key, 0);
	for (i = 0; i < 3; i++) {
		static const unsigned long calls[] = {
			SIOCINQ, SIOCOUTQ, SIOCATMARK,
		};
		int number;

		app->ioctl(fd, calls[i], &number);
	}
	app->ioctl(fd, SIOCOUTQNSD, &name);
	app->ioctl(fd, 0x1234, &name);
	set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	set(fd, SOL_SOCKET, SO_RCVLOWAT, 1);
	set(fd, SOL_SOCKET, SO_RCVBUF, 200000);
	set(fd, SOL_SOCKET, SO_SNDBUF, 200000);
}

static void options_server(void)
{
	int listens = bound(PORT), fd;

	all_options(listens);
	tcp_set(listens, TCP_FASTOPEN, 0);
	tcp_set(listens, TCP_DEFER_ACCEPT, 1);
	tcp_set(listens, TCP_SAVE_SYN, 1);
	app->listen(listens, 8);
	all_options(listens);
	tcp_set(listens, TCP_SAVE_SYN, 2);
	app->ready();
	fd = accepted(listens);
	all_options(fd);
	drain(fd);
	all_options(fd);
	app->close(fd);
	app->close(listens);
}

static void options_client(void)
{
	int fd = app->socket(AF_INET, SOCK_STREAM, 0);

	all_options(fd);
	dial(fd, "10.0.0.2", PORT);
	all_options(fd);
	app->send(fd, data, 10000, 0);
	app->send(fd, data, 10000, MSG_MORE);
	all_options(fd);
	tcp_set(fd, TCP_TX_DELAY, 1000);
	app->send(fd, data, 3000, 0);
	finish(fd);
	/* Once more, as what is not connected. */
	fd = dialled(PORT + 1);
	all_options(fd);
	app->close(fd);
}

/* Ways to send and to receive. */
static void ways_server(void)
{
	struct msghdr message = { 0 };
	struct iovec piece = { data, 700 };
	char control[256];
	int ends[2], listens = listener(PORT), fd = accepted(listens);

	tcp_set(fd, TCP_INQ, 1);
	set(fd, SOL_SOCKET, SO_TIMESTAMP, 1);
	set(fd, SOL_SOCKET, SO_TIMESTAMPING, 0x18);
	message.msg_iov = &piece;
	message.msg_iovlen = 1;
	message.msg_control = control;
	message.msg_controllen = sizeof(control);
	app->recv(fd, data, 100, MSG_PEEK);
	app->recv(fd, data, 100, MSG_DONTWAIT);
	app->recvmsg(fd, &message, 0);
	app->recv(fd, data, 200, MSG_TRUNC);
	app->recv(fd, data, 2000, MSG_WAITALL);
	app->recv(fd, data, 0, 0);
	app->recv(fd, data, 10, MSG_ERRQUEUE);
	app->recv(fd, data, 10, MSG_OOB);
	wait_ms(100);
	app->ioctl(fd, SIOCATMARK, &ends[0]);
	app->recv(fd, data, 1, MSG_OOB | MSG_PEEK);
	app->recv(fd, data, 1, MSG_OOB);
	app->recv(fd, data, 1, MSG_OOB);
	app->recv(fd, data, 5000, 0);
	set(fd, SOL_SOCKET, SO_OOBINLINE, 1);
	set(fd, SOL_SOCKET, SO_PEEK_OFF, 0);
	app->recv(fd, data, 50, MSG_PEEK | MSG_DONTWAIT);
	app->recv(fd, data, 50, MSG_PEEK | MSG_DONTWAIT);
	if (!app->syscall(SYS_pipe2, (long)ends, O_NONBLOCK, 0, 0, 0, 0)) {
		app->syscall(SYS_splice, fd, 0, ends[1], 0, 4096, 0);
		app->read(ends[0], data, 4096);
		app->write(ends[1], data, 3000);
		app->syscall(SYS_splice, ends[0], 0, fd, 0, 3000, 0);
		app->close(ends[0]);
		app->close(ends[1]);
	}
	app->send(fd, data, 1, 0);
	drain(fd);
	app->send(fd, data, 100, 0);
	app->recv(fd, data, 100, 0);
	app->close(fd);
	app->close(listens);
}

static void ways_client(void)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLPRI };
	struct pollfd ready = { .events = POLLIN | POLLOUT | POLLPRI };
	int fd = dialled(PORT), events = app->epoll_create1(0);
	char control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct cmsghdr *header = (void *)control;
	struct msghdr message = { 0 };
	struct iovec pieces[2] = { { data, 300 }, { data + 300, 900 } };

	set(fd, SOL_SOCKET, SO_TIMESTAMPING, 0x2 | 0x10 | 0x100 | 0x200);
	set(fd, SOL_SOCKET, SO_ZEROCOPY, 1);
	app->epoll_ctl(events, EPOLL_CTL_ADD, fd, &event);
	app->send(fd, data, 3000, 0);
	wait_ms(20);
	app->send(fd, data, 1, MSG_OOB);
	app->send(fd, data, 2000, 0);
	wait_ms(20);
	app->send(fd, data, 1, MSG_OOB);
	message.msg_iov = pieces;
	message.msg_iovlen = 2;
	message.msg_control = control;
	message.msg_controllen = sizeof(control);
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SO_TIMESTAMPING;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	*(int *)CMSG_DATA(header) = 0x200;
	app->sendmsg(fd, &message, 0);
	app->send(fd, data, 20000, MSG_ZEROCOPY);
	ready.fd = fd;
	app->poll(&ready, 1, 100);
	app->epoll_wait(events, &event, 1, 100);
	app->recv(fd, data, 1000, MSG_ERRQUEUE);
	app->send(fd, data, sizeof(data), MSG_DONTWAIT);
	app->send(fd, data, sizeof(data), MSG_DONTWAIT | MSG_EOR);
	app->send(fd, data, 100, 0);
	app->shutdown(fd, SHUT_WR);
	app->send(fd, data, 1, MSG_NOSIGNAL);
	app->recv(fd, data, 500, 0);
	app->shutdown(fd, SHUT_RD);
	app->poll(&ready, 1, 100);
	wait_ms(200);
	app->recv(fd, data, 500, 0);
	app->close(fd);
	app->close(events);
	/* What can't be done. */
	fd = app->socket(AF_INET, SOCK_STREAM, 0);
	app->send(fd, data, 1, MSG_NOSIGNAL);
	app->recv(fd, data, 1, 0);
	app->poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, 0);
	app->connect(fd, (void *)data, 2);
	dial(fd, "224.0.0.1", 1);
	app->close(fd);
}

/* A connection that is taken over: CRIU's way. */
static void repair_client(void)
{
	/* A segment's size, window scales, SACK, timestamps. */
	struct tcp_repair_opt options[] = {
		{ 2, 1000 }, { 3, 7 | 7 << 16 },
		{ 4, 0 }, { 8, 0 },
	};
	struct tcp_repair_window window;
	socklen_t len = sizeof(window);
	struct sockaddr_in own = at("10.0.0.1", 7000);
	unsigned int seq[2];
	int fd, queue;

	fd = bound(7000);
	dial(fd, "10.0.0.2", PORT);
	app->send(fd, data, 5000, 0);
	wait_ms(50);
	tcp_set(fd, TCP_REPAIR, 1);
	app->getsockopt(fd, IPPROTO_TCP, TCP_REPAIR_WINDOW, &window, &len);
	for (queue = TCP_RECV_QUEUE; queue <= TCP_SEND_QUEUE; queue++) {
		tcp_set(fd, TCP_REPAIR_QUEUE, queue);
		len = sizeof(seq[0]);
		app->getsockopt(fd, IPPROTO_TCP, TCP_QUEUE_SEQ,
				&seq[queue - 1], &len);
		app->recv(fd, data, 100, MSG_PEEK | MSG_DONTWAIT);
	}
	len = sizeof(queue);
	app->getsockopt(fd, IPPROTO_TCP, TCP_TIMESTAMP, &queue, &len);
	/* Goes without a word. */
	app->close(fd);
	fd = app->socket(AF_INET, SOCK_STREAM, 0);
	set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	tcp_set(fd, TCP_REPAIR, 1);
	tcp_set(fd, TCP_REPAIR, 7);
	for (queue = TCP_RECV_QUEUE; queue <= TCP_SEND_QUEUE; queue++) {
		tcp_set(fd, TCP_REPAIR_QUEUE, queue);
		tcp_set(fd, TCP_QUEUE_SEQ, seq[queue - 1]);
	}
	tcp_set(fd, TCP_REPAIR_QUEUE, 9);
	app->bind(fd, (void *)&own, sizeof(own));
	dial(fd, "10.0.0.2", PORT);
	app->setsockopt(fd, IPPROTO_TCP, TCP_REPAIR_OPTIONS, options,
			sizeof(options));
	tcp_set(fd, TCP_TIMESTAMP, queue);
	tcp_set(fd, TCP_REPAIR_QUEUE, TCP_RECV_QUEUE);
	app->send(fd, data, 1000, 0);
	tcp_set(fd, TCP_REPAIR_QUEUE, TCP_SEND_QUEUE);
	app->send(fd, data, 3000, 0);
	app->setsockopt(fd, IPPROTO_TCP, TCP_REPAIR_WINDOW, &window,
			sizeof(window));
	tcp_set(fd, TCP_REPAIR, TCP_REPAIR_OFF_NO_WP);
	app->send(fd, data, 1000, 0);
	tcp_set(fd, TCP_REPAIR, 1);
	tcp_set(fd, TCP_REPAIR, 0);
	abort_it(fd);
}

/*
 * The reset that ends the connection is behind bytes that were never sent. It
 * is challenged, unless another challenge was sent just before (RFC 5961, 7),
 * and then no one is there any more.
 */
static void repair_server(void)
{
	int listens = listener(PORT), fd = accepted(listens);

	set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	tcp_set(fd, TCP_KEEPIDLE, 10);
	drain(fd);
	app->close(fd);
	app->close(listens);
}

/* Peers that are silent, and timers that find out. */
static void silent_server(void)
{
	int listens = listener(PORT), late = bound(PORT + 2);
	/* fd, deaf, closed, half, last, as the client has them. */
	int fds[5];

	accept_parts(listens, fds, 5);
	app->listen(late, 1);
	deafen(late);
	deafen(fds[1]);
	app->recv(fds[2], data, 1, 0);
	deafen(fds[2]);
	app->shutdown(fds[3], SHUT_WR);
	deafen(fds[3]);
	deafen(fds[4]);
	/* The client goes on when they are deaf. */
	app->send(fds[0], data, 1, 0);
	drain(fds[0]);
	app->close(fds[0]);
	wait_ms(100000);
	app->close(listens);
}

static void silent_client(void)
{
	int fd = dialled_as(0), deaf = dialled_as(1), closed = dialled_as(2);
	int half = dialled_as(3), last = dialled_as(4), i;

	set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	tcp_set(fd, TCP_KEEPIDLE, 2);
	tcp_set(fd, TCP_KEEPINTVL, 1);
	set(half, SOL_SOCKET, SO_KEEPALIVE, 1);
	tcp_set(half, TCP_KEEPIDLE, 2);
	tcp_set(half, TCP_KEEPINTVL, 1);
	tcp_set(half, TCP_KEEPCNT, 2);
	app->send(closed, data, 1, 0);
	app->recv(fd, data, 1, 0);
	tcp_set(last, TCP_USER_TIMEOUT, 3000);
	set(last, SOL_SOCKET, SO_KEEPALIVE, 1);
	tcp_set(last, TCP_KEEPIDLE, 1);
	/* An orphan whose FIN is never acknowledged. */
	app->send(closed, data, 3000, 0);
	app->close(closed);
	tcp_set(deaf, TCP_THIN_LINEAR_TIMEOUTS, 1);
	for (i = 0; i < 4; i++)
		app->send(deaf, data, 1000, MSG_NOSIGNAL);
	wait_ms(9000);
	tcp_set(fd, TCP_KEEPIDLE, 1);
	set(fd, SOL_SOCKET, SO_KEEPALIVE, 0);
	app->recv(deaf, data, 1, 0);
	app->close(deaf);
	app->close(half);
	app->close(last);
	deaf = app->socket(AF_INET, SOCK_STREAM, 0);
	tcp_set(deaf, TCP_SYNCNT, 2);
	dial(deaf, "10.0.0.2", PORT + 2);
	app->close(deaf);
	deaf = app->socket(AF_INET, SOCK_STREAM, 0);
	tcp_set(deaf, TCP_USER_TIMEOUT, 2000);
	dial(deaf, "10.0.0.2", PORT + 2);
	app->close(deaf);
	finish(fd);
}

/* A receiver that closes its window, and never opens it. */
static void closed_server(void)
{
	int listens = bound(PORT), fd, orphan;

	set(listens, SOL_SOCKET, SO_RCVBUF, 4000);
	app->listen(listens, 8);
	app->ready();
	fd = accepted(listens);
	orphan = accepted(listens);
	wait_ms(3000);
	deafen(fd);
	deafen(orphan);
	wait_ms(60000);
	app->close(fd);
	app->close(orphan);
	app->close(listens);
}

static void closed_client(void)
{
	int fd = dialled(PORT), orphan = dialled(PORT);

	app->fcntl(fd, F_SETFL, O_NONBLOCK);
	app->send(fd, data, sizeof(data), 0);
	app->fcntl(orphan, F_SETFL, O_NONBLOCK);
	app->send(orphan, data, 40000, 0);
	tcp_set(fd, TCP_USER_TIMEOUT, 10000);
	wait_ms(2000);
	app->close(orphan);
	wait_ms(40000);
	app->send(fd, data, 1, MSG_NOSIGNAL);
	app->close(fd);
}

/* Data in the SYN. */
static void fastopen_server(void)
{
	int listens = bound(PORT), fd, i;
	char keys[32] = "0123456789abcdefFEDCBA9876543210";

	tcp_set(listens, TCP_FASTOPEN, 5);
	app->setsockopt(listens, IPPROTO_TCP, TCP_FASTOPEN_KEY, keys, 32);
	app->listen(listens, 8);
	tcp_set(listens, TCP_FASTOPEN, 5);
	app->ready();
	for (i = 0; i < 6; i++) {
		fd = accepted(listens);
		app->send(fd, data, 2000, 0);
		/* In SYN-RECEIVED, mostly. */
		if (i == 2) {
			app->close(fd);
			continue;
		}
		drain(fd);
		app->close(fd);
	}
	app->close(listens);
}

static void fastopen_client(void)
{
	struct sockaddr_in to = at("10.0.0.2", PORT);
	int fd, i;

	for (i = 0; i < 6; i++) {
		fd = app->socket(AF_INET, SOCK_STREAM, 0);
		if (i == 3)
			tcp_set(fd, TCP_FASTOPEN_CONNECT, 1);
		if (i == 4)
			tcp_set(fd, TCP_FASTOPEN_NO_COOKIE, 1);
		if (i == 3) {
			dial(fd, "10.0.0.2", PORT);
			app->send(fd, data, 500, 0);
		} else {
			app->sendto(fd, data, i == 5 ? 5000 : 700, MSG_FASTOPEN,
				    (void *)&to, sizeof(to));
		}
		finish(fd);
	}
	/* To where no one listens, and without waiting. */
	fd = app->socket(AF_INET, SOCK_STREAM, 0);
	to = at("10.0.0.2", PORT + 5);
	app->fcntl(fd, F_SETFL, O_NONBLOCK);
	app->sendto(fd, data, 100, MSG_FASTOPEN, (void *)&to, sizeof(to));
	wait_ms(100);
	app->close(fd);
}

/* Ends in each state. The wire takes 5 ms. */
static void ends_server(void)
{
	int listens = listener(PORT), fd;

	/* FIN-WAIT-2, then reset. */
	fd = accepted(listens);
	wait_ms(20);
	abort_it(fd);
	/* FIN-WAIT-1, then reset. */
	fd = accepted(listens);
	wait_ms(20);
	abort_it(fd);
	/* CLOSE-WAIT, then reset. */
	fd = accepted(listens);
	app->shutdown(fd, SHUT_WR);
	wait_ms(20);
	abort_it(fd);
	/* LAST-ACK, then reset. */
	fd = accepted(listens);
	app->shutdown(fd, SHUT_WR);
	wait_ms(13);
	abort_it(fd);
	/* CLOSING, then reset: the FIN and the reset come after the peer's FIN went. */
	fd = accepted(listens);
	wait_ms(20);
	app->shutdown(fd, SHUT_WR);
	wait_ms(1);
	abort_it(fd);
	/* An orphan in FIN-WAIT-2: its place is taken by a small structure. */
	fd = accepted(listens);
	app->recv(fd, data, 1, 0);
	app->recv(fd, data, 1, 0);
	wait_ms(100);
	app->send(fd, data, 10, 0);
	app->close(fd);
	/* Data that is not read when it closes. */
	fd = accepted(listens);
	wait_ms(50);
	app->close(fd);
	/* Data that comes when all is closed. */
	fd = accepted(listens);
	app->close(fd);
	/* No one listens any more, and one waits to be accepted. */
	wait_ms(200);
	app->close(listens);
}

static void ends_client(void)
{
	struct linger some = { 1, 1 };
	int fd = dialled(PORT);

	app->shutdown(fd, SHUT_WR);
	wait_ms(40);
	app->close(fd);

	/* The server has it when its handshake ends, 5 ms later. */
	fd = dialled(PORT);
	wait_ms(22);
	app->shutdown(fd, SHUT_WR);
	wait_ms(40);
	app->close(fd);

	fd = dialled(PORT);
	wait_ms(40);
	app->send(fd, data, 1, MSG_NOSIGNAL);
	app->close(fd);

	fd = dialled(PORT);
	app->recv(fd, data, 1, 0);
	app->close(fd);
	wait_ms(40);

	fd = dialled(PORT);
	wait_ms(23);
	app->shutdown(fd, SHUT_WR);
	wait_ms(40);
	app->close(fd);

	fd = dialled(PORT);
	tcp_set(fd, TCP_LINGER2, 1);
	app->send(fd, data, 1, 0);
	app->close(fd);
	wait_ms(300);

	fd = dialled(PORT);
	app->send(fd, data, 3000, 0);
	wait_ms(100);
	app->send(fd, data, 100, MSG_NOSIGNAL);
	app->close(fd);

	fd = dialled(PORT);
	wait_ms(20);
	app->send(fd, data, 100, MSG_NOSIGNAL);
	app->setsockopt(fd, SOL_SOCKET, SO_LINGER, &some, sizeof(some));
	app->close(fd);

	/* One that is never accepted, one that is too late. */
	fd = dialled(PORT);
	wait_ms(400);
	app->close(fd);
	fd = dialled(PORT);
	app->close(fd);

	/* A socket is connected again, and listens after that. */
	fd = bound(0);
	app->listen(fd, 1);
	app->connect(fd, (void *)&(struct sockaddr){ .sa_family = AF_UNSPEC },
		     sizeof(struct sockaddr));
	dial(fd, "10.0.0.2", PORT);
	app->listen(fd, 1);
	app->shutdown(fd, SHUT_RDWR);
	app->close(fd);
}

/* Opens that are given up, from both sides at a time. The wire takes 5 ms. */
static void opens(const char *peer, int is_client)
{
	int fd;

	/* A SYN-ACK that no one waits for resets SYN-RECEIVED: LISTEN again. */
	if (!is_client) {
		fd = listener(PORT);
		wait_ms(40);
		app->close(fd);
		wait_ms(60);
	} else {
		fd = bound(0);
		begin(fd, peer, PORT);
		app->close(fd);
		wait_ms(100);
	}
	/* Both open, and the client closes in SYN-RECEIVED. */
	fd = bound(7001);
	begin(fd, peer, 7001);
	wait_ms(7);
	if (is_client)
		app->close(fd);
	wait_ms(93);
	if (!is_client)
		app->close(fd);
	/* The client's SYN is on its way when it has gone. */
	fd = bound(7002);
	begin(fd, peer, 7002);
	if (is_client) {
		wait_ms(1);
		app->close(fd);
	}
	wait_ms(100);
	if (!is_client)
		app->close(fd);
	/* Both open, both send, both close. */
	fd = bound(7003);
	begin(fd, peer, 7003);
	wait_ms(15);
	app->send(fd, data, 100, MSG_NOSIGNAL);
	wait_ms(15);
	app->shutdown(fd, SHUT_WR);
	wait_ms(30);
	app->close(fd);
	/* No one is there. */
	fd = bound(0);
	begin(fd, peer, 9);
	wait_ms(30);
	app->close(fd);
}

static void opens_server(void)
{
	opens("10.0.0.1", 0);
}

static void opens_client(void)
{
	opens("10.0.0.2", 1);
}

/* What other programs ask of connections: netlink, /proc. */
static void ask(int protocol, int type, int flags, const void *body, size_t len)
{
	struct {
		struct nlmsghdr head;
		char body[256];
	} request = { .head = {
		.nlmsg_len = NLMSG_LENGTH(len),
		.nlmsg_type = type,
		.nlmsg_flags = NLM_F_REQUEST | flags,
	} };
	int fd = app->socket(AF_NETLINK, SOCK_RAW, protocol), i;

	memcpy(request.body, body, len);
	app->send(fd, &request, request.head.nlmsg_len, 0);
	for (i = 0; i < 8; i++) {
		if (app->recv(fd, data, sizeof(data), MSG_DONTWAIT) <= 0)
			break;
	}
	app->close(fd);
}

static void ask_diag(int port, int type, int flags)
{
	struct inet_diag_req_v2 request = {
		.sdiag_family = AF_INET,
		.sdiag_protocol = IPPROTO_TCP,
		.idiag_ext = 0xff,
		.idiag_states = ~0u,
	};

	request.id.idiag_sport = htons(port);
	request.id.idiag_dport = htons(PORT);
	request.id.idiag_src[0] = inet_addr("10.0.0.1");
	request.id.idiag_dst[0] = inet_addr("10.0.0.2");
	request.id.idiag_cookie[0] = INET_DIAG_NOCOOKIE;
	request.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
	ask(NETLINK_SOCK_DIAG, type, flags, &request, sizeof(request));
}

/* The family of tcp_metrics; 0: there is none. */
static int metrics_family(void)
{
	struct {
		struct nlmsghdr head;
		struct genlmsghdr general;
		struct nlattr name;
		char text[16];
	} request = {
		.head = { sizeof(request), GENL_ID_CTRL, NLM_F_REQUEST, 1, 0 },
		.general = { CTRL_CMD_GETFAMILY, 1, 0 },
		.name = { NLA_HDRLEN + sizeof(TCP_METRICS_GENL_NAME),
			  CTRL_ATTR_FAMILY_NAME },
		.text = TCP_METRICS_GENL_NAME,
	};
	int fd = app->socket(AF_NETLINK, SOCK_RAW, NETLINK_GENERIC);
	int len, family = 0, at = NLMSG_LENGTH(GENL_HDRLEN);

	app->send(fd, &request, sizeof(request), 0);
	len = app->recv(fd, data, sizeof(data), 0);
	while (at + NLA_HDRLEN <= len) {
		struct nlattr *attribute = (void *)(data + at);

		if (attribute->nla_type == CTRL_ATTR_FAMILY_ID)
			family = *(unsigned short *)(attribute + 1);
		at += NLA_ALIGN(attribute->nla_len) ?: NLA_HDRLEN;
	}
	app->close(fd);
	return family;
}

static void ask_metrics(int family, int command, int flags, int with_address)
{
	struct {
		struct genlmsghdr general;
		struct nlattr head;
		unsigned int address;
	} request = {
		.general = { command, TCP_METRICS_GENL_VERSION, 0 },
		.head = { NLA_HDRLEN + 4, TCP_METRICS_ATTR_ADDR_IPV4 },
		.address = inet_addr("10.0.0.2"),
	};

	ask(NETLINK_GENERIC, family, flags, &request,
	    with_address ? sizeof(request) : GENL_HDRLEN);
}

static void read_proc(void)
{
	static const char *const paths[] = { "/proc/net/tcp", "/p/net/tcp" };
	size_t i;
	long fd;

	app->syscall(SYS_mkdir, (long)"/p", 0755, 0, 0, 0, 0);
	app->syscall(SYS_mount, (long)"proc", (long)"/p", (long)"proc", 0, 0, 0);
	for (i = 0; i < SIZE(paths); i++) {
		fd = app->syscall(SYS_openat, AT_FDCWD, (long)paths[i], 0, 0, 0, 0);
		while (fd >= 0 && app->read(fd, data, 300) > 0)
			;
		if (fd >= 0) {
			app->syscall(SYS_lseek, fd, 150, 0, 0, 0, 0);
			app->read(fd, data, 300);
			app->close(fd);
		}
	}
}

static void asked_server(void)
{
	int listens = listener(PORT), fds[3], i;

	accept_parts(listens, fds, 3);
	ask_diag(0, SOCK_DIAG_BY_FAMILY, NLM_F_DUMP);
	read_proc();
	drain(fds[0]);
	wait_ms(300);
	for (i = 0; i < 3; i++)
		app->close(fds[i]);
	app->close(listens);
}

static void asked_client(void)
{
	int fds[3], i, family;

	for (i = 0; i < 3; i++)
		fds[i] = dialled_as(i);
	app->send(fds[0], data, 30000, 0);
	wait_ms(50);
	ask_diag(0, SOCK_DIAG_BY_FAMILY, NLM_F_DUMP);
	ask_diag(7000, SOCK_DIAG_BY_FAMILY, 0);
	read_proc();
	finish(fds[0]);
	wait_ms(20);
	read_proc();
	ask_diag(0, SOCK_DIAG_BY_FAMILY, NLM_F_DUMP);
	/* One connection is ended, and what is left of another one. */
	ask_diag(7001, SOCK_DESTROY, NLM_F_ACK);
	ask_diag(7000, SOCK_DESTROY, NLM_F_ACK);
	app->recv(fds[1], data, 1, 0);
	family = metrics_family();
	ask_metrics(family, TCP_METRICS_CMD_GET, NLM_F_DUMP, 0);
	ask_metrics(family, TCP_METRICS_CMD_GET, 0, 1);
	ask_metrics(family, TCP_METRICS_CMD_DEL, 0, 1);
	ask_metrics(family, TCP_METRICS_CMD_DEL, 0, 0);
	app->close(fds[1]);
	app->close(fds[2]);
}

/* Sockets of a BPF map: what one sends goes through a program. */
static long bpf(int command, union bpf_attr *attr)
{
	return app->syscall(SYS_bpf, command, (long)attr, sizeof(*attr), 0, 0, 0);
}

static void map_client(void)
{
	struct bpf_insn pass[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .imm = 1 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	union bpf_attr attr = {
		.map_type = BPF_MAP_TYPE_SOCKMAP,
		.key_size = 4, .value_size = 4, .max_entries = 4,
	};
	int map = bpf(BPF_MAP_CREATE, &attr), program, key = 0;
	int fd = dialled_as(0), plain = dialled_as(1);

	memset(&attr, 0, sizeof(attr));
	attr.prog_type = BPF_PROG_TYPE_SK_MSG;
	attr.insn_cnt = SIZE(pass);
	attr.insns = (unsigned long)pass;
	attr.license = (unsigned long)"GPL";
	program = bpf(BPF_PROG_LOAD, &attr);
	memset(&attr, 0, sizeof(attr));
	attr.target_fd = map;
	attr.attach_bpf_fd = program;
	attr.attach_type = BPF_SK_MSG_VERDICT;
	bpf(BPF_PROG_ATTACH, &attr);
	memset(&attr, 0, sizeof(attr));
	attr.map_fd = map;
	attr.key = (unsigned long)&key;
	attr.value = (unsigned long)&fd;
	bpf(BPF_MAP_UPDATE_ELEM, &attr);
	app->send(fd, data, 5000, 0);
	app->send(fd, data, 100, MSG_MORE);
	app->send(fd, data, 100, 0);
	app->recv(fd, data, 1000, 0);
	app->poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, 10);
	finish(fd);
	finish(plain);
	app->close(map);
	app->close(program);
}

static void map_server(void)
{
	int listens = listener(PORT), fds[2], i;

	accept_parts(listens, fds, 2);
	app->recv(fds[0], data, 1000, 0);
	app->send(fds[0], data, 1000, 0);
	for (i = 0; i < 2; i++) {
		drain(fds[i]);
		app->close(fds[i]);
	}
	app->close(listens);
}

/* Multipath TCP, which is made of TCP. */
static void paths_server(void)
{
	struct sockaddr_in own = at("0.0.0.0", PORT);
	int listens = app->socket(AF_INET, SOCK_STREAM, IPPROTO_MPTCP), fd;

	app->bind(listens, (void *)&own, sizeof(own));
	app->listen(listens, 4);
	app->ready();
	fd = accepted(listens);
	drain(fd);
	app->send(fd, data, 10000, 0);
	app->close(fd);
	app->close(listens);
}

static void paths_client(void)
{
	int fd = app->socket(AF_INET, SOCK_STREAM, IPPROTO_MPTCP);

	dial(fd, "10.0.0.2", PORT);
	app->send(fd, data, 30000, 0);
	all_options(fd);
	finish(fd);
}

/* More connections at a time than are wanted. */
static void crowd_server(void)
{
	int listens = bound(PORT), fd, i;

	app->listen(listens, 1);
	app->ready();
	wait_ms(3000);
	for (i = 0; i < 2; i++) {
		fd = accepted(listens);
		drain(fd);
		app->close(fd);
	}
	app->close(listens);
}

static void crowd_client(void)
{
	int fds[6], i;

	for (i = 0; i < 6; i++) {
		fds[i] = bound(0);
		begin(fds[i], "10.0.0.2", PORT);
		if (i & 1)
			wait_ms(20);
	}
	wait_ms(500);
	for (i = 0; i < 6; i++)
		app->send(fds[i], data, 1000, MSG_NOSIGNAL);
	wait_ms(500);
	for (i = 0; i < 6; i++)
		app->close(fds[i]);
}

/* The same addresses and ports again, while TIME-WAIT lasts. */
static void again_server(void)
{
	int listens = listener(PORT), fd, i;

	for (i = 0; i < 4; i++) {
		fd = accepted(listens);
		/* The one that closes first has TIME-WAIT. */
		if (i & 1)
			drain(fd);
		app->close(fd);
	}
	app->close(listens);
}

static void again_client(void)
{
	int fd, i;

	for (i = 0; i < 4; i++) {
		fd = bound(7000);
		/* Until the last one is acknowledged. */
		while (dial(fd, "10.0.0.2", PORT) < 0 && errno == EADDRNOTAVAIL)
			wait_ms(500);
		if (!(i & 1))
			drain(fd);
		app->send(fd, data, 100, MSG_NOSIGNAL);
		app->close(fd);
		wait_ms(1500);
	}
}

/* More than there is memory for, out of order, read late. */
static void tight_server(void)
{
	int listens = bound(PORT), fd, i;

	set(listens, SOL_SOCKET, SO_RCVBUF, 20000);
	app->listen(listens, 4);
	app->ready();
	fd = accepted(listens);
	for (i = 0; i < 5; i++) {
		wait_ms(300);
		app->recv(fd, data, 3000, 0);
	}
	set(fd, SOL_SOCKET, SO_RCVBUF, 3000);
	wait_ms(500);
	drain(fd);
	app->close(fd);
	app->close(listens);
}

static void tight_client(void)
{
	int fd = dialled(PORT), i;

	tcp_set(fd, TCP_NODELAY, 1);
	for (i = 0; i < 60; i++)
		app->send(fd, data, 20 + i, 0);
	app->send(fd, data, 100000, 0);
	finish(fd);
}

/* A transfer with a congestion control that only options can choose. */
static const char *control = "reno";

static void bulk_client(void)
{
	int fd = app->socket(AF_INET, SOCK_STREAM, 0), i;
	char out[64];
	socklen_t len = sizeof(out);

	app->setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, control,
			strlen(control));
	dial(fd, "10.0.0.2", PORT);
	for (i = 0; i < 6; i++) {
		app->send(fd, data, 60000, 0);
		if (i == 3)
			wait_ms(1500);
	}
	app->getsockopt(fd, IPPROTO_TCP, TCP_CC_INFO, out, &len);
	finish(fd);
}

static void bulk_server(void)
{
	int listens = bound(PORT), fd;

	app->setsockopt(listens, IPPROTO_TCP, TCP_CONGESTION, control,
			strlen(control));
	app->listen(listens, 4);
	app->ready();
	fd = accepted(listens);
	drain(fd);
	app->send(fd, data, 3000, 0);
	app->close(fd);
	app->close(listens);
}

static const struct {
	const char *name;
	void (*client)(void);
	void (*server)(void);
} scenarios[] = {
	{ "options", options_client, options_server },
	{ "ways", ways_client, ways_server },
	{ "repair", repair_client, repair_server },
	{ "silent", silent_client, silent_server },
	{ "closed", closed_client, closed_server },
	{ "fastopen", fastopen_client, fastopen_server },
	{ "ends", ends_client, ends_server },
	{ "opens", opens_client, opens_server },
	{ "asked", asked_client, asked_server },
	{ "map", map_client, map_server },
	{ "paths", paths_client, paths_server },
	{ "crowd", crowd_client, crowd_server },
	{ "again", again_client, again_server },
	{ "tight", tight_client, tight_server },
	{ "bulk", bulk_client, bulk_server },
};

int vink_app_main(const struct vink_app *calls, int argc, char **argv)
{
	size_t i;

	app = calls;
	if (argc > 3)
		control = argv[3];
	for (i = 0; argc > 2 && i < SIZE(scenarios); i++) {
		if (strcmp(argv[1], scenarios[i].name))
			continue;
		if (strcmp(argv[2], "server"))
			scenarios[i].client();
		else
			scenarios[i].server();
		return 0;
	}
	return 2;
}
