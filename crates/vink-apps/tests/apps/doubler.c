// SPDX-License-Identifier: GPL-2.0
/* A UDP server that sends back everything twice: doubler PORT. */

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include <vink/app.h>

/* Whether the table's first, middle and last calls are where they should be. */
static int table_is_right(const struct vink_app *app, int fd)
{
	struct sockaddr_storage name;
	struct pollfd wait = { .fd = fd, .events = POLLIN };
	socklen_t len = sizeof(name);
	struct timespec now = { -1, -1 };
	char byte;

	return app->version == VINK_APP_VERSION && app->size == sizeof(*app) &&
	       !app->getsockname(fd, (void *)&name, &len) &&
	       name.ss_family == AF_INET6 &&
	       app->recv(fd, &byte, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN &&
	       app->poll(&wait, 1, 0) == 0 &&
	       !app->clock_gettime(CLOCK_MONOTONIC, &now) && now.tv_nsec >= 0 &&
	       app->fcntl(fd, F_GETFL, 0) == O_RDWR &&
	       app->syscall(SYS_getpid, 0, 0, 0, 0, 0, 0) > 1 &&
	       app->close(-1) == -1 && errno == EBADF;
}

int vink_app_main(const struct vink_app *app, int argc, char **argv)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6 };
	unsigned long datagrams = 0;
	char data[2000], json[64];
	int fd;

	if (argc != 2) {
		vink_app_printf(app, "usage: %s PORT\n", argv[0]);
		return 2;
	}
	any.sin6_port = htons(atoi(argv[1]));
	fd = app->socket(AF_INET6, SOCK_DGRAM, 0);
	if (fd < 0 || app->bind(fd, (void *)&any, sizeof(any)) < 0) {
		vink_app_printf(app, "port %s: %s\n", argv[1], strerror(errno));
		return 1;
	}
	if (!table_is_right(app, fd))
		return 4;
	if (app->report("no JSON") != -1 || errno != EINVAL)
		return 3;
	app->ready();
	while (!app->stopping()) {
		struct sockaddr_storage from;
		socklen_t alen = sizeof(from);
		ssize_t len;

		len = app->recvfrom(fd, data, sizeof(data) / 2, 0,
				    (void *)&from, &alen);
		if (len < 0)
			break;
		memcpy(data + len, data, len);
		app->sendto(fd, data, 2 * len, 0, (void *)&from, alen);
		snprintf(json, sizeof(json), "{\"datagrams\": %lu}", ++datagrams);
		app->report(json);
	}
	vink_app_printf(app, "%s\n", strerror(errno));
	return app->close(fd);
}
