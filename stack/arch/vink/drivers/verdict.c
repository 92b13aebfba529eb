// SPDX-License-Identifier: GPL-2.0
/*
 * What becomes of a packet at an end that has a breakpoint or a path: the host is
 * asked.
 *
 * A packet that is to wait does so in a list of the end's own, before the wire
 * has it or behind it. One that waits for the host's word, and not for a time, is
 * at the list's end; so are those behind it, which are asked about when it goes.
 */

#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/slab.h>
#include <linux/tcp.h>
#include <net/gso.h>
#include <net/inet6_hashtables.h>
#include <net/inet_hashtables.h>

#include "vx.h"

/* Packets that may wait at an end. */
#define MOST_HELD	16384
#define MOST_COPIES	64

struct vx_held {
	struct vx_end *end;
	struct hrtimer timer;
	struct sk_buff_head packets;	/* by their time */
	u64 joined;			/* when the wire had the last one */
};

struct verdict_cb {
	u64 until;			/* VINK_NEVER: the host's word */
	u32 behind;			/* so many that are still to pass */
	u8 kind;			/* VINK_PACKET_*: where it waits */
	bool put;			/* by the host */
	bool again;			/* its verdict is not known yet */
};

static struct verdict_cb *verdict_cb(struct sk_buff *skb)
{
	BUILD_BUG_ON(sizeof(struct verdict_cb) > sizeof(skb->cb));
	return (struct verdict_cb *)skb->cb;
}

/* One of the machine's, if it is one of TCP. */
static struct sock *full(struct sock *sk)
{
	if (sk && sk_fullsock(sk) && sk->sk_protocol == IPPROTO_TCP)
		return sk;
	return NULL;
}

/*
 * The connection that a packet comes for. It may not be kept: what holds it is
 * its place in the table, as long as no softirq ends.
 */
static struct sock *receiver(struct vx_end *end, struct sk_buff *skb)
{
	struct net *net = dev_net(end->dev);
	struct inet_hashinfo *table = net->ipv4.tcp_death_row.hashinfo;
	const int at = ETH_HLEN;
	struct ethhdr eth_buf, *eth;
	struct sock *sk = NULL;
	struct tcphdr tcp_buf, *tcp;

	eth = skb_header_pointer(skb, 0, sizeof(eth_buf), &eth_buf);
	if (eth && eth->h_proto == htons(ETH_P_IP)) {
		struct iphdr buf, *ip;

		ip = skb_header_pointer(skb, at, sizeof(buf), &buf);
		if (!ip || ip->protocol != IPPROTO_TCP ||
		    ip->frag_off & htons(IP_OFFSET))
			return NULL;
		tcp = skb_header_pointer(skb, at + ip->ihl * 4, sizeof(tcp_buf),
					 &tcp_buf);
		if (tcp)
			sk = __inet_lookup_established(net, table, ip->saddr,
						       tcp->source, ip->daddr,
						       ntohs(tcp->dest),
						       end->dev->ifindex, 0);
#if IS_ENABLED(CONFIG_IPV6)
	} else if (eth && eth->h_proto == htons(ETH_P_IPV6)) {
		struct ipv6hdr buf, *ip;

		ip = skb_header_pointer(skb, at, sizeof(buf), &buf);
		if (!ip || ip->nexthdr != IPPROTO_TCP)
			return NULL;
		tcp = skb_header_pointer(skb, at + sizeof(buf), sizeof(tcp_buf),
					 &tcp_buf);
		if (tcp)
			sk = __inet6_lookup_established(net, table, &ip->saddr,
							tcp->source, &ip->daddr,
							ntohs(tcp->dest),
							end->dev->ifindex, 0);
#endif
	}
	if (sk)
		sock_gen_put(sk);
	return full(sk);
}

/* A packet goes on from where it was asked about. */
static void go_on(struct vx_end *end, struct sk_buff *skb, u32 kind)
{
	skb->dev = end->dev;
	if (kind == VINK_PACKET_DEPARTURE)
		vx_link_join(end, skb, &end->held->joined);
	else if (netif_running(end->dev))
		vx_receive(end, end, skb);
	else
		vx_lose(end, skb, VINK_LOST_DOWN);
}

static void hold(struct vx_end *end, struct sk_buff *skb, u32 kind, bool put,
		 const struct vink_verdict *verdict)
{
	struct sk_buff_head *packets = &end->held->packets;
	struct sk_buff *before;
	u64 until = VINK_NEVER;

	if (skb_queue_len(packets) >= MOST_HELD) {
		vx_lose(end, skb, VINK_LOST_LIMIT);
		return;
	}
	/* As with those under way: it is no longer the sender's. */
	skb_orphan(skb);
	skb_scrub_packet(skb, true);
	if (!(verdict->flags & VINK_VERDICT_AGAIN) && verdict->delay != VINK_NEVER)
		until = ktime_get_ns() + verdict->delay;
	*verdict_cb(skb) = (struct verdict_cb) {
		.until	= until,
		.behind	= verdict->behind,
		.kind	= kind,
		.put	= put,
		.again	= verdict->flags & VINK_VERDICT_AGAIN,
	};
	/* Behind those that go on at the same time. */
	skb_queue_reverse_walk(packets, before) {
		if (verdict_cb(before)->until <= until)
			break;
	}
	__skb_queue_after(packets, before, skb);
	if (skb_peek(packets) == skb && until != VINK_NEVER)
		hrtimer_start(&end->held->timer, ns_to_ktime(until),
			      HRTIMER_MODE_ABS_SOFT);
}

static enum hrtimer_restart due(struct hrtimer *timer)
{
	struct vx_held *held = container_of(timer, struct vx_held, timer);
	struct sk_buff *skb;
	u64 until;

	while ((skb = skb_peek(&held->packets))) {
		until = verdict_cb(skb)->until;
		if (until == VINK_NEVER)
			break;
		if (until > ktime_get_ns()) {
			hrtimer_set_expires(timer, ns_to_ktime(until));
			return HRTIMER_RESTART;
		}
		__skb_unlink(skb, &held->packets);
		go_on(held->end, skb, verdict_cb(skb)->kind);
	}
	return HRTIMER_NORESTART;
}

/* It goes on as any other one does. */
void vx_verdict_pass(struct vx_end *end, u32 kind, struct sk_buff *skb)
{
	if (kind == VINK_PACKET_DEPARTURE && end->busy && !end->next)
		vx_link_send(end, skb);
	else
		go_on(end, skb, kind);
}

/* Another one has passed: those that were to be behind it go on. */
static void passed(struct vx_end *end, u32 kind)
{
	struct sk_buff *skb, *next;

	skb_queue_walk_safe(&end->held->packets, skb, next) {
		struct verdict_cb *cb = verdict_cb(skb);

		if (cb->kind != kind || !cb->behind || --cb->behind)
			continue;
		__skb_unlink(skb, &end->held->packets);
		go_on(end, skb, kind);
	}
}

/* It gets the checksum that an ideal wire spares it. */
static bool finish(struct sk_buff *skb)
{
	return skb->ip_summed != CHECKSUM_PARTIAL || skb_is_gso(skb) ||
	       !skb_csum_hwoffload_help(skb, 0);
}

static bool corrupt(struct sk_buff *skb, u32 bit)
{
	return finish(skb) && vx_link_flip(skb, bit % (skb->len * BITS_PER_BYTE));
}

/*
 * Asks about a packet, whose data is the frame. False: it is no longer the
 * caller's.
 */
static bool ask(struct vx_end *end, u32 kind, struct sk_buff *skb, bool put)
{
	struct vink_verdict verdict = {};
	struct sk_buff *copy;
	struct sock *sk;
	u32 i;

	sk = kind == VINK_PACKET_DEPARTURE ? full(skb->sk) : receiver(end, skb);
	vx_trace_ask(end, kind, skb, sk, put, &verdict);
	if (verdict.flags & VINK_VERDICT_TAKE) {
		vx_taken(end, kind);
		consume_skb(skb);
		return false;
	}
	if (verdict.flags & VINK_VERDICT_AGAIN) {
		hold(end, skb, kind, put, &verdict);
		return false;
	}
	if (verdict.flags & VINK_VERDICT_DROP) {
		vx_lose(end, skb, VINK_LOST_VERDICT);
		return false;
	}
	if (verdict.flags & VINK_VERDICT_CORRUPT && !corrupt(skb, verdict.bit)) {
		vx_lose(end, skb, VINK_LOST_LIMIT);
		return false;
	}
	for (i = 0; i < min_t(u32, verdict.copies, MOST_COPIES); i++) {
		copy = skb_clone(skb, GFP_ATOMIC);
		if (copy && verdict.delay)
			hold(end, copy, kind, put, &verdict);
		else if (copy)
			go_on(end, copy, kind);
	}
	if (verdict.delay) {
		hold(end, skb, kind, put, &verdict);
		return false;
	}
	if (skb_queue_empty(&end->held->packets) ||
	    verdict.flags & VINK_VERDICT_UNCOUNTED)
		return true;
	/* What waits for it to pass comes right behind. */
	vx_verdict_pass(end, kind, skb);
	passed(end, kind);
	return false;
}

/* Where the host is shown frames, each segment is asked about by itself. */
bool vx_verdict(struct vx_end *end, u32 kind, struct sk_buff *skb)
{
	struct sk_buff *next;

	if (!(end->trace & VINK_ASK_FRAMES))
		return ask(end, kind, skb, false);
	if (likely(!skb_is_gso(skb))) {
		if (finish(skb))
			return ask(end, kind, skb, false);
		vx_lose(end, skb, VINK_LOST_LIMIT);
		return false;
	}
	skb_reset_mac_header(skb);
	next = skb_gso_segment(skb, 0);
	if (IS_ERR_OR_NULL(next)) {
		vx_lose(end, skb, VINK_LOST_LIMIT);
		return false;
	}
	consume_skb(skb);
	while (next) {
		skb = next;
		next = skb->next;
		skb_mark_not_on_list(skb);
		if (ask(end, kind, skb, false))
			vx_verdict_pass(end, kind, skb);
	}
	return false;
}

/* A packet of the host's: about it, too, it is asked. */
void vx_verdict_put(struct vx_end *end, u32 kind, struct sk_buff *skb)
{
	if (!(end->trace & kind << 4) || ask(end, kind, skb, true))
		vx_verdict_pass(end, kind, skb);
}

/* What waits for the host's word has it. */
void vx_verdict_release(struct vx_end *end)
{
	struct sk_buff_head released;
	struct sk_buff *skb, *next;
	u32 kind;

	if (!end->held)
		return;
	__skb_queue_head_init(&released);
	local_bh_disable();
	skb_queue_walk_safe(&end->held->packets, skb, next) {
		if (verdict_cb(skb)->until == VINK_NEVER) {
			__skb_unlink(skb, &end->held->packets);
			__skb_queue_tail(&released, skb);
		}
	}
	while ((skb = __skb_dequeue(&released))) {
		kind = verdict_cb(skb)->kind;
		skb->dev = end->dev;
		if (!verdict_cb(skb)->again ||
		    ask(end, kind, skb, verdict_cb(skb)->put))
			go_on(end, skb, kind);
	}
	local_bh_enable();
}

int vx_verdict_init(struct vx_end *end)
{
	struct vx_held *held;

	if (!vink_ops->verdict)
		return -EOPNOTSUPP;
	if (end->held)
		return 0;
	held = kmalloc(sizeof(*held), GFP_KERNEL);
	if (!held)
		return -ENOMEM;
	held->end = end;
	held->joined = 0;
	hrtimer_init(&held->timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	held->timer.function = due;
	__skb_queue_head_init(&held->packets);
	end->held = held;
	return 0;
}

void vx_verdict_end(struct vx_end *end)
{
	struct vx_held *held = end->held;
	struct sk_buff *skb;

	if (!held)
		return;
	end->held = NULL;
	hrtimer_cancel(&held->timer);
	while ((skb = __skb_dequeue(&held->packets)))
		vx_lose(end, skb, VINK_LOST_DOWN);
	kfree(held);
}
