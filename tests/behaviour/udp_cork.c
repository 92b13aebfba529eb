/* UDP_CORK and MSG_MORE join parts; UDP_SEGMENT and UDP_GRO cut and join. */
#include "check.h"
#include <netinet/udp.h>

int main(void)
{
	begin();
	EACH_FAMILY(family) {
		char buffer[64] = "";
		int p[2];

		title(family_name(family));
		datagram_pair(family, p);
		TRY(send(p[0], "one ", 4, MSG_MORE));
		TRY(send(p[0], "two ", 4, MSG_MORE));
		TRY(send(p[0], "three", 5, 0));
		TRY(recv(p[1], buffer, 64, 0));
		TEXT(buffer);
		ROUND_TRIP(p[0], IPPROTO_UDP, UDP_CORK, 1);
		TRY(send(p[0], "four ", 5, 0));
		TRY(send(p[0], "five", 4, 0));
		TRY(recv(p[1], buffer, 64, MSG_DONTWAIT));
		ROUND_TRIP(p[0], IPPROTO_UDP, UDP_CORK, 0);
		memset(buffer, 0, sizeof(buffer));
		TRY(recv(p[1], buffer, 64, 0));
		TEXT(buffer);

		title("segments");
		ROUND_TRIP(p[0], IPPROTO_UDP, UDP_SEGMENT, 4);
		ROUND_TRIP(p[0], IPPROTO_UDP, UDP_SEGMENT, 70000);
		TRY(send(p[0], "aaaabbbbcc", 10, 0));
		for (int i = 0; i < 3; i++) {
			memset(buffer, 0, sizeof(buffer));
			TRY(recv(p[1], buffer, 64, 0));
			TEXT(buffer);
		}
		ROUND_TRIP(p[1], IPPROTO_UDP, UDP_GRO, 1);
		TRY(send(p[0], "aaaabbbbcc", 10, 0));
		memset(buffer, 0, sizeof(buffer));
		TRY(recv(p[1], buffer, 64, 0));
		TEXT(buffer);
		close(p[0]);
		close(p[1]);
	}
	return 0;
}
