/*
 * Three threads wait at one edge-triggered epoll instance, as runtimes do: a server and its clients in one process, each of
 * which goes on when an edge comes and stops at a short read or EAGAIN. A lost edge leaves a thread waiting for ever.
 */
#include "check.h"
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#define PAIRS 24
#define MESSAGES 40
#define THREADS 3

static struct end {
	pthread_mutex_t lock;
	int fd, is_client;
	/* Bytes to be sent, and of a client's message still to come back. */
	size_t out, missing;
	int messages;
} ends[2 * PAIRS];

static int ep, registry, bell, left = PAIRS;
static unsigned long total;

static size_t length(int client, int message)
{
	return 1 + (client * 7919u + message * 104729u) % 5000;
}

/* All that can be done of what an end has to do. */
static void go_on(struct end *end)
{
	char bytes[4096] = {};
	ssize_t n;

	for (;;) {
		if (end->out) {
			size_t len = end->out < sizeof(bytes) ? end->out :
								sizeof(bytes);

			n = send(end->fd, bytes, len,
				 MSG_DONTWAIT | MSG_NOSIGNAL);
			if (n < 0)
				return;
			end->out -= n;
			continue;
		}
		n = recv(end->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
		if (n <= 0)
			return;
		__atomic_add_fetch(&total, n, __ATOMIC_RELAXED);
		if (!end->is_client) {
			end->out += n;
			continue;
		}
		end->missing -= n;
		if (!end->missing && ++end->messages < MESSAGES)
			end->out = end->missing =
				length(end - ends, end->messages);
		if (!end->missing) {
			if (!__atomic_sub_fetch(&left, 1, __ATOMIC_SEQ_CST)) {
				uint64_t many = 1;

				MUST(write(bell, &many, sizeof(many)));
			}
			return;
		}
		/* A short read is as good as EAGAIN: the next edge tells. */
		if ((size_t)n < sizeof(bytes) && !end->out)
			return;
	}
}

static void *worker(void *unused)
{
	struct epoll_event e[8];

	for (;;) {
		int n = epoll_wait(ep, e, 8, -1);

		for (int i = 0; i < n; i++) {
			struct end *end = e[i].data.ptr;

			if (!end)
				return unused;
			pthread_mutex_lock(&end->lock);
			go_on(end);
			pthread_mutex_unlock(&end->lock);
		}
	}
}

static void add(struct end *end)
{
	struct epoll_event e = { .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP |
					   EPOLLET,
				 .data.ptr = end };

	MUST(epoll_ctl(registry, EPOLL_CTL_ADD, end->fd, &e));
}

int main(void)
{
	struct epoll_event e = { .events = EPOLLIN };
	pthread_t threads[THREADS];

	begin();
	ep = MUST(epoll_create1(EPOLL_CLOEXEC));
	bell = MUST(eventfd(0, EFD_NONBLOCK));
	MUST(epoll_ctl(ep, EPOLL_CTL_ADD, bell, &e));
	registry = MUST(fcntl(ep, F_DUPFD_CLOEXEC, 0));
	for (int i = 0; i < THREADS; i++)
		MUST(-pthread_create(&threads[i], NULL, worker, NULL));
	for (int i = 0; i < PAIRS; i++) {
		struct end *client = &ends[2 * i], *server = client + 1;
		int p[2];

		stream_pair(i % 2 ? AF_INET : AF_INET6, p);
		for (int side = 0; side < 2; side++) {
			struct end *end = side ? server : client;

			set_int(p[side], IPPROTO_TCP, TCP_NODELAY, 1);
			pthread_mutex_init(&end->lock, NULL);
			end->fd = p[side];
			end->is_client = !side;
		}
		client->out = client->missing = length(2 * i, 0);
		add(server);
		add(client);
	}
	for (int i = 0; i < THREADS; i++)
		MUST(-pthread_join(threads[i], NULL));
	printf("%d messages of %d clients there and back: %lu bytes\n",
	       MESSAGES, PAIRS, total);
	return 0;
}
