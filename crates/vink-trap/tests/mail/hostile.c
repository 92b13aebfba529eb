/* A program that fills its mailbox with garbage: hostile SIZE ROUNDS. It may get any answers, or none. */
#include <arpa/inet.h>
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

int main(int argc, char **argv)
{
	size_t size = argc > 2 ? strtoul(argv[1], NULL, 0) : 0, len;
	int rounds = argc > 2 ? atoi(argv[2]) : 0, ends[2], fd;
	uint32_t *words;
	char bytes[64] = "";

	if (connect_pair(ends))
		return 2;
	fd = ioctl(-1, 0x564e4b01);
	if (fd < 0)
		return 3;
	words = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (words == MAP_FAILED)
		return 4;
	/* Nobody can take away what the worker has mapped. */
	if (ftruncate(fd, 0) == 0)
		return 5;
	close(fd);
	if (ioctl(-1, 0x564e4b02) < 0)
		return 6;
	for (int round = 0; round < rounds; round++) {
		/* Attracts the worker's attention. */
		if (send(ends[0], bytes, 1, MSG_DONTWAIT) < 0 && round == 0)
			return 7;
		for (int n = 0; n < 64; n++) {
			len = n < 32 ? 8192 : size;
			words[next() % (len / 4)] = next() & 1 ? next() : next() % 64;
		}
		/* What is posted, in the line behind the first one. */
		words[32] = next();
		words[33] = next();
		while (recv(ends[1], bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
			;
	}
	puts("done");
	return 0;
}
