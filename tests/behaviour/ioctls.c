/* ioctl(): waiting bytes, queues, interfaces and their flags. */
#include "check.h"
#include <linux/sockios.h>
#include <net/if_arp.h>

static struct ifreq named(const char *name)
{
	struct ifreq r = { 0 };

	strncpy(r.ifr_name, name, IFNAMSIZ - 1);
	return r;
}

int main(void)
{
	int value = -1, p[2];
	char buffer[16];

	begin();
	EACH_FAMILY(family) {
		title(family_name(family));
		stream_pair(family, p);
		TRY(ioctl(p[1], FIONREAD, &value));
		VALUE(value);
		MUST(send(p[0], "12345", 5, 0));
		WAIT(p[1], POLLIN);
		TRY(ioctl(p[1], FIONREAD, &value));
		VALUE(value);
		MUST(recv(p[1], buffer, 2, 0));
		TRY(ioctl(p[1], FIONREAD, &value));
		VALUE(value);
		TRY(ioctl(p[1], SIOCINQ, &value));
		TRY(ioctl(p[0], SIOCOUTQ, &value));
		value = 1;
		TRY(ioctl(p[1], FIONBIO, &value));
		VALUE(!!(fcntl(p[1], F_GETFL) & O_NONBLOCK));
		MUST(recv(p[1], buffer, 16, 0));
		TRY(recv(p[1], buffer, 16, 0));
		value = 0;
		TRY(ioctl(p[1], FIONBIO, &value));
		VALUE(!!(fcntl(p[1], F_GETFL) & O_NONBLOCK));
		TRY(ioctl(p[1], FIOCLEX));
		VALUE(fcntl(p[1], F_GETFD));
		TRY(ioctl(p[1], FIONCLEX));
		VALUE(fcntl(p[1], F_GETFD));
		TRY(ioctl(p[1], 0xdead, &value));
		int l = listener(family);
		TRY(ioctl(l, FIONREAD, &value));
		close(l);
		close(p[0]);
		close(p[1]);
	}

	title("interfaces");
	int s = socket(AF_INET, SOCK_DGRAM, 0);
	struct ifreq list[4], r = named("lo");
	struct ifconf all = { .ifc_len = sizeof(list), .ifc_req = list };
	TRY(ioctl(s, SIOCGIFCONF, &all));
	VALUE(all.ifc_len / sizeof(*list));
	TEXT(list[0].ifr_name);
	VALUE(((struct sockaddr_in *)&list[0].ifr_addr)->sin_addr.s_addr ==
	      htonl(INADDR_LOOPBACK));
	all.ifc_buf = NULL;
	TRY(ioctl(s, SIOCGIFCONF, &all));
	VALUE(all.ifc_len / sizeof(*list));
	TRY(ioctl(s, SIOCGIFFLAGS, &r));
	VALUE(r.ifr_flags & (IFF_UP | IFF_LOOPBACK | IFF_RUNNING));
	TRY(ioctl(s, SIOCGIFINDEX, &r));
	VALUE(r.ifr_ifindex);
	TRY(ioctl(s, SIOCGIFMTU, &r));
	VALUE(r.ifr_mtu);
	TRY(ioctl(s, SIOCGIFHWADDR, &r));
	VALUE(r.ifr_hwaddr.sa_family == ARPHRD_LOOPBACK);
	TRY(ioctl(s, SIOCGIFADDR, &r));
	VALUE(ntohl(((struct sockaddr_in *)&r.ifr_addr)->sin_addr.s_addr));
	TRY(ioctl(s, SIOCGIFNETMASK, &r));
	VALUE(ntohl(((struct sockaddr_in *)&r.ifr_netmask)->sin_addr.s_addr));
	r = named("none");
	TRY(ioctl(s, SIOCGIFFLAGS, &r));
	TRY(ioctl(s, SIOCGIFADDR, &r));
	r = named("");
	r.ifr_ifindex = 1;
	TRY(ioctl(s, SIOCGIFNAME, &r));
	TEXT(r.ifr_name);
	r.ifr_ifindex = 77;
	TRY(ioctl(s, SIOCGIFNAME, &r));
	VALUE(if_nametoindex("lo"));

	title("changed");
	r = named("lo");
	r.ifr_mtu = 1500;
	TRY(ioctl(s, SIOCSIFMTU, &r));
	r.ifr_mtu = 0;
	TRY(ioctl(s, SIOCGIFMTU, &r));
	VALUE(r.ifr_mtu);
	r.ifr_mtu = -1;
	TRY(ioctl(s, SIOCSIFMTU, &r));
	struct sockaddr_in *to = (struct sockaddr_in *)&r.ifr_addr;
	*to = (struct sockaddr_in){ .sin_family = AF_INET };
	inet_pton(AF_INET, "127.5.5.5", &to->sin_addr);
	TRY(ioctl(s, SIOCSIFADDR, &r));
	TRY(ioctl(s, SIOCGIFADDR, &r));
	VALUE(ntohl(to->sin_addr.s_addr) == 0x7f050505);
	r.ifr_flags = 0;
	TRY(ioctl(s, SIOCSIFFLAGS, &r));
	TRY(ioctl(s, SIOCGIFFLAGS, &r));
	VALUE(r.ifr_flags & IFF_UP);
	return 0;
}
