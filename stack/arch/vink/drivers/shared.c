// SPDX-License-Identifier: GPL-2.0
/*
 * An end of a wire whose other end is in another process.
 *
 * What the wire carries there is copied into a ring in memory that both
 * processes have mapped, whole, with a header that says what is left to be done
 * for it (virtio_net.h); what the other process has put into the second ring is
 * copied out of it, and sent by this end. That has an interface, in the initial
 * namespace, which sees neither: it is there for the queue of a wire that is not
 * ideal, and to be up as long as the other process is there.
 *
 * Nothing interrupts: the rings are looked at when the timer is. A frame for which
 * there is no room waits, and so does the socket that sent it, until half of the
 * ring is free. Both sides' hosts can sleep: a side that finds the other one asleep
 * and has something for it rings its bell.
 *
 * Frames that no socket here waits for, as a bridge's, have come from other
 * processes, and would fill the arena if the one they are for does not read. They
 * share a part of it: an end's may have as many bytes as are still free, so that
 * there is always room for those of the others.
 *
 * The other process is not trusted. Its counters must make sense and nothing is
 * read twice; a frame is looked at when it has been copied.
 */

#include <linux/etherdevice.h>
#include <linux/hardirq.h>
#include <linux/slab.h>
#include <linux/virtio_net.h>
#include <net/gso.h>

#include "vx.h"

/* Beside what an interface sends whole: headers, and tags in front of them. */
#define BESIDE		64
/* The least that the other side may say it takes. */
#define LEAST		(65536 + BESIDE)
/* Packets that wait for room: more are lost. */
#define MOST_WAITING	4096
/* Of the arena, for those that no socket waits for: a quarter. */
#define POOL_SHIFT	2
/*
 * What is taken from all ends before the host has its turn. Sides that send on
 * and on would keep the kernel from becoming idle, and what reads from running:
 * so many frames fit into a socket's buffer, by default. Threads of the host that
 * wait for this one's processor have it in the host's turn.
 */
#define TURN_FRAMES	64
#define TURN_BYTES	(256U << 10)
/* What is taken from one end before the others have theirs. */
#define WEIGHT		32
#define WEIGHT_BYTES	(128U << 10)
/* What is copied before the rest is: all headers. */
#define HEADERS		256
/*
 * The most that a packet has room for beside its headers. Its last fragments are
 * the smaller ones: of orders below that of the others, one each.
 */
#define ROOM								\
	((MAX_SKB_FRAGS - PAGE_ALLOC_COSTLY_ORDER + 1) *		\
	 (PAGE_SIZE << PAGE_ALLOC_COSTLY_ORDER))

struct vx_shared {
	struct vx_end *end;
	struct list_head list;
	struct napi_struct napi;
	struct vink_share at;
	u64 head;			/* of at.out, all that was put there */
	u64 tail;			/* of at.in, all that was taken */
	struct sk_buff_head waiting;
	u64 pooled;			/* bytes of these that no socket waits for */
	bool spoiled;
};

/* The one that had nothing for the longest time first. */
static LIST_HEAD(all);
static u64 all_pooled;
static u64 turn;			/* vink_entries, of these counts */
static u32 turn_frames;
static u32 turn_bytes;

/* The other side is another processor. */
static void full_fence(void)
{
	asm volatile("lock; addl $0, -4(%%rsp)" : : : "memory", "cc");
}

static void spoil(struct vx_shared *shared)
{
	shared->spoiled = true;
	vink_ops->bell(vink_host, shared->at.cookie, 1);
}

/* Has the host of the other side look, if it sleeps, and does not know. */
static void ring(struct vx_shared *shared)
{
	full_fence();
	if (!READ_ONCE(shared->at.out->asleep))
		return;
	WRITE_ONCE(shared->at.out->asleep, 0);
	vink_ops->bell(vink_host, shared->at.cookie, 0);
}

/* Bytes that have not been taken out yet, of what was put in. */
static u64 on_way(struct vx_shared *shared)
{
	u64 bytes = shared->head - READ_ONCE(shared->at.out->tail);

	/* What the other side took out is copied before this writes over it. */
	barrier();
	if (bytes > shared->at.size) {
		spoil(shared);
		return shared->at.size;
	}
	return bytes;
}

static void *place(void *bytes, u64 size, u64 count)
{
	return bytes + (count & (size - 1));
}

static u64 room_of(u32 len)
{
	return ALIGN(sizeof(struct vink_frame) + (u64)len, 8);
}

/* The largest frame that this side takes. */
static u32 largest(struct vx_shared *shared)
{
	u32 whole = READ_ONCE(shared->end->dev->gso_ipv4_max_size);

	return min_t(u32, whole + BESIDE, HEADERS + ROOM);
}

/* The largest that the other side takes. */
static u32 most(struct vx_shared *shared)
{
	return max_t(u32, READ_ONCE(shared->at.out->most), LEAST);
}

/* Copies a frame into the ring; false if there is no room. It may be no frame. */
static bool put(struct vx_shared *shared, struct sk_buff *skb)
{
	struct vink_share *at = &shared->at;
	struct virtio_net_hdr header;
	struct vink_frame *frame;

	if (room_of(skb->len) > at->size - on_way(shared))
		return false;
	frame = place(at->out_bytes, at->size, shared->head);
	BUILD_BUG_ON(sizeof(header) > sizeof(frame->header));
	if (virtio_net_hdr_from_skb(skb, &header, true, true, 0) ||
	    skb_copy_bits(skb, 0, frame + 1, skb->len))
		return true;
	frame->len = skb->len;
	memcpy(frame->header, &header, sizeof(header));
	shared->head += room_of(skb->len);
	/* First the frame, then the news. */
	barrier();
	WRITE_ONCE(at->out->head, shared->head);
	ring(shared);
	return true;
}

static bool may_wait(struct vx_shared *shared, struct sk_buff *skb)
{
	u64 pool = (u64)totalram_pages() << (PAGE_SHIFT - POOL_SHIFT);

	return skb_queue_len(&shared->waiting) < MOST_WAITING &&
	       (skb->sk ||
		shared->pooled + all_pooled + skb->truesize <= pool);
}

static void wait(struct vx_shared *shared, struct sk_buff *skb)
{
	u32 bytes = skb->sk ? 0 : skb->truesize;

	shared->pooled += bytes;
	all_pooled += bytes;
	__skb_queue_tail(&shared->waiting, skb);
}

static struct sk_buff *waited(struct vx_shared *shared)
{
	struct sk_buff *skb = __skb_dequeue(&shared->waiting);
	u32 bytes = !skb || skb->sk ? 0 : skb->truesize;

	shared->pooled -= bytes;
	all_pooled -= bytes;
	return skb;
}

/* Sends what has waited, when it is worth while. */
static bool may_go_on(struct vx_shared *shared)
{
	return !skb_queue_empty(&shared->waiting) &&
	       on_way(shared) <= shared->at.size / 2;
}

static void go_on(struct vx_shared *shared)
{
	struct sk_buff *skb;

	while ((skb = skb_peek(&shared->waiting)) && put(shared, skb))
		consume_skb(waited(shared));
	WRITE_ONCE(shared->at.out->starved, !skb_queue_empty(&shared->waiting));
}

static void send(struct vx_shared *shared, struct sk_buff *skb)
{
	if (unlikely(shared->spoiled)) {
		vx_lose(shared->end, skb, VINK_LOST_DOWN);
	} else if (skb_queue_empty(&shared->waiting) && put(shared, skb)) {
		consume_skb(skb);
	} else if (may_wait(shared, skb)) {
		skb_dst_drop(skb);
		wait(shared, skb);
		WRITE_ONCE(shared->at.out->starved, 1);
	} else {
		vx_lose(shared->end, skb, VINK_LOST_LIMIT);
	}
}

static bool goes_whole(struct vx_shared *shared, struct sk_buff *skb)
{
	const int types = SKB_GSO_TCPV4 | SKB_GSO_TCPV6 | SKB_GSO_UDP_L4 |
			  SKB_GSO_TCP_ECN | SKB_GSO_DODGY | SKB_GSO_TCP_FIXEDID;

	return skb->len <= most(shared) &&
	       (!skb_is_gso(skb) || !(skb_shinfo(skb)->gso_type & ~types));
}

/* What the wire carries to this end. */
void vx_shared_send(struct vx_end *end, struct sk_buff *skb)
{
	struct vx_shared *shared = end->shared;
	struct sk_buff *next;

	skb_reset_mac_header(skb);
	vx_trace(end, VINK_PACKET_ARRIVAL, 0, skb);
	end->stats.received++;
	end->stats.received_bytes += skb->len;
	/* Of what is in the header, a checksum that is not TCP's is not. */
	if (skb->ip_summed == CHECKSUM_PARTIAL &&
	    skb_csum_hwoffload_help(skb, NETIF_F_HW_CSUM)) {
		vx_lose(end, skb, VINK_LOST_LIMIT);
		return;
	}
	if (goes_whole(shared, skb)) {
		send(shared, skb);
		return;
	}
	next = skb_gso_segment(skb, NETIF_F_SG | NETIF_F_HW_CSUM);
	if (IS_ERR_OR_NULL(next)) {
		vx_lose(end, skb, VINK_LOST_MTU);
		return;
	}
	consume_skb(skb);
	while (next) {
		skb = next;
		next = skb->next;
		skb_mark_not_on_list(skb);
		if (goes_whole(shared, skb))
			send(shared, skb);
		else
			vx_lose(end, skb, VINK_LOST_MTU);
	}
}

/* The packet that a frame in the ring is; NULL: memory is short, or it is none. */
static struct sk_buff *packet_of(struct vx_shared *shared,
				 const struct vink_frame *frame, u32 len)
{
	struct net_device *dev = shared->end->dev;
	struct virtio_net_hdr header;
	struct sk_buff *skb;
	u32 linear;
	int err;

	memcpy(&header, frame->header, sizeof(header));
	if (len <= PAGE_SIZE - SKB_WITH_OVERHEAD(0) - NET_SKB_PAD) {
		skb = napi_alloc_skb(&shared->napi, len);
		linear = len;
	} else {
		linear = HEADERS;
		skb = alloc_skb_with_frags(NET_SKB_PAD + linear, len - linear,
					   PAGE_ALLOC_COSTLY_ORDER, &err,
					   GFP_ATOMIC | __GFP_NOWARN);
		if (skb)
			skb_reserve(skb, NET_SKB_PAD);
	}
	if (!skb)
		return NULL;
	skb_put(skb, linear);
	skb->data_len = len - linear;
	skb->len = len;
	skb->dev = dev;
	if (skb_store_bits(skb, 0, frame + 1, len) ||
	    virtio_net_hdr_to_skb(skb, &header, true)) {
		kfree_skb(skb);
		return NULL;
	}
	if (header.flags & VIRTIO_NET_HDR_F_DATA_VALID)
		skb->ip_summed = CHECKSUM_UNNECESSARY;
	skb_reset_mac_header(skb);
	skb->protocol = eth_hdr(skb)->h_proto;
	skb_set_network_header(skb, ETH_HLEN);
	return skb;
}

/* Whether what is left has to wait for the host's turn to be over. */
static bool turn_is_over(void)
{
	if (turn != vink_entries) {
		turn = vink_entries;
		turn_frames = 0;
		turn_bytes = 0;
	}
	return turn_frames >= TURN_FRAMES || turn_bytes >= TURN_BYTES;
}

/* Takes a frame out: its bytes, or 0 if there is none. */
static u32 take(struct vx_shared *shared)
{
	struct vink_share *at = &shared->at;
	struct net_device *dev = shared->end->dev;
	const struct vink_frame *frame;
	u64 there = READ_ONCE(at->inward->head) - shared->tail;
	struct sk_buff *skb;
	u32 len;

	if (!there || shared->spoiled)
		return 0;
	/* First the news, then the frame. */
	barrier();
	frame = place(at->in_bytes, at->size, shared->tail);
	len = READ_ONCE(frame->len);
	if (there > at->size || there < sizeof(*frame) || there & 7 ||
	    len < ETH_HLEN || len > largest(shared) ||
	    room_of(len) > there) {
		spoil(shared);
		return 0;
	}
	turn_frames++;
	turn_bytes += len;
	skb = packet_of(shared, frame, len);
	shared->tail += room_of(len);
	barrier();
	WRITE_ONCE(at->inward->tail, shared->tail);
	if (!skb) {
		shared->end->stats.lost_limit++;
		return len;
	}
	if (likely(!shared->end->busy)) {
		vx_at_once = shared->end->to;
		dev->netdev_ops->ndo_start_xmit(skb, dev);
		vx_at_once = false;
	} else {
		dev_queue_xmit(skb);
	}
	return len;
}

static bool has_frames(struct vx_shared *shared)
{
	return READ_ONCE(shared->at.inward->head) != shared->tail;
}

static bool pending(struct vx_shared *shared)
{
	return !shared->spoiled &&
	       ((has_frames(shared) && !turn_is_over()) ||
		may_go_on(shared)) &&
	       !test_bit(NAPI_STATE_SCHED, &shared->napi.state);
}

/* Has those polled that have frames waiting, in the order of their last polls. */
static void schedule_pending(void)
{
	struct vx_shared *shared;

	list_for_each_entry(shared, &all, list)
		if (pending(shared))
			napi_schedule(&shared->napi);
}

static int poll(struct napi_struct *napi, int budget)
{
	struct vx_shared *shared = container_of(napi, struct vx_shared, napi);
	struct vink_pipe *in = shared->at.inward;
	u32 len, bytes = 0;
	int done = 0;

	list_move_tail(&shared->list, &all);
	if (READ_ONCE(in->asleep))
		WRITE_ONCE(in->asleep, 0);
	go_on(shared);
	while (done < budget && !turn_is_over() && (len = take(shared))) {
		bytes += len;
		/* As many as it may, the kernel is told: there are more. */
		done = bytes < WEIGHT_BYTES ? done + 1 : budget;
	}
	if (READ_ONCE(in->starved) &&
	    READ_ONCE(in->head) - shared->tail <= shared->at.size / 2)
		ring(shared);
	if (done < budget)
		napi_complete_done(napi, done);
	else
		schedule_pending();
	return done;
}

/* There may be none: then the host comes back once in vain. */
bool vink_frames_left(void)
{
	return turn_is_over();
}

bool vink_frames_pending(void)
{
	struct vx_shared *shared;

	if (vx_put_pending())
		return true;
	list_for_each_entry(shared, &all, list)
		if (pending(shared))
			return true;
	return false;
}

/* With interrupts off, as an interrupt would find them. */
void vink_frames_interrupt(void)
{
	irq_enter();
	if (vx_put_pending())
		vx_put_schedule();
	schedule_pending();
	irq_exit();
}

/* The line is up: interfaces of the wire send no more in one piece than is taken. */
void vx_shared_meet(struct vx_end *end)
{
	u32 size = most(end->shared) - BESIDE;
	struct vx_end *other;

	list_for_each_entry(other, &end->wire->ends, list)
		if (other != end && other->dev->gso_ipv4_max_size > size)
			WRITE_ONCE(other->dev->gso_ipv4_max_size, size);
}

/* For the first time, or in the place of one whose line is down. */
int vx_shared_init(struct vx_end *end, const struct vink_share *share)
{
	struct vx_shared *shared;

	if (!vink_ops->bell)
		return -EOPNOTSUPP;
	if (!is_power_of_2(share->size) || share->size < VINK_SHARE_MIN)
		return -EINVAL;
	shared = kzalloc(sizeof(*shared), GFP_KERNEL);
	if (!shared)
		return -ENOMEM;
	shared->end = end;
	shared->at = *share;
	__skb_queue_head_init(&shared->waiting);
	/* Too small for IPv6, which would speak. Nothing else looks at it. */
	end->dev->mtu = ETH_MIN_MTU;
	WRITE_ONCE(share->inward->most, largest(shared));
	netif_napi_add_weight(end->dev, &shared->napi, poll, WEIGHT);
	napi_enable(&shared->napi);
	vx_shared_free(end);
	local_bh_disable();
	end->shared = shared;
	list_add_tail(&shared->list, &all);
	local_bh_enable();
	return 0;
}

/* With softirqs disabled. */
void vx_shared_purge(struct vx_end *end)
{
	struct sk_buff *skb;

	while ((skb = waited(end->shared)))
		vx_lose(end, skb, VINK_LOST_DOWN);
}

void vx_shared_free(struct vx_end *end)
{
	struct vx_shared *shared = end->shared;

	if (!shared)
		return;
	napi_disable(&shared->napi);
	local_bh_disable();
	list_del(&shared->list);
	vx_shared_purge(end);
	local_bh_enable();
	netif_napi_del(&shared->napi);
	end->shared = NULL;
	kfree(shared);
}
