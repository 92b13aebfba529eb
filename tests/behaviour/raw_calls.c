/* System calls made by bare instructions, by syscall(3), and by the C library for itself. */
#include "check.h"
#include <ifaddrs.h>
#include <netdb.h>
#include <pthread.h>

static long bare(long nr, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8),
			   "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}
#define BARE(nr, a, b, c) bare(nr, (long)(a), (long)(b), (long)(c), 0, 0, 0)

static int p[2];

static void *in_a_thread(void *unused)
{
	char text[8] = "";

	(void)unused;
	VALUE(BARE(SYS_read, p[1], text, 8));
	TEXT(text);
	return (void *)BARE(SYS_socket, AF_INET, SOCK_DGRAM, 0);
}

int main(void)
{
	begin();
	EACH_FAMILY(family) {
		char text[32] = "";
		union address a;
		socklen_t len = sizeof(a);
		pthread_t t;
		void *result;

		title(family_name(family));
		int s = BARE(SYS_socket, family, SOCK_STREAM, 0);
		VALUE(s >= 0);
		VALUE(BARE(SYS_bind, s, &a, loopback(family, 0, &a)));
		VALUE(BARE(SYS_listen, s, 1, 0));
		VALUE(BARE(SYS_getsockname, s, &a, &len));
		p[0] = syscall(SYS_socket, family, SOCK_STREAM, 0);
		TRY(syscall(SYS_connect, p[0], &a, len));
		p[1] = BARE(SYS_accept, s, 0, 0);
		VALUE(p[1] >= 0);
		VALUE(BARE(SYS_write, p[0], "bare", 4));
		TRY(recv(p[1], text, sizeof(text), 0));
		TEXT(text);
		VALUE(BARE(SYS_write, p[0], NOWHERE, 4) == -EFAULT);
		VALUE(BARE(SYS_read, NO_FD, text, 4) == -EBADF);
		VALUE(BARE(SYS_dup2, p[0], NO_FD - 1, 0) == NO_FD - 1);
		VALUE(BARE(SYS_close, NO_FD - 1, 0, 0));

		title("by the C library");
		FILE *f = fdopen(dup(p[0]), "w");
		fprintf(f, "a line\n");
		TRY(fclose(f));
		TRY(recv(p[1], text, sizeof(text), 0));
		TRY(dprintf(p[0], "%d\n", 42));
		f = fdopen(dup(p[1]), "r");
		VALUE(fgetc(f));
		fclose(f);
		struct addrinfo hints = { .ai_family = family,
					  .ai_socktype = SOCK_STREAM };
		struct addrinfo *found;
		TRY(getaddrinfo(family == AF_INET ? "127.0.0.1" : "::1", "80",
				&hints, &found));
		VALUE(found->ai_family == (int)family);
		freeaddrinfo(found);
		VALUE(if_nametoindex("lo"));
		struct ifaddrs *all;
		TRY(getifaddrs(&all));
		for (struct ifaddrs *i = all; i; i = i->ifa_next)
			if (i->ifa_addr && i->ifa_addr->sa_family == family)
				TEXT(i->ifa_name);
		freeifaddrs(all);

		title("in a thread");
		MUST(send(p[0], "thread", 6, 0));
		MUST(-pthread_create(&t, NULL, in_a_thread, NULL));
		MUST(-pthread_join(t, &result));
		TRY(close((int)(long)result));

		title("descriptors");
		int next = dup(p[0]);
		close(next);
		VALUE(socket(family, SOCK_DGRAM, 0) == next);
		TRY(close(next));
		TRY(close(next));
		int file = MUST(open("/dev/null", O_RDWR));
		TRY(dup2(file, p[0]) == p[0]);
		TRY(send(p[0], "x", 1, 0));
		TRY(write(p[0], "x", 1));
		TRY(recv(p[1], text, 1, 0));
		TRY(dup2(p[1], file) == file);
		close(p[0]);
		close(p[1]);
		TRY(getpeername(file, &a.any, &len));
		TRY(close_range(file, file, 0));
		TRY(close(file));
		close(s);
	}
	return 0;
}
