/* Families, types and flags that do not exist or do not go together. */
#include "check.h"

int main(void)
{
	begin();
	TRY(socket(-1, SOCK_STREAM, 0));
	TRY(socket(46, SOCK_STREAM, 0));
	TRY(socket(1000, SOCK_STREAM, 0));
	TRY(socket(AF_UNSPEC, SOCK_STREAM, 0));
	TRY(socket(AF_APPLETALK, SOCK_DGRAM, 0));
	TRY(socket(AF_INET, 0, 0));
	TRY(socket(AF_INET, 7, 0));
	TRY(socket(AF_INET, -1, 0));
	TRY(socket(AF_INET, SOCK_RDM, 0));
	FD(socket(AF_INET, SOCK_PACKET, 0));
	TRY(socket(AF_INET, SOCK_STREAM | 0x100, 0));
	TRY(socket(AF_INET6, SOCK_STREAM | 0x40000, 0));
	TRY(socket(AF_INET6, SOCK_RDM, 0));

	EACH_FAMILY(family) {
		union address a;
		socklen_t len = loopback(family, 0, &a);
		int s = socket(family, SOCK_STREAM, 0);
		int d = socket(family, SOCK_DGRAM, 0);

		title(family_name(family));
		a.any.sa_family = AF_UNIX;
		TRY(bind(s, &a.any, len));
		TRY(bind(d, &a.any, len));
		TRY(connect(s, &a.any, len));
		TRY(connect(d, &a.any, len));
		a.any.sa_family = AF_UNSPEC;
		TRY(bind(s, &a.any, len));
		TRY(connect(s, &a.any, len));
		TRY(connect(d, &a.any, len));
		a.any.sa_family = 12345;
		TRY(bind(s, &a.any, len));
		TRY(connect(s, &a.any, len));
		len = loopback(family == AF_INET ? AF_INET6 : AF_INET, 4500, &a);
		TRY(bind(s, &a.any, len));
		TRY(connect(s, &a.any, len));
		TRY(connect(d, &a.any, len));
		close(s);
		close(d);
	}
	return 0;
}
