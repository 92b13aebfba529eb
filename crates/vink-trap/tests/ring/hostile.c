/*
 * A program that fills its ring with garbage: hostile SIZE ROUNDS PENDING SLOTS SLOT SENDS SEND RECEIVE, where all
 * but ROUNDS are bytes: offsets of four parts and sizes of two, besides the whole one. It may get any answers, or none.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static uint64_t seed = 88172645463325252;

static uint64_t next(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	return seed ^= seed << 17;
}

/* Both ends of a connection over loopback. */
static int connect_pair(int ends[2])
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(a);
	int l = socket(AF_INET, SOCK_STREAM, 0);

	if (l < 0 || bind(l, (void *)&a, len) || getsockname(l, (void *)&a, &len) || listen(l, 1))
		return -1;
	ends[0] = socket(AF_INET, SOCK_STREAM, 0);
	if (ends[0] < 0 || connect(ends[0], (void *)&a, len))
		return -1;
	ends[1] = accept(l, NULL, NULL);
	return ends[1] < 0 || close(l) ? -1 : 0;
}

enum part { SIZE, ROUNDS, PENDING, SLOTS, SLOT, SENDS, SEND, RECEIVE, PARTS };

static size_t parts[PARTS];

/* Deferred sends for any descriptors, of any length, any number of times, in any slots, but most in one's own. */
static void leave_sends(char *ring, size_t own)
{
	size_t slot = next() % 4 ? own : next() % 64;
	uint32_t *sends = (void *)(ring + parts[SLOTS] + slot * parts[SLOT] + parts[SENDS]);

	for (int n = 0; n < 64; n++) {
		int32_t *send = (void *)((char *)sends + 64 + n * parts[SEND]);

		send[0] = next() % 16 ? next() % 16 : next();
		send[1] = next() % 2 ? 0 : next() % 2 ? 1u << next() % 32 : (uint32_t)next();
		send[2] = next() % 4 ? next() % 5000 : next();
	}
	/* How many are written, and sent. */
	sends[0] = next() % 2 ? sends[1] + next() % 128 : next();
	if (next() % 4 == 0)
		sends[1] = next();
	*(volatile uint64_t *)(ring + parts[PENDING]) |= next() % 4 ? 1ull << slot : next();
}

int main(int argc, char **argv)
{
	int ends[2], fd, slot;
	size_t size, rounds, len;
	uint32_t *words;
	char bytes[64] = "";

	for (int n = 0; n < PARTS && n + 1 < argc; n++)
		parts[n] = strtoul(argv[n + 1], NULL, 0);
	size = parts[SIZE];
	rounds = parts[ROUNDS];
	signal(SIGPIPE, SIG_IGN);
	if (connect_pair(ends))
		return 2;
	/* In virtual time it is too early at first. */
	for (;;) {
		fd = ioctl(-1, 0x564e4b01);
		if (fd >= 0)
			break;
		if (errno != EAGAIN || send(ends[0], bytes, 1, 0) != 1 || recv(ends[1], bytes, 1, 0) != 1)
			return 3;
	}
	words = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (words == MAP_FAILED)
		return 4;
	/* Its pages stay as long as the worker has them mapped. */
	if (ftruncate(fd, 0) == 0)
		return 5;
	close(fd);
	slot = ioctl(-1, 0x564e4b02);
	if (slot < 0)
		return 6;
	for (size_t round = 0; round < rounds; round++) {
		/* Attracts the worker's attention. Deferred sends that find no room end the connection. */
		if (send(ends[0], bytes, 1, MSG_DONTWAIT) < 0 && errno != EAGAIN) {
			close(ends[0]);
			close(ends[1]);
			if (round == 0 || connect_pair(ends))
				return 7;
		}
		for (int n = 0; n < 64; n++) {
			len = n < 32 ? 8192 : size;
			words[next() % (len / 4)] = next() & 1 ? next() : next() % 64;
		}
		/* What is posted, in the line behind the first one. */
		words[32] = next();
		words[33] = next();
		leave_sends((char *)words, slot);
		/* What is received may be put elsewhere, or nowhere. */
		*(uint64_t *)((char *)words + parts[SLOTS] + slot * parts[SLOT] + parts[RECEIVE]) =
			next() % 4 ? (uintptr_t)bytes : next();
		/* At first they fill what no process empties. */
		while (round > rounds / 2 &&
		       recv(ends[1], bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
			;
	}
	puts("done");
	return 0;
}
