// SPDX-License-Identifier: GPL-2.0
/*
 * An app whose TCP is lwIP's, as Debian's liblwip-dev has it, so that Linux's TCP
 * meets one more that is not Linux's. It is on a packet socket (packet(7)) of
 * eth0, which has no address: the machine's own stack says nothing there.
 *
 *	cc -shared -fPIC -I/usr/include/lwip -o lwip.so lwip.c -llwip
 *
 *	lwip.so ADDRESS/LENGTH listen PORT SIZE
 *	lwip.so ADDRESS/LENGTH connect ADDRESS PORT SIZE
 *
 * listen receives until the end of the stream and closes; connect sends and
 * closes. The stream is what the app "steps" sends: another one, or a reset, is a
 * failure, exit status 1. Addresses are IPv4 or IPv6. lwIP has one instance in a
 * process, so a worker has one such app at a time.
 */
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <vink/app.h>

#include <lwip/etharp.h>
#include <lwip/ethip6.h>
#include <lwip/inet_chksum.h>
#include <lwip/init.h>
#include <lwip/ip.h>
#include <lwip/netif.h>
#include <lwip/priv/tcp_priv.h>
#include <lwip/prot/tcp.h>
#include <lwip/sys.h>
#include <lwip/tcp.h>
#include <lwip/timeouts.h>
#include <netif/ethernet.h>

/* The longest frame that lwIP takes. */
#define FRAME		65535
#define MTU		1500

static const struct vink_app *app;
static int link_socket;

/* What has gone over the connection. */
static struct {
	size_t size;		/* bytes that are wanted */
	size_t done;		/* bytes that have gone */
	bool is_wrong;		/* one of them was another, or too many */
	bool has_ended;		/* the other end has closed */
	bool is_closed;		/* this end has closed */
	bool is_reset;
} stream;

/*
 * What lwIP asks its operating system for. These take the place of the library's
 * own, which go by threads and the host's clock.
 */

u32_t sys_now(void)
{
	struct timespec now;

	app->clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

sys_prot_t sys_arch_protect(void)
{
	return 0;
}

void sys_arch_unprotect(sys_prot_t before)
{
}

void sys_check_core_locking(void)
{
}

/* The byte at a place of all that "steps" sends. */
static unsigned char byte_at(size_t at)
{
	return (at * 0x9e3779b97f4a7c15ull) >> 56;
}

static err_t receives(void *arg, struct tcp_pcb *pcb, struct pbuf *data, err_t error)
{
	struct pbuf *part;
	size_t i;

	if (!data) {
		stream.has_ended = true;
		stream.is_closed = true;
		return tcp_close(pcb);
	}
	for (part = data; part; part = part->next) {
		for (i = 0; i < part->len; i++, stream.done++) {
			unsigned char found = ((unsigned char *)part->payload)[i];

			if (stream.done >= stream.size || found != byte_at(stream.done))
				stream.is_wrong = true;
		}
	}
	tcp_recved(pcb, data->tot_len);
	pbuf_free(data);
	return ERR_OK;
}

/* As much as there is room for, and the end behind the last byte. */
static err_t sends(struct tcp_pcb *pcb)
{
	unsigned char data[1024];

	while (stream.done < stream.size && tcp_sndbuf(pcb)) {
		size_t left = stream.size - stream.done, i;
		size_t len = LWIP_MIN(left, LWIP_MIN(sizeof(data), tcp_sndbuf(pcb)));

		for (i = 0; i < len; i++)
			data[i] = byte_at(stream.done + i);
		if (tcp_write(pcb, data, len, TCP_WRITE_FLAG_COPY) != ERR_OK)
			break;
		stream.done += len;
	}
	if (stream.done == stream.size && !stream.is_closed) {
		stream.is_closed = true;
		return tcp_close(pcb);
	}
	return tcp_output(pcb);
}

static err_t sent(void *arg, struct tcp_pcb *pcb, u16_t len)
{
	return sends(pcb);
}

static err_t connected(void *arg, struct tcp_pcb *pcb, err_t error)
{
	return sends(pcb);
}

/* The connection is gone, its pcb too. */
static void fails(void *arg, err_t error)
{
	stream.is_reset = true;
	stream.is_closed = true;
}

/* What the other end of a sender says: nothing but its end. */
static err_t hears(void *arg, struct tcp_pcb *pcb, struct pbuf *data, err_t error)
{
	if (!data) {
		stream.has_ended = true;
		return ERR_OK;
	}
	stream.is_wrong = true;
	tcp_recved(pcb, data->tot_len);
	pbuf_free(data);
	return ERR_OK;
}

static err_t accepts(void *arg, struct tcp_pcb *pcb, err_t error)
{
	struct tcp_pcb *listener = arg;

	if (error != ERR_OK)
		return error;
	tcp_recv(pcb, receives);
	tcp_err(pcb, fails);
	/* One connection is all. */
	tcp_close(listener);
	return ERR_OK;
}

static err_t transmits(struct netif *netif, struct pbuf *frame)
{
	static unsigned char data[FRAME];
	u16_t len = pbuf_copy_partial(frame, data, sizeof(data), 0);

	/* A queue that is full loses it, as a wire may. */
	return app->send(link_socket, data, len, 0) < 0 && errno != ENOBUFS ? ERR_IF : ERR_OK;
}

static err_t has_interface(struct netif *netif)
{
	netif->name[0] = 'e';
	netif->name[1] = 'n';
	netif->mtu = MTU;
	netif->output = etharp_output;
	netif->output_ip6 = ethip6_output;
	netif->linkoutput = transmits;
	netif->flags = NETIF_FLAG_BROADCAST | NETIF_FLAG_ETHARP | NETIF_FLAG_ETHERNET |
		       NETIF_FLAG_LINK_UP | NETIF_FLAG_MLD6;
	return ERR_OK;
}

/* Opens the packet socket of eth0, and learns the hardware address. */
static int opens(struct netif *netif)
{
	struct sockaddr_ll at = {
		.sll_family	= AF_PACKET,
		.sll_protocol	= PP_HTONS(ETH_P_ALL),
	};
	struct ifreq request = { .ifr_name = "eth0" };
	int yes = 1;

	link_socket = app->socket(AF_PACKET, SOCK_RAW, PP_HTONS(ETH_P_ALL));
	if (link_socket < 0 || app->ioctl(link_socket, SIOCGIFINDEX, &request) < 0)
		return -1;
	at.sll_ifindex = request.ifr_ifindex;
	if (app->ioctl(link_socket, SIOCGIFHWADDR, &request) < 0)
		return -1;
	netif->hwaddr_len = ETH_HWADDR_LEN;
	memcpy(netif->hwaddr, request.ifr_hwaddr.sa_data, ETH_HWADDR_LEN);
	app->setsockopt(link_socket, SOL_PACKET, PACKET_IGNORE_OUTGOING, &yes, sizeof(yes));
	app->setsockopt(link_socket, SOL_PACKET, PACKET_AUXDATA, &yes, sizeof(yes));
	return app->bind(link_socket, (void *)&at, sizeof(at));
}

/*
 * A sender of the lab leaves TCP's checksum to its interface, which leaves it out.
 * lwIP looks at it in each packet, so it is filled in.
 */
static void fills_checksum(struct pbuf *frame)
{
	unsigned char *ip = (unsigned char *)frame->payload + SIZEOF_ETH_HDR;
	struct ip_hdr *four = (struct ip_hdr *)ip;
	struct ip6_hdr *six = (struct ip6_hdr *)ip;
	bool is_six = IPH_V(four) == 6;
	u16_t skip = SIZEOF_ETH_HDR + (is_six ? IP6_HLEN : IPH_HL_BYTES(four));
	struct tcp_hdr *tcp = (struct tcp_hdr *)((unsigned char *)frame->payload + skip);
	ip_addr_t from, to;

	if ((is_six ? IP6H_NEXTH(six) : IPH_PROTO(four)) != IP_PROTO_TCP ||
	    frame->len < skip + TCP_HLEN)
		return;
	if (is_six) {
		ip_addr_copy_from_ip6_packed(from, six->src);
		ip_addr_copy_from_ip6_packed(to, six->dest);
	} else {
		ip_addr_copy_from_ip4(from, four->src);
		ip_addr_copy_from_ip4(to, four->dest);
	}
	pbuf_remove_header(frame, skip);
	tcp->chksum = 0;
	tcp->chksum = ip_chksum_pseudo(frame, IP_PROTO_TCP, frame->tot_len, &from, &to);
	pbuf_add_header(frame, skip);
}

/* Gives lwIP a frame that has come. Whether there was one. */
static bool takes_frame(struct netif *netif)
{
	static unsigned char data[FRAME];
	char control[CMSG_SPACE(sizeof(struct tpacket_auxdata))];
	struct iovec place = { data, sizeof(data) };
	struct msghdr message = {
		.msg_iov	= &place,
		.msg_iovlen	= 1,
		.msg_control	= control,
		.msg_controllen	= sizeof(control),
	};
	ssize_t len = app->recvmsg(link_socket, &message, MSG_DONTWAIT);
	struct cmsghdr *part;
	struct pbuf *frame;

	if (len < SIZEOF_ETH_HDR + IP_HLEN)
		return len >= 0;
	/* In one piece, as fills_checksum() has it. */
	frame = pbuf_alloc(PBUF_RAW, len, PBUF_RAM);
	if (!frame)
		return true;
	pbuf_take(frame, data, len);
	for (part = CMSG_FIRSTHDR(&message); part; part = CMSG_NXTHDR(&message, part)) {
		struct tpacket_auxdata *about = (void *)CMSG_DATA(part);

		if (part->cmsg_level == SOL_PACKET && part->cmsg_type == PACKET_AUXDATA &&
		    about->tp_status & TP_STATUS_CSUMNOTREADY)
			fills_checksum(frame);
	}
	if (netif->input(frame, netif) != ERR_OK)
		pbuf_free(frame);
	return true;
}

/* Runs the stack until its connections are gone. */
static int runs(struct netif *netif)
{
	while (!stream.is_closed || tcp_active_pcbs || tcp_tw_pcbs) {
		struct pollfd fd = { .fd = link_socket, .events = POLLIN };

		sys_check_timeouts();
		if (app->poll(&fd, 1, sys_timeouts_sleeptime()) < 0)
			return 1;
		while (takes_frame(netif))
			;
	}
	vink_app_printf(app, "%zu of %zu bytes, %s\n", stream.done, stream.size,
			stream.is_wrong ? "not as they were sent" :
			stream.has_ended && !stream.is_reset ? "to the end" : "and no end");
	return stream.is_wrong || stream.is_reset || !stream.has_ended ||
	       stream.done != stream.size;
}

/* Adds the interface, with its address. IPv6 prefixes are of 64 bits in lwIP. */
static bool adds_interface(struct netif *netif, const ip_addr_t *own, int length)
{
	ip4_addr_t mask;

	if (IP_IS_V6(own)) {
		s8_t place;

		if (!netif_add_noaddr(netif, NULL, has_interface, ethernet_input) ||
		    netif_add_ip6_address(netif, ip_2_ip6(own), &place) != ERR_OK)
			return false;
		/* No duplicate address detection, as on the machines of a lab. */
		netif_ip6_addr_set_state(netif, place, IP6_ADDR_PREFERRED);
	} else {
		ip4_addr_set_u32(&mask, lwip_htonl(~0ul << (32 - length)));
		if (!netif_add(netif, ip_2_ip4(own), &mask, IP4_ADDR_ANY4, NULL, has_interface,
			       ethernet_input))
			return false;
	}
	netif_set_default(netif);
	netif_set_up(netif);
	return true;
}

static int usage(void)
{
	app->print("lwip.so ADDRESS/LENGTH listen PORT SIZE\n"
		   "lwip.so ADDRESS/LENGTH connect ADDRESS PORT SIZE\n");
	return 2;
}

int vink_app_main(const struct vink_app *table, int argc, char **argv)
{
	static struct netif netif;
	unsigned int seed;
	char *slash = argc > 1 ? strchr(argv[1], '/') : NULL;
	bool listens = argc == 5 && strcmp(argv[2], "listen") == 0;
	struct tcp_pcb *pcb;
	ip_addr_t own, to;

	app = table;
	if (!slash || !(listens || (argc == 6 && strcmp(argv[2], "connect") == 0)))
		return usage();
	*slash = '\0';
	if (!ipaddr_aton(argv[1], &own) || (!listens && !ipaddr_aton(argv[3], &to)))
		return usage();
	if (app->syscall(SYS_getrandom, (long)&seed, sizeof(seed), 0, 0, 0, 0) < 0 ||
	    opens(&netif) < 0) {
		vink_app_printf(app, "eth0: %s\n", strerror(errno));
		return 1;
	}
	/* Its port and its initial sequence number. */
	srand(seed);
	memset(&stream, 0, sizeof(stream));
	stream.size = atol(argv[argc - 1]);
	lwip_init();
	if (!adds_interface(&netif, &own, atoi(slash + 1))) {
		app->print("eth0: lwIP does not take it\n");
		return 1;
	}
	pcb = tcp_new_ip_type(IP_GET_TYPE(&own));
	if (listens) {
		tcp_bind(pcb, IP_ANY_TYPE, atoi(argv[3]));
		pcb = tcp_listen(pcb);
		tcp_arg(pcb, pcb);
		tcp_accept(pcb, accepts);
	} else {
		tcp_recv(pcb, hears);
		tcp_sent(pcb, sent);
		tcp_err(pcb, fails);
		tcp_connect(pcb, &to, atoi(argv[4]), connected);
	}
	app->ready();
	return runs(&netif);
}
