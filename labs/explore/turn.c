// SPDX-License-Identifier: GPL-2.0
/*
 * A protocol to be explored: two machines share a thing that one of them may
 * have at a time. Each asks the other for it over UDP, and has it when the other
 * agrees. One that wants it itself refuses.
 *
 *	turn.so NUMBER OWN OTHER MS
 *
 * It wants it after so many ms, and ends with status 0 when both have had it. It
 * has a mistake: what is refused is asked for again after the same time by both.
 * Compiled with -DUNEQUAL the time is another one for each number.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vink/app.h>

#define PORT		7500
#ifndef AGAIN_MS
#define AGAIN_MS	100
#endif
#define STAYS_MS	3000

enum message { WANTS = 1, AGREES, REFUSES };

static struct sockaddr_in address_of(const char *text)
{
	struct sockaddr_in address = {
		.sin_family	= AF_INET,
		.sin_port	= htons(PORT),
	};

	inet_pton(AF_INET, text, &address.sin_addr);
	return address;
}

static int64_t now(const struct vink_app *app)
{
	struct timespec time;

	app->clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static int takes_turns(const struct vink_app *app, int socket, int64_t next,
		       int again)
{
	struct pollfd fd = { .fd = socket, .events = POLLIN };
	int waits = 0, had = 0;
	int64_t end = 0;
	char message;

	while (!had || now(app) < end) {
		int64_t until = had ? end : next;
		int64_t ms = until > now(app) ? until - now(app) : 0;

		if (app->poll(&fd, 1, ms) <= 0) {
			if (had)
				continue;
			message = WANTS;
			app->send(socket, &message, 1, 0);
			waits = 1;
			next = now(app) + again;
			continue;
		}
		if (app->recv(socket, &message, 1, 0) != 1)
			continue;
		if (message == WANTS) {
			message = waits ? REFUSES : AGREES;
			app->send(socket, &message, 1, 0);
		} else if (message == REFUSES && waits) {
			app->print("refused\n");
			waits = 0;
		} else if (message == AGREES && waits) {
			app->print("it is its turn\n");
			waits = 0;
			had = 1;
			/* The other one may still ask. */
			end = now(app) + STAYS_MS;
		}
	}
	return 0;
}

int vink_app_main(const struct vink_app *app, int argc, char **argv)
{
	struct sockaddr_in own, other;
	int socket, again = AGAIN_MS;

	if (argc != 5)
		return 2;
	own = address_of(argv[2]);
	other = address_of(argv[3]);
#ifdef UNEQUAL
	again *= atoi(argv[1]);
#endif
	socket = app->socket(AF_INET, SOCK_DGRAM, 0);
	app->bind(socket, (void *)&own, sizeof(own));
	app->connect(socket, (void *)&other, sizeof(other));
	app->ready();
	return takes_turns(app, socket, now(app) + atoi(argv[4]), again);
}
