/* ioctl() about interfaces on a unix socket, as if_nametoindex() does it. */
#include "check.h"
#include <linux/sockios.h>

static struct ifreq named(const char *name)
{
	struct ifreq r = { 0 };

	strncpy(r.ifr_name, name, IFNAMSIZ - 1);
	return r;
}

int main(void)
{
	struct ifreq list[4], r = named("lo");
	struct ifconf all = { .ifc_len = sizeof(list), .ifc_req = list };
	int s, p[2], value = -1;

	begin();
	s = MUST(socket(AF_INET, SOCK_DGRAM, 0));
	r.ifr_mtu = 1234;
	MUST(ioctl(s, SIOCSIFMTU, &r));
	close(s);

	title("by the library");
	VALUE(if_nametoindex("lo"));
	TRY(if_nametoindex("nothing") ? 1 : -1);
	char name[IF_NAMESIZE] = "";
	VALUE(if_indextoname(1, name) == name);
	TEXT(name);

	title("requests");
	s = MUST(socket(AF_UNIX, SOCK_DGRAM, 0));
	r = named("lo");
	TRY(ioctl(s, SIOCGIFMTU, &r));
	VALUE(r.ifr_mtu);
	TRY(ioctl(s, SIOCGIFFLAGS, &r));
	VALUE(r.ifr_flags & (IFF_UP | IFF_LOOPBACK));
	TRY(ioctl(s, SIOCGIFADDR, &r));
	TRY(ioctl(s, SIOCGIFCONF, &all));
	TEXT(list[0].ifr_name);
	r = named("nothing");
	TRY(ioctl(s, SIOCGIFFLAGS, &r));
	TRY(ioctl(s, SIOCGIFFLAGS, NOWHERE));
	r = named("lo");
	r.ifr_mtu = 1300;
	TRY(ioctl(s, SIOCSIFMTU, &r));
	r.ifr_mtu = 0;
	TRY(ioctl(s, SIOCGIFMTU, &r));
	VALUE(r.ifr_mtu);

	title("what stays the host's");
	MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, p));
	MUST(write(p[0], "123", 3));
	TRY(ioctl(p[1], SIOCINQ, &value));
	VALUE(value);
	TRY(ioctl(NO_FD, SIOCGIFMTU, &r));
	MUST(pipe(p));
	TRY(ioctl(p[0], SIOCGIFMTU, &r));
	return 0;
}
