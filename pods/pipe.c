/* SPDX-License-Identifier: MIT */
/*
 * A pod as an ordinary process of a pipeline, without a wall: what pods are
 * measured beside. Compiled together with the pod's file.
 *
 * usage: pipe [-r] [-w] [CONFIG]: units from the standard input to the standard
 * output, each behind its length (32 bits); -r reads bytes as they come, -w writes
 * them so.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <vink/pod.h>

/* A pod may be without it. */
#pragma weak pod_init

static int is_raw_out;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void put(const void *bytes, size_t len)
{
	while (len) {
		ssize_t some = write(1, bytes, len);

		if (some < 0)
			fail("write");
		bytes = (const char *)bytes + some;
		len -= some;
	}
}

/* 0: the end. */
static size_t get(void *bytes, size_t len, int is_raw)
{
	size_t have = 0;

	while (have < len) {
		ssize_t some = read(0, (char *)bytes + have, len - have);

		if (some < 0)
			fail("read");
		if (!some)
			break;
		have += some;
		if (is_raw)
			break;
	}
	return have;
}

int32_t vink_emit(uint32_t where, const void *bytes, uint32_t len)
{
	(void)where;
	if (!is_raw_out)
		put(&len, sizeof(len));
	put(bytes, len);
	return 0;
}

void vink_log(const char *text, uint32_t len)
{
	fprintf(stderr, "%.*s\n", (int)len, text);
}

uint64_t vink_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

void vink_count(uint32_t counter, int64_t more)
{
	(void)counter, (void)more;
}

void vink_timer(uint64_t at)
{
	(void)at;
}

int main(int argc, char **argv)
{
	static uint8_t unit[1 << 16];
	int is_raw_in = 0, option;
	const char *config;
	uint32_t len;

	while ((option = getopt(argc, argv, "rw")) > 0) {
		is_raw_in |= option == 'r';
		is_raw_out |= option == 'w';
	}
	config = argv[optind] ? argv[optind] : "";
	if (pod_init && pod_init(config, strlen(config)))
		return 1;
	for (;;) {
		if (is_raw_in)
			len = get(unit, sizeof(unit), 1);
		else if (get(&len, sizeof(len), 0) < sizeof(len) || len > sizeof(unit) ||
			 get(unit, len, 0) < len)
			len = 0;
		if (!len)
			return pod_stream(unit, 0, POD_END) ? 1 : 0;
		if (pod_stream(unit, len, 0))
			return 1;
	}
}
