/* Broadcast must be asked for, and then reaches the sockets bound to any. */
#include "check.h"

int main(void)
{
	begin();
	union address to, any = { .v4.sin_family = AF_INET };
	char buffer[8] = "";
	int s = socket(AF_INET, SOCK_DGRAM, 0);
	int c = socket(AF_INET, SOCK_DGRAM, 0);

	any.v4.sin_port = htons(4003);
	TRY(bind(s, &any.any, sizeof(any.v4)));
	loopback(AF_INET, 4003, &to);
	inet_pton(AF_INET, "127.255.255.255", &to.v4.sin_addr);
	TRY(sendto(c, "no", 2, 0, &to.any, sizeof(to.v4)));
	TRY(connect(c, &to.any, sizeof(to.v4)));
	ROUND_TRIP(c, SOL_SOCKET, SO_BROADCAST, 1);
	TRY(sendto(c, "yes", 3, 0, &to.any, sizeof(to.v4)));
	TRY(recv(s, buffer, 8, 0));
	TEXT(buffer);
	TRY(connect(c, &to.any, sizeof(to.v4)));
	TRY(send(c, "also", 4, 0));
	TRY(recv(s, buffer, 8, 0));
	TEXT(buffer);
	to.v4.sin_addr.s_addr = INADDR_BROADCAST;
	TRY(sendto(c, "nowhere", 7, 0, &to.any, sizeof(to.v4)));

	title("TCP");
	int t = socket(AF_INET, SOCK_STREAM, 0);
	inet_pton(AF_INET, "127.255.255.255", &to.v4.sin_addr);
	TRY(connect(t, &to.any, sizeof(to.v4)));
	return 0;
}
