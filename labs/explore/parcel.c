// SPDX-License-Identifier: GPL-2.0
/*
 * A protocol to be explored: parcels over UDP, one after the other. Each is sent
 * again until its receipt comes, and is delivered once.
 *
 *	parcel.so receive ADDRESS COUNT
 *	parcel.so send ADDRESS COUNT
 *
 * Both end with status 0 if all parcels have come, else with 1. It has a mistake:
 * a receipt does not say which parcel it is for. Compiled with -DNUMBERED it does.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <vink/app.h>

#define PORT		7100
#define TRIES		8
#define TIMEOUT_MS	200

struct message {
	int number;
};

static struct sockaddr_in address_of(const char *text)
{
	struct sockaddr_in address = {
		.sin_family	= AF_INET,
		.sin_port	= htons(PORT),
	};

	inet_pton(AF_INET, text, &address.sin_addr);
	return address;
}

/* Whether something comes within so many ms. */
static int waits_for(const struct vink_app *app, int socket, int ms)
{
	struct pollfd fd = { .fd = socket, .events = POLLIN };

	return app->poll(&fd, 1, ms) > 0;
}

static int sender(const struct vink_app *app, const char *to, int count)
{
	struct sockaddr_in address = address_of(to);
	int socket = app->socket(AF_INET, SOCK_DGRAM, 0);
	struct message parcel, receipt;
	int tries;

	app->connect(socket, (void *)&address, sizeof(address));
	for (parcel.number = 1; parcel.number <= count; parcel.number++) {
		for (tries = 0; tries < TRIES; tries++) {
			app->send(socket, &parcel, sizeof(parcel), 0);
			while (waits_for(app, socket, TIMEOUT_MS)) {
				app->recv(socket, &receipt, sizeof(receipt), 0);
#ifdef NUMBERED
				if (receipt.number != parcel.number)
					continue;
#endif
				goto next;
			}
		}
		app->print("no receipt\n");
		return 1;
next:;
	}
	return 0;
}

static int receiver(const struct vink_app *app, const char *at, int count)
{
	struct sockaddr_in address = address_of(at), from;
	int socket = app->socket(AF_INET, SOCK_DGRAM, 0);
	struct message parcel;
	socklen_t len;
	int last = 0;

	app->bind(socket, (void *)&address, sizeof(address));
	app->ready();
	/* After the last one for as long as its receipt may have to be sent again. */
	while (waits_for(app, socket, last == count ? 2 * TRIES * TIMEOUT_MS : 10000)) {
		len = sizeof(from);
		app->recvfrom(socket, &parcel, sizeof(parcel), 0, (void *)&from,
			      &len);
		if (parcel.number > last + 1)
			app->print("a parcel is missing\n");
		if (parcel.number == last + 1)
			last = parcel.number;
		app->sendto(socket, &parcel, sizeof(parcel), 0, (void *)&from,
			    len);
	}
	return last == count ? 0 : 1;
}

int vink_app_main(const struct vink_app *app, int argc, char **argv)
{
	if (argc != 4)
		return 2;
	if (strcmp(argv[1], "send") == 0)
		return sender(app, argv[2], atoi(argv[3]));
	return receiver(app, argv[2], atoi(argv[3]));
}
