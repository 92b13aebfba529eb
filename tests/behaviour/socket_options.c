/* SO_* options: defaults, there and back, read-only ones, and lengths. */
#include "check.h"

int main(void)
{
	static const int types[] = { SOCK_STREAM, SOCK_DGRAM };
	struct timeval t = { 3, 400000 };
	socklen_t len;

	begin();
	for (int i = 0; i < 2; i++) {
		int s = socket(AF_INET6, types[i], 0);

		title(types[i] == SOCK_STREAM ? "stream" : "datagram");
		DEFAULT(s, SOL_SOCKET, SO_TYPE);
		DEFAULT(s, SOL_SOCKET, SO_DOMAIN);
		DEFAULT(s, SOL_SOCKET, SO_PROTOCOL);
		DEFAULT(s, SOL_SOCKET, SO_ERROR);
		DEFAULT(s, SOL_SOCKET, SO_ACCEPTCONN);
		DEFAULT(s, SOL_SOCKET, SO_REUSEADDR);
		DEFAULT(s, SOL_SOCKET, SO_KEEPALIVE);
		DEFAULT(s, SOL_SOCKET, SO_BROADCAST);
		DEFAULT(s, SOL_SOCKET, SO_RCVLOWAT);
		DEFAULT(s, SOL_SOCKET, SO_SNDLOWAT);
		DEFAULT(s, SOL_SOCKET, SO_PRIORITY);
		DEFAULT(s, SOL_SOCKET, SO_MARK);

		ROUND_TRIP(s, SOL_SOCKET, SO_REUSEADDR, 1);
		ROUND_TRIP(s, SOL_SOCKET, SO_REUSEADDR, 55);
		ROUND_TRIP(s, SOL_SOCKET, SO_REUSEPORT, 1);
		ROUND_TRIP(s, SOL_SOCKET, SO_KEEPALIVE, 1);
		ROUND_TRIP(s, SOL_SOCKET, SO_DONTROUTE, 1);
		ROUND_TRIP(s, SOL_SOCKET, SO_BROADCAST, 1);
		ROUND_TRIP(s, SOL_SOCKET, SO_OOBINLINE, 1);
		ROUND_TRIP(s, SOL_SOCKET, SO_SNDBUF, 20000);
		ROUND_TRIP(s, SOL_SOCKET, SO_RCVBUF, 20000);
		ROUND_TRIP(s, SOL_SOCKET, SO_SNDBUF, 1);
		ROUND_TRIP(s, SOL_SOCKET, SO_RCVLOWAT, 10);
		ROUND_TRIP(s, SOL_SOCKET, SO_SNDLOWAT, 10);
		ROUND_TRIP(s, SOL_SOCKET, SO_PRIORITY, 6);
		ROUND_TRIP(s, SOL_SOCKET, SO_MARK, 77);
		ROUND_TRIP(s, SOL_SOCKET, SO_TIMESTAMP, 1);
		ROUND_TRIP(s, SOL_SOCKET, SO_NO_CHECK, 1);
		ROUND_TRIP(s, SOL_SOCKET, SO_LOCK_FILTER, 1);
		ROUND_TRIP(s, SOL_SOCKET, SO_ZEROCOPY, 1);
		ROUND_TRIP(s, SOL_SOCKET, SO_INCOMING_CPU, 0);
		ROUND_TRIP(s, SOL_SOCKET, SO_TYPE, 1);
		ROUND_TRIP(s, SOL_SOCKET, SO_ERROR, 1);
		ROUND_TRIP(s, SOL_SOCKET, SO_ACCEPTCONN, 1);
		ROUND_TRIP(s, SOL_SOCKET, SO_DOMAIN, 1);
		ROUND_TRIP(s, SOL_SOCKET, 12345, 1);
		ROUND_TRIP(s, 12345, 1, 1);

		title("time-outs");
		len = sizeof(t);
		TRY(setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)));
		t = (struct timeval){ 0, 0 };
		TRY(getsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &t, &len));
		printf("%ld.%06ld in %u bytes\n", t.tv_sec, t.tv_usec, len);
		t.tv_usec = 1000000;
		TRY(setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)));
		t = (struct timeval){ -1, 0 };
		TRY(setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t)));
		TRY(setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &t, 4));

		title("a device to be bound to");
		char name[IFNAMSIZ] = "lo";
		TRY(setsockopt(s, SOL_SOCKET, SO_BINDTODEVICE, name, 3));
		memset(name, 0, sizeof(name));
		len = sizeof(name);
		TRY(getsockopt(s, SOL_SOCKET, SO_BINDTODEVICE, name, &len));
		printf("\"%s\" in %u bytes\n", name, len);
		TRY(setsockopt(s, SOL_SOCKET, SO_BINDTODEVICE, "none", 4));
		len = 2;
		TRY(getsockopt(s, SOL_SOCKET, SO_BINDTODEVICE, name, &len));
		close(s);

		title("time-out that runs out");
		char byte;
		int b = bound(AF_INET, SOCK_DGRAM);
		t = (struct timeval){ 0, 20000 };
		TRY(setsockopt(b, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)));
		TRY(recv(b, &byte, 1, 0));
		int l = listener(AF_INET);
		TRY(setsockopt(l, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)));
		TRY(accept(l, NULL, NULL));
		VALUE(get_int(l, SOL_SOCKET, SO_ACCEPTCONN));
		close(b);
		close(l);
	}
	return 0;
}
