/* Rings of packet sockets in the program's memory, of every version; sending from one. */
#include "check.h"
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { BLOCK = 8192, BLOCKS = 4, FRAME = 2048, FRAMES = BLOCKS * BLOCK / FRAME };

static int sender[2];

/* An Ethernet frame with this text in an IPv4 datagram from one sender to the other. */
static const char *text_of(const void *frame)
{
	return (const char *)frame + ETH_HLEN + 28;
}

static void send_text(const char *text)
{
	MUST(send(sender[0], text, strlen(text) + 1, 0));
}

/* Catches what arrives at lo, once. */
static int open_socket(int version)
{
	struct sockaddr_ll ll = { .sll_family = AF_PACKET,
				  .sll_protocol = htons(ETH_P_IP),
				  .sll_ifindex = 1 };
	int fd = MUST(socket(AF_PACKET, SOCK_RAW, 0));

	set_int(fd, SOL_PACKET, PACKET_VERSION, version);
	set_int(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1);
	MUST(bind(fd, (struct sockaddr *)&ll, sizeof(ll)));
	return fd;
}

static int set_ring(int fd, int option, int blocks)
{
	struct tpacket_req3 req = { .tp_block_size = BLOCK,
				    .tp_block_nr = blocks,
				    .tp_frame_size = FRAME,
				    .tp_frame_nr = blocks * BLOCK / FRAME };

	if (option == PACKET_RX_RING && blocks &&
	    get_int(fd, SOL_PACKET, PACKET_VERSION) == TPACKET_V3)
		req.tp_retire_blk_tov = 10;
	return setsockopt(fd, SOL_PACKET, option, &req, sizeof(req));
}

static void *map(int fd, size_t len, off_t offset)
{
	void *ring = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			  offset);

	return ring == MAP_FAILED ? NULL : ring;
}

static void show(unsigned status, unsigned len, unsigned snaplen,
		 const void *frame, const struct sockaddr_ll *ll)
{
	printf("status %#x, %u of %u bytes, type %d, interface %d: \"%s\"\n",
	       status & (TP_STATUS_USER | TP_STATUS_COPY | TP_STATUS_LOSING),
	       snaplen, len, ll->sll_pkttype, ll->sll_ifindex, text_of(frame));
}

/* Takes one packet out of a ring of version 1 or 2. */
static void take(int version, int fd, char *ring, int n)
{
	char *frame = ring + n % FRAMES * FRAME;

	if (version == TPACKET_V1) {
		struct tpacket_hdr *h = (void *)frame;

		WAIT(fd, POLLIN);
		show(h->tp_status, h->tp_len, h->tp_snaplen, frame + h->tp_mac,
		     (void *)(frame + TPACKET_ALIGN(sizeof(*h))));
		h->tp_status = TP_STATUS_KERNEL;
	} else {
		struct tpacket2_hdr *h = (void *)frame;

		WAIT(fd, POLLIN);
		show(h->tp_status, h->tp_len, h->tp_snaplen, frame + h->tp_mac,
		     (void *)(frame + TPACKET_ALIGN(sizeof(*h))));
		h->tp_status = TP_STATUS_KERNEL;
	}
}

/* Takes the packets of one block of a ring of version 3: how many. */
static int take_block(int fd, char *ring, int n)
{
	struct tpacket_block_desc *block = (void *)(ring + n % BLOCKS * BLOCK);
	struct tpacket_hdr_v1 *h = &block->hdr.bh1;
	struct tpacket3_hdr *packet;

	WAIT(fd, POLLIN);
	packet = (void *)((char *)block + h->offset_to_first_pkt);
	for (unsigned i = 0; i < h->num_pkts; i++) {
		show(h->block_status, packet->tp_len, packet->tp_snaplen,
		     (char *)packet + packet->tp_mac,
		     (void *)((char *)packet + TPACKET_ALIGN(sizeof(*packet))));
		packet = (void *)((char *)packet + packet->tp_next_offset);
	}
	h->block_status = TP_STATUS_KERNEL;
	return h->num_pkts;
}

static void receive(int version)
{
	int fd = open_socket(version), blocks = 0;
	struct stat st;
	char *ring;

	printf("-- receiving, version %d\n", version + 1);
	VALUE(map(fd, BLOCK, 0) != NULL);
	TRY(set_ring(fd, PACKET_RX_RING, BLOCKS));
	TRY(set_ring(fd, PACKET_RX_RING, BLOCKS));
	VALUE(map(fd, BLOCK, 0) != NULL);
	VALUE(map(fd, BLOCKS * BLOCK, BLOCK) != NULL);
	MUST(fcntl(fd, F_SETFD, FD_CLOEXEC));
	ring = map(fd, BLOCKS * BLOCK - 1, 0);
	VALUE(ring != NULL);
	VALUE(fcntl(fd, F_GETFD));
	MUST(fstat(fd, &st));
	VALUE(S_ISSOCK(st.st_mode));
	EVENTS(fd);

	/* Twice around the ring. */
	for (int n = 0; n < 2 * FRAMES + 1; n++) {
		char text[32];

		snprintf(text, sizeof(text), "packet %d", n);
		send_text(text);
		if (version == TPACKET_V3)
			while (take_block(fd, ring, blocks++) == 0)
				;
		else
			take(version, fd, ring, n);
	}
	EVENTS(fd);

	title("not to be changed as long as it is mapped");
	TRY(set_ring(fd, PACKET_RX_RING, 0));
	TRY(set_ring(fd, PACKET_TX_RING, BLOCKS));
	TRY(munmap(ring, BLOCKS * BLOCK));
	TRY(set_ring(fd, PACKET_RX_RING, 0));
	TRY(set_ring(fd, PACKET_RX_RING, 2));
	ring = map(fd, 2 * BLOCK, 0);
	VALUE(ring != NULL);
	MUST(close(fd));
	MUST(munmap(ring, 2 * BLOCK));
}

/* A child inherits the mapping, and it alone keeps the socket open. */
static void share(void)
{
	int fd = open_socket(TPACKET_V2), told[2], go[2];
	volatile struct tpacket2_hdr *h;
	char *ring, byte = 0;
	pid_t pid;

	title("shared, and closed");
	MUST(set_ring(fd, PACKET_RX_RING, BLOCKS));
	ring = map(fd, BLOCKS * BLOCK, 0);
	h = (void *)ring;
	MUST(pipe(told));
	MUST(pipe(go));
	pid = child();
	if (!pid) {
		MUST(close(fd));
		MUST(write(told[1], &byte, 1));
		MUST(read(go[0], &byte, 1));
		VALUE(h->tp_status & TP_STATUS_USER);
		printf("\"%s\"\n", text_of(ring + h->tp_mac));
		exit(0);
	}
	MUST(read(told[0], &byte, 1));
	MUST(close(fd));
	MUST(munmap(ring, BLOCKS * BLOCK));
	send_text("to the child");
	MUST(write(go[1], &byte, 1));
	join(pid);
}

/* An epoll set sees that packets were taken, though no call says so. */
static void level(void)
{
	int fd = open_socket(TPACKET_V2), set = MUST(epoll_create1(0));
	struct epoll_event event = { .events = EPOLLIN };
	char *ring;

	title("in an epoll set");
	MUST(set_ring(fd, PACKET_RX_RING, BLOCKS));
	MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
	ring = map(fd, BLOCKS * BLOCK, 0);
	VALUE(epoll_wait(set, &event, 1, 0));
	for (int n = 0; n < 3; n++) {
		int left = 2000;

		send_text("to be waited for");
		VALUE(epoll_wait(set, &event, 1, 2000));
		((struct tpacket2_hdr *)(ring + n * FRAME))->tp_status =
			TP_STATUS_KERNEL;
		while (epoll_wait(set, &event, 1, 0) && left--)
			usleep(1000);
		VALUE(epoll_wait(set, &event, 1, 0));
	}
	MUST(close(fd));
	MUST(close(set));
	MUST(munmap(ring, BLOCKS * BLOCK));
}

/* A receive ring and a transmit ring behind it, in one mapping. */
static void transmit(void)
{
	int fd = open_socket(TPACKET_V2), other = open_socket(TPACKET_V2);
	char *ring, frame[FRAME];
	ssize_t len;

	title("sending");
	send_text("once more");
	len = MUST(recv(other, frame, sizeof(frame), 0));
	memcpy(frame + ETH_HLEN + 28, "out of a ring", 10);
	TRY(set_ring(fd, PACKET_TX_RING, BLOCKS));
	TRY(set_ring(fd, PACKET_RX_RING, 2));
	ring = map(fd, (2 + BLOCKS) * BLOCK, 0);
	VALUE(ring != NULL);
	for (int n = 0; n < FRAMES + 3; n++) {
		char *slot = ring + 2 * BLOCK + n % FRAMES * FRAME;
		volatile struct tpacket2_hdr *h = (void *)slot;

		WAIT(fd, POLLOUT);
		VALUE(h->tp_status);
		snprintf(frame + ETH_HLEN + 28, 10, "%d sent", n);
		memcpy(slot + TPACKET2_HDRLEN - sizeof(struct sockaddr_ll),
		       frame, len);
		h->tp_len = len;
		h->tp_status = TP_STATUS_SEND_REQUEST;
		TRY(send(fd, NULL, 0, 0));
		MUST(recv(other, frame, sizeof(frame), 0));
		printf("\"%s\"\n", text_of(frame));
	}
	MUST(close(fd));
	MUST(close(other));
	MUST(munmap(ring, (2 + BLOCKS) * BLOCK));
}

int main(void)
{
	begin();
	datagram_pair(AF_INET, sender);
	for (int version = TPACKET_V1; version <= TPACKET_V3; version++)
		receive(version);
	share();
	level();
	transmit();

	title("no packet sockets");
	VALUE(map(sender[0], BLOCK, 0) != NULL);
	int fd = MUST(socket(AF_PACKET, SOCK_RAW, 0));
	TRY(set_ring(fd, PACKET_RX_RING, 1));
	struct tpacket_req req = { .tp_block_size = 100, .tp_block_nr = 1 };
	TRY(setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &req, sizeof(req)));
	TRY(mmap(NULL, BLOCK, PROT_READ, MAP_SHARED, NO_FD, 0) == MAP_FAILED);
	return 0;
}
