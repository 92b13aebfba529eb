/* A TUN interface: packets that a program takes and gives, and waits for. */
#include "check.h"
#include <linux/if_tun.h>
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>
#include <netinet/udp.h>
#include <sys/epoll.h>

struct packet {
	struct iphdr ip;
	union {
		struct udphdr udp;
		struct icmphdr icmp;
	};
	char text[64];
};

static uint16_t checksum(const void *data, size_t len)
{
	const uint16_t *words = data;
	uint32_t sum = 0;

	for (; len > 1; len -= 2)
		sum += *words++;
	sum = (sum >> 16) + (sum & 0xffff);
	return ~(sum + (sum >> 16));
}

static void set_address(int s, struct ifreq *r, unsigned long request,
			const char *text)
{
	struct sockaddr_in *a = (struct sockaddr_in *)&r->ifr_addr;

	memset(a, 0, sizeof(*a));
	a->sin_family = AF_INET;
	inet_pton(AF_INET, text, &a->sin_addr);
	TRY(ioctl(s, request, r));
}

int main(void)
{
	struct ifreq r = { .ifr_name = "tun7", .ifr_flags = IFF_TUN | IFF_NO_PI };
	struct sockaddr_in peer = { .sin_family = AF_INET, .sin_port = htons(9) };
	struct epoll_event event = { .events = EPOLLIN };
	struct packet in, out = { 0 };

	int e = FD(epoll_create1(0));
	int tun = FD(open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
	EVENTS(tun);
	TRY(read(tun, &in, sizeof(in)));
	TRY(ioctl(tun, TUNSETIFF, &r));
	TEXT(r.ifr_name);
	TRY(ioctl(tun, TUNSETIFF, &r));

	title("the interface");
	int quiet = FD(open("/proc/sys/net/ipv6/conf/tun7/disable_ipv6", O_WRONLY));
	TRY(write(quiet, "1", 1));
	int s = FD(socket(AF_INET, SOCK_DGRAM, 0));
	set_address(s, &r, SIOCSIFADDR, "10.7.0.1");
	set_address(s, &r, SIOCSIFNETMASK, "255.255.255.0");
	TRY(ioctl(s, SIOCGIFFLAGS, &r));
	r.ifr_flags |= IFF_UP;
	TRY(ioctl(s, SIOCSIFFLAGS, &r));

	title("a datagram comes out");
	EVENTS(tun);
	TRY(epoll_ctl(e, EPOLL_CTL_ADD, tun, &event));
	TRY(epoll_wait(e, &event, 1, 0));
	inet_pton(AF_INET, "10.7.0.2", &peer.sin_addr);
	TRY(sendto(s, "hello", 6, 0, (struct sockaddr *)&peer, sizeof(peer)));
	TRY(epoll_wait(e, &event, 1, -1));
	EVENTS(tun);
	TRY(read(tun, &in, sizeof(in)));
	VALUE(in.ip.protocol);
	VALUE(ntohs(in.udp.dest));
	TEXT((char *)(&in.udp + 1));
	TRY(read(tun, &in, sizeof(in)));

	title("an echo request goes in");
	out.ip = (struct iphdr){ .version = 4, .ihl = 5, .ttl = 9, .protocol = IPPROTO_ICMP };
	out.ip.tot_len = htons(sizeof(out));
	out.ip.saddr = peer.sin_addr.s_addr;
	inet_pton(AF_INET, "10.7.0.1", &out.ip.daddr);
	out.ip.check = checksum(&out.ip, sizeof(out.ip));
	out.icmp.type = ICMP_ECHO;
	strcpy(out.text, "echo");
	out.icmp.checksum = checksum(&out.icmp, sizeof(out) - sizeof(out.ip));
	TRY(write(tun, &out, sizeof(out)));
	TRY(epoll_wait(e, &event, 1, -1));
	TRY(read(tun, &in, sizeof(in)));
	VALUE(in.icmp.type);
	TEXT(in.text);
	TRY(write(tun, &out, 1));
	TRY(write(tun, NOWHERE, 100));

	title("a timer's packet, while epoll_wait() waits");
	int t = FD(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
	TRY(connect(t, (struct sockaddr *)&peer, sizeof(peer)));
	TRY(read(tun, &in, sizeof(in)));
	TRY(read(tun, &in, sizeof(in)));
	TRY(epoll_wait(e, &event, 1, -1));
	TRY(read(tun, &in, sizeof(in)));
	VALUE(in.ip.protocol);

	title("... while read() waits");
	TRY(fcntl(tun, F_SETFL, O_RDWR));
	TRY(read(tun, &in, sizeof(in)));
	VALUE(in.ip.protocol);

	title("the end of it");
	TRY(close(tun));
	TRY(ioctl(s, SIOCGIFFLAGS, &r));
	return 0;
}
