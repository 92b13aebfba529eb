// SPDX-License-Identifier: GPL-2.0
/*
 * A protocol to be explored: of two machines one is the leader, and tells the
 * other so by heartbeats over UDP. If none come, the other one is leader.
 *
 *	leader.so first OWN OTHER
 *	leader.so second OWN OTHER
 *
 * A heartbeat says until when its sender is leader, by the lab's clock. One that
 * comes to a leader, and is not over, means that there are two: status 1. It has
 * a mistake: the first one stays leader although its heartbeats are not
 * answered. Compiled with -DLEASE it is so only for LEASE_MS after the last
 * heartbeat that was.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <vink/app.h>

#define PORT		7400
#define BEAT_MS		100
#define LEASE_MS	120
#define SILENCE_MS	140
#define END_MS		1000

struct beat {
	int64_t sent;		/* ms of the lab's clock */
	int64_t until;
};

static const struct vink_app *app;

static int64_t now(void)
{
	struct timespec time;

	app->clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static struct sockaddr_in address_of(const char *text)
{
	struct sockaddr_in address = {
		.sin_family	= AF_INET,
		.sin_port	= htons(PORT),
	};

	inet_pton(AF_INET, text, &address.sin_addr);
	return address;
}

/* Whether a heartbeat, or an answer, comes until then. */
static int comes(int socket, struct beat *beat, int64_t until)
{
	struct pollfd fd = { .fd = socket, .events = POLLIN };
	int64_t ms = until - now();

	if (ms <= 0 || app->poll(&fd, 1, ms) <= 0)
		return 0;
	return app->recv(socket, beat, sizeof(*beat), 0) == sizeof(*beat);
}

static int two_leaders(const struct beat *beat)
{
	vink_app_printf(app, "two leaders: the other one until %lld\n",
			(long long)beat->until);
	return 1;
}

/* Sends heartbeats, and takes their answers. */
static int leads(int socket, int64_t end, int64_t lease, int answered)
{
	struct beat beat, other;
	int64_t next = now();

	vink_app_printf(app, "leader\n");
	while (now() < end) {
		if (lease <= now()) {
			vink_app_printf(app, "no leader any more\n");
			return 0;
		}
		beat.sent = now();
		beat.until = answered ? lease : now() + LEASE_MS;
		app->send(socket, &beat, sizeof(beat), 0);
		next += BEAT_MS;
		while (comes(socket, &other, next < lease ? next : lease)) {
			if (other.until > now())
				return two_leaders(&other);
			if (answered && other.sent + LEASE_MS > lease)
				lease = other.sent + LEASE_MS;
		}
	}
	return 0;
}

/* Answers heartbeats until they do not come. */
static int follows(int socket, int64_t end)
{
	struct beat beat, answer = { 0 };
	int64_t last = now();

	while (now() < end) {
		if (!comes(socket, &beat, last + SILENCE_MS)) {
			if (now() >= end || now() < last + SILENCE_MS)
				continue;
			return leads(socket, end, end + 1, 0);
		}
		if (beat.sent > last)
			last = beat.sent;
		answer.sent = beat.sent;
		app->send(socket, &answer, sizeof(answer), 0);
	}
	return 0;
}

int vink_app_main(const struct vink_app *table, int argc, char **argv)
{
	struct sockaddr_in own, other;
	int64_t end;
	int socket;

	app = table;
	end = now() + END_MS;
	if (argc != 4)
		return 2;
	own = address_of(argv[2]);
	other = address_of(argv[3]);
	socket = app->socket(AF_INET, SOCK_DGRAM, 0);
	app->bind(socket, (void *)&own, sizeof(own));
	app->connect(socket, (void *)&other, sizeof(other));
	app->ready();
	if (strcmp(argv[1], "second") == 0)
		return follows(socket, end);
#ifdef LEASE
	return leads(socket, end, now() + LEASE_MS, 1);
#else
	return leads(socket, end, end + 1, 0);
#endif
}
