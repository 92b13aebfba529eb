/*
 * Random operations on members of edge-triggered epoll instances, against a model of the rules of EPOLLET (docs/design/edges.md).
 *
 * Two instances have the same stream, one for data alone and one for data and room, and the same eventfd of the host's. The
 * model says what each look finds; where host or Vink finds something else, that is printed.
 */
#include "check.h"
#include <sys/epoll.h>
#include <sys/eventfd.h>

#define STEPS 400
#define SETS 2
#define FILES 2
enum { STREAM, EVENT };

static struct {
	uint32_t wanted;
	int member;
	/* An edge has come since it was last reported. */
	int news;
} model[SETS][FILES];

static int ep[SETS], fd[FILES], peer;
static size_t unread;
static int count;
static uint32_t state;

static unsigned chance(unsigned n)
{
	state = state * 1664525 + 1013904223;
	return (state >> 8) % n;
}

static uint32_t now_true(int file)
{
	if (file == STREAM)
		return EPOLLOUT | (unread ? EPOLLIN : 0);
	return EPOLLOUT | (count ? EPOLLIN : 0);
}

/* It has happened, to members that want any of these. */
static void edge(int file, uint32_t events)
{
	for (int s = 0; s < SETS; s++)
		if (model[s][file].member && model[s][file].wanted & events)
			model[s][file].news = 1;
}

/* Changes a member: whatever it wants that is true is news again. */
static void control(int s, int file, int operation)
{
	uint32_t wanted = EPOLLIN | (s ? EPOLLOUT : 0);
	struct epoll_event e = { .events = wanted | EPOLLET,
				 .data.u64 = file };

	MUST(epoll_ctl(ep[s], operation, fd[file], &e));
	model[s][file].member = operation != EPOLL_CTL_DEL;
	model[s][file].wanted = wanted;
	model[s][file].news = model[s][file].member &&
			      now_true(file) & wanted;
}

static void look(int step, int s)
{
	uint32_t expected[FILES], found[FILES] = {};
	struct epoll_event e[4];
	int due = 0;

	for (int f = 0; f < FILES; f++) {
		expected[f] = model[s][f].news ?
				      now_true(f) & model[s][f].wanted : 0;
		due += expected[f] != 0;
		model[s][f].news = 0;
	}
	/* What must come is waited for, by several calls if need be. */
	do {
		int n = MUST(epoll_wait(ep[s], e, 4, due > 0 ? 10000 : 0));

		for (int i = 0; i < n; i++)
			found[e[i].data.u64] |= e[i].events;
		due -= n;
		if (!n)
			break;
	} while (due > 0);
	for (int f = 0; f < FILES; f++) {
		if (found[f] == expected[f])
			continue;
		printf("step %d, set %d, %s: %s expected,", step, s,
		       f == STREAM ? "stream" : "eventfd",
		       events_name(expected[f]));
		printf(" %s found\n", events_name(found[f]));
	}
}

/* Waits until as much can be read. */
static void await_data(size_t len)
{
	int there;

	do
		MUST(ioctl(fd[STREAM], FIONREAD, &there));
	while ((size_t)there < len && usleep(100) == 0);
}

static void step(int n)
{
	char bytes[64] = {};
	uint64_t one = 1;
	int s = chance(SETS), file = chance(FILES);
	size_t len = 1 + chance(sizeof(bytes));
	ssize_t done;

	switch (chance(10)) {
	case 0:
	case 1:
		MUST(send(peer, bytes, len, 0));
		unread += len;
		await_data(unread);
		edge(STREAM, EPOLLIN);
		break;
	case 2:
	case 3:
		done = recv(fd[STREAM], bytes, len, MSG_DONTWAIT);
		unread -= done > 0 ? done : 0;
		break;
	case 4:
		while ((done = recv(fd[STREAM], bytes, sizeof(bytes),
				    MSG_DONTWAIT)) > 0)
			unread -= done;
		break;
	case 5:
		MUST(write(fd[EVENT], &one, sizeof(one)));
		count++;
		edge(EVENT, EPOLLIN);
		break;
	case 6:
		if (read(fd[EVENT], &one, sizeof(one)) > 0) {
			count = 0;
			edge(EVENT, EPOLLOUT);
		}
		break;
	case 7:
		if (model[s][file].member)
			control(s, file, EPOLL_CTL_MOD);
		break;
	case 8:
		control(s, file, model[s][file].member ? EPOLL_CTL_DEL :
							 EPOLL_CTL_ADD);
		break;
	}
	look(n, chance(SETS));
}

static void play(int family, unsigned seed, int duplicate)
{
	int p[2];

	stream_pair(family, p);
	set_int(p[0], IPPROTO_TCP, TCP_NODELAY, 1);
	peer = p[0];
	fd[STREAM] = p[1];
	fd[EVENT] = MUST(eventfd(0, EFD_NONBLOCK));
	unread = count = 0;
	state = seed;
	memset(model, 0, sizeof(model));
	for (int s = 0; s < SETS; s++) {
		ep[s] = MUST(epoll_create1(EPOLL_CLOEXEC));
		for (int f = 0; f < FILES; f++)
			control(s, f, EPOLL_CTL_ADD);
	}
	/* As mio does it: changes are made by another number. */
	if (duplicate) {
		int other = MUST(fcntl(ep[0], F_DUPFD_CLOEXEC, 0));

		MUST(close(ep[0]));
		ep[0] = other;
	}
	for (int n = 0; n < STEPS; n++)
		step(n);
	for (int s = 0; s < SETS; s++)
		MUST(close(ep[s]));
	MUST(close(p[0]));
	MUST(close(p[1]));
	MUST(close(fd[EVENT]));
	printf("%s, seed %u%s: %d steps\n", family_name(family), seed,
	       duplicate ? ", two numbers" : "", STEPS);
}

int main(void)
{
	begin();
	EACH_FAMILY(family)
		for (unsigned seed = 1; seed <= 6; seed++)
			play(family, seed, seed > 3);
	return 0;
}
