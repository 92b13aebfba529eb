// SPDX-License-Identifier: GPL-2.0
/*
 * Trace points: what happens to the packets of an end, told to the host.
 *
 * What the wire does is told where it does it. What the stack drops is told by
 * the kernel's own tracepoint, which is only listened to while an end wants it.
 */

#include <linux/slab.h>
#include <trace/events/skb.h>

#include "vx.h"

#define TELLS	(VINK_PACKET_DEPARTURE | VINK_PACKET_ARRIVAL |	\
		 VINK_PACKET_LOSS | VINK_PACKET_DROP)
#define ASKS	(VINK_ASK_DEPARTURE | VINK_ASK_ARRIVAL | VINK_ASK_LOSS | \
		 VINK_ASK_DROP | VINK_ASK_FRAMES | VINK_ASK_MARK)
#define DROPS	(VINK_PACKET_DROP | VINK_ASK_DROP)

static LIST_HEAD(traced);	/* of ends */
static bool listening;		/* to the kernel's tracepoint */
static u8 *snapshot;		/* of a packet whose bytes lie apart */
static u64 flights;		/* told so far */
static u64 boot;		/* the host's time when the kernel's was 0 */

static const char *const causes[] = {
	[VINK_LOST_RANDOM]	= "random",
	[VINK_LOST_LIMIT]	= "limit",
	[VINK_LOST_MTU]		= "mtu",
	[VINK_LOST_DOWN]	= "down",
	[VINK_LOST_VERDICT]	= "breakpoint",
};

static void describe(struct vink_packet *packet, struct vx_end *end, u32 kind,
		     u32 reason)
{
	*packet = (struct vink_packet) {
		.time	= vink_clock(),
		.end	= end->id,
		.kind	= kind,
		.reason	= reason,
	};
	if (kind == VINK_PACKET_LOSS)
		packet->name = causes[reason];
	if (kind == VINK_PACKET_DROP)
		packet->name = vink_drop_reason(reason);
}

/* So many of its bytes, or NULL. */
static const void *bytes_of(struct sk_buff *skb, int from, u32 count)
{
	if (from + (int)count <= (int)skb_headlen(skb))
		return skb->data + from;
	return skb_copy_bits(skb, from, snapshot, count) ? NULL : snapshot;
}

/* Its bytes, from the Ethernet header on. */
static void show(struct vink_packet *packet, struct sk_buff *skb, int from,
		 u32 snaplen)
{
	packet->len = skb->len - from;
	packet->captured = min(packet->len, snaplen);
	packet->bytes = bytes_of(skb, from, packet->captured);
	if (!packet->bytes)
		packet->captured = 0;
}

void __vx_trace(struct vx_end *end, u32 kind, u32 reason, struct sk_buff *skb)
{
	struct vink_packet packet;
	struct vink_verdict verdict = {};
	int from = 0;

	describe(&packet, end, kind, reason);
	/* On its way down a frame begins where the data does. */
	if (kind == VINK_PACKET_ARRIVAL || kind == VINK_PACKET_DROP) {
		if (skb_mac_header_was_set(skb))
			from = skb_mac_offset(skb);
		else
			packet.headless = 1;
	}
	if (end->trace & kind) {
		show(&packet, skb, from, end->snaplen);
		vink_ops->packet(vink_host, &packet);
	}
	/* Of what is gone the host is told that way, too, to stop there. */
	if (end->trace & kind << 4 & (VINK_ASK_LOSS | VINK_ASK_DROP)) {
		show(&packet, skb, from, U16_MAX);
		vink_ops->verdict(vink_host, &packet, &verdict);
	}
}

void vx_trace_ask(struct vx_end *end, u32 kind, struct sk_buff *skb,
		  const struct sock *sock, bool put,
		  struct vink_verdict *verdict)
{
	struct vink_packet packet;
	u32 mark = 0;

	if (end->trace & VINK_ASK_MARK && kind == VINK_PACKET_DEPARTURE)
		mark = skb->mark;
	describe(&packet, end, kind, mark);
	show(&packet, skb, 0, U16_MAX);
	packet.sock = sock;
	packet.put = put;
	vink_ops->verdict(vink_host, &packet, verdict);
}

/* The times are the kernel's. */
static void tell_flight(struct vx_end *end, struct sk_buff *skb,
			struct vink_flight *flight)
{
	flight->end = end->id;
	flight->sent += boot;
	flight->arrives += boot;
	flight->len = skb->len;
	flight->captured = min_t(u32, skb->len, VINK_FLIGHT_BYTES);
	flight->bytes = bytes_of(skb, 0, flight->captured);
	if (!flight->bytes)
		flight->captured = 0;
	vink_ops->flight(vink_host, flight);
}

u64 __vx_flight(struct vx_end *end, struct sk_buff *skb, u64 departed,
		u64 arrival)
{
	struct vink_flight flight = {
		.id		= ++flights,
		.sent		= departed,
		.arrives	= arrival,
	};

	tell_flight(end, skb, &flight);
	return flight.id;
}

void vx_flight_lost(struct vx_end *end, struct sk_buff *skb, u32 cause)
{
	u64 now = ktime_get_ns();
	struct vink_flight flight = {
		.id		= end->flight,
		.sent		= min(end->departed, now),
		.arrives	= now,
		.lost		= cause,
	};

	/* What is lost where it arrives has ended its flight there. */
	if (skb->dev == end->dev)
		tell_flight(end, skb, &flight);
}

/*
 * A packet that is in some queue has other things where its device's address
 * was: what is there may only be compared.
 */
static bool concerns(struct vx_end *end, struct sk_buff *skb,
		     const struct net *net)
{
	if (skb->dev == end->dev)
		return true;
	return net && skb->skb_iif == end->dev->ifindex &&
	       net_eq(net, dev_net(end->dev));
}

static void dropped(struct sk_buff *skb, u32 reason, const struct net *net)
{
	struct vx_end *end;

	list_for_each_entry(end, &traced, traced) {
		if (end->trace & DROPS && concerns(end, skb, net)) {
			__vx_trace(end, VINK_PACKET_DROP, reason, skb);
			return;
		}
	}
}

VINK_DROP_PROBE(probe, dropped)

/* Listens to the kernel's tracepoint for as long as an end is traced. */
static int listen(void)
{
	struct vx_end *end;
	bool wanted = false;
	int err = 0;

	list_for_each_entry(end, &traced, traced)
		wanted |= end->trace & DROPS;
	if (wanted && !listening)
		err = register_trace_kfree_skb(probe, NULL);
	if (!wanted && listening)
		unregister_trace_kfree_skb(probe, NULL);
	if (!err)
		listening = wanted;
	return err;
}

int vx_trace_set(struct vx_end *end, u32 mask, u32 snaplen)
{
	int err;

	if ((mask & TELLS && !vink_ops->packet) ||
	    (mask & VINK_PACKET_FLIGHT && !vink_ops->flight))
		return -EOPNOTSUPP;
	if (mask & ASKS) {
		err = vx_verdict_init(end);
		if (err)
			return err;
	}
	if (mask && !snapshot) {
		snapshot = kmalloc(U16_MAX, GFP_KERNEL);
		if (!snapshot)
			return -ENOMEM;
	}
	boot = vink_clock() - ktime_get_ns();
	local_bh_disable();
	end->trace = mask;
	end->snaplen = snaplen;
	list_del_init(&end->traced);
	if (mask)
		list_add(&end->traced, &traced);
	local_bh_enable();
	return listen();
}

void vx_trace_end(struct vx_end *end)
{
	local_bh_disable();
	end->trace = 0;
	list_del_init(&end->traced);
	local_bh_enable();
	listen();
}
