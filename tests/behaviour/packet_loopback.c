/* Packet sockets on lo: what they catch, filter, count and send. */
#include "check.h"
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/ip.h>
#include <netinet/udp.h>

static int open_on_lo(int type, int protocol)
{
	struct sockaddr_ll ll = { .sll_family = AF_PACKET,
				  .sll_protocol = htons(protocol),
				  .sll_ifindex = 1 };
	int fd = FD(socket(AF_PACKET, type, 0));

	TRY(bind(fd, (struct sockaddr *)&ll, sizeof(ll)));
	return fd;
}

static void next(int fd, int offset)
{
	struct sockaddr_ll ll;
	socklen_t len = sizeof(ll);
	uint8_t frame[256] = { 0 };

	TRY(recvfrom(fd, frame, sizeof(frame), 0, (struct sockaddr *)&ll, &len));
	VALUE(len);
	VALUE(ll.sll_ifindex);
	VALUE(ll.sll_hatype);
	VALUE(ll.sll_halen);
	VALUE(ll.sll_pkttype);
	printf("protocol %#x\n", ntohs(ll.sll_protocol));
	VALUE(frame[offset] >> 4);
	VALUE(frame[offset + 9] == IPPROTO_UDP);
	printf("text \"%s\"\n", (char *)frame + offset + 28);
}

int main(void)
{
	int p[2];

	begin();
	datagram_pair(AF_INET, p);
	title("SOCK_RAW");
	int raw = open_on_lo(SOCK_RAW, ETH_P_ALL);
	TRY(send(p[0], "caught", 7, 0));
	next(raw, 14); /* once on its way out, */
	next(raw, 14); /* once on its way in */

	struct tpacket_stats stats;
	socklen_t len = sizeof(stats);
	TRY(recv(raw, &stats, sizeof(stats), MSG_DONTWAIT));
	TRY(getsockopt(raw, SOL_PACKET, PACKET_STATISTICS, &stats, &len));
	VALUE(stats.tp_packets);
	VALUE(stats.tp_drops);
	TRY(getsockopt(raw, SOL_PACKET, PACKET_STATISTICS, &stats, &len));
	VALUE(stats.tp_packets);
	ROUND_TRIP(raw, SOL_PACKET, PACKET_AUXDATA, 1);
	ROUND_TRIP(raw, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1);

	title("with outgoing ones ignored");
	TRY(send(p[0], "again", 6, 0));
	next(raw, 14);
	EVENTS(raw);

	title("a filter that keeps nothing");
	struct sock_filter none = BPF_STMT(BPF_RET | BPF_K, 0);
	struct sock_fprog filter = { 1, &none };
	TRY(setsockopt(raw, SOL_SOCKET, SO_ATTACH_FILTER, &filter,
		       sizeof(filter)));
	TRY(send(p[0], "unseen", 7, 0));
	TRY(setsockopt(raw, SOL_SOCKET, SO_DETACH_FILTER, &len, sizeof(len)));
	TRY(setsockopt(raw, SOL_SOCKET, SO_DETACH_FILTER, &len, sizeof(len)));
	TRY(send(p[0], "seen", 5, 0));
	next(raw, 14);
	struct sock_filter endless = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0);
	filter.filter = &endless;
	TRY(setsockopt(raw, SOL_SOCKET, SO_ATTACH_FILTER, &filter,
		       sizeof(filter)));
	filter.len = 0;
	TRY(setsockopt(raw, SOL_SOCKET, SO_ATTACH_FILTER, &filter,
		       sizeof(filter)));

	title("SOCK_DGRAM");
	int dgram = open_on_lo(SOCK_DGRAM, ETH_P_IP);
	TRY(send(p[0], "cooked", 7, 0));
	next(dgram, 0);
	next(raw, 14);

	title("sent by hand");
	struct { struct iphdr ip; struct udphdr udp; char text[8]; } out = {
		.ip = { .version = 4, .ihl = 5, .ttl = 64,
			.protocol = IPPROTO_UDP, .tot_len = htons(sizeof(out)),
			.saddr = htonl(INADDR_LOOPBACK),
			.daddr = htonl(INADDR_LOOPBACK) },
		.udp = { .source = htons(port_of(p[0])),
			 .dest = htons(port_of(p[1])),
			 .len = htons(16) },
		.text = "by hand",
	};
	uint32_t sum = 0;
	for (int i = 0; i < 10; i++)
		sum += ((uint16_t *)&out.ip)[i];
	sum = (sum >> 16) + (sum & 0xffff);
	out.ip.check = ~(sum + (sum >> 16));
	struct sockaddr_ll to = { .sll_family = AF_PACKET, .sll_halen = 6,
				  .sll_protocol = htons(ETH_P_IP),
				  .sll_ifindex = 1 };
	TRY(sendto(dgram, &out, sizeof(out), 0, (void *)&to, sizeof(to)));
	next(raw, 14);

	title("errors");
	to.sll_ifindex = 77;
	TRY(sendto(dgram, &out, sizeof(out), 0, (void *)&to, sizeof(to)));
	TRY(bind(dgram, (void *)&to, sizeof(to)));
	TRY(bind(dgram, (void *)&to, 4));
	TRY(send(raw, "short", 5, 0));
	TRY(connect(raw, (void *)&to, sizeof(to)));
	TRY(listen(raw, 1));
	TRY(socket(AF_PACKET, SOCK_STREAM, 0));
	return 0;
}
