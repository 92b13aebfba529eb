/* TCP_CONGESTION: names, lengths, and an unused name. */
#include "check.h"

static void choose(int fd, const char *name, socklen_t len)
{
	char back[32] = "";
	socklen_t size = sizeof(back);

	printf("set \"%.*s\": ", (int)len, name);
	TRY(setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, len));
	MUST(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, back, &size));
	if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, len) == 0)
		printf("now \"%s\" in %u bytes\n", back, size);
}

int main(void)
{
	begin();
	EACH_FAMILY(family) {
		char back[32] = "";
		socklen_t size;
		int s = socket(family, SOCK_STREAM, 0);

		title(family_name(family));
		choose(s, "reno", 4);
		choose(s, "cubic", 5);
		choose(s, "cubic", 6);
		choose(s, "bbr", 3);
		choose(s, "no-such-one", 11);
		choose(s, "", 0);
		choose(s, "reno", 2);
		choose(s, "much-too-long-for-a-name", 24);
		choose(s, "reno", 4);
		size = 3;
		TRY(getsockopt(s, IPPROTO_TCP, TCP_CONGESTION, back, &size));
		VALUE(size);
		TEXT(back);
		size = -1;
		TRY(getsockopt(s, IPPROTO_TCP, TCP_CONGESTION, back, &size));
		close(s);

		title("an accepted connection has the listener's");
		int l = listener(family);
		choose(l, "reno", 4);
		int c = connect_to(family, SOCK_STREAM, port_of(l));
		int a = MUST(accept(l, NULL, NULL));
		memset(back, 0, sizeof(back));
		size = sizeof(back);
		TRY(getsockopt(a, IPPROTO_TCP, TCP_CONGESTION, back, &size));
		TEXT(back);
		close(a);
		close(c);
		close(l);
	}
	return 0;
}
