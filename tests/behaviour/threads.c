/* Threads of one process: shared descriptors, wake-ups by another thread. */
#include "check.h"
#include <pthread.h>

static int p[2], l;

static void *sender(void *unused)
{
	send(p[0], "from a thread", 13, 0);
	return unused;
}

static void *opener(void *unused)
{
	(void)unused;
	return (void *)(long)socket(AF_INET, SOCK_DGRAM, 0);
}

static void *receiver(void *unused)
{
	char byte;

	(void)unused;
	return (void *)(long)recv(p[1], &byte, 1, 0);
}

static void *connector(void *family)
{
	return (void *)(long)connect_to((long)family, SOCK_STREAM, port_of(l));
}

int main(void)
{
	begin();
	EACH_FAMILY(family) {
		char buffer[32] = "";
		pthread_t t;
		void *result;

		title(family_name(family));
		stream_pair(family, p);
		pthread_create(&t, NULL, sender, NULL);
		TRY(recv(p[1], buffer, 32, 0));
		TEXT(buffer);
		pthread_join(t, NULL);

		title("opened there, used here");
		pthread_create(&t, NULL, opener, NULL);
		pthread_join(t, &result);
		int fd = (long)result;
		VALUE(get_int(fd, SOL_SOCKET, SO_TYPE) == SOCK_DGRAM);
		TRY(close(fd));

		title("accept here, connect there");
		l = listener(family);
		pthread_create(&t, NULL, connector, (void *)(long)family);
		int s = FD(accept(l, NULL, NULL));
		pthread_join(t, &result);
		TRY(send(s, "x", 1, 0));
		TRY(recv((long)result, buffer, 32, 0));
		close((long)result);
		close(s);
		close(l);

		title("shutdown wakes a receiver");
		pthread_create(&t, NULL, receiver, NULL);
		TRY(shutdown(p[1], SHUT_RD));
		pthread_join(t, &result);
		VALUE((long)result);
		close(p[0]);
		close(p[1]);
	}
	return 0;
}
