/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Wires and their ends: what the files of arch/vink/drivers/ know of each other.
 *
 * There is one processor, which only takes softirqs when they are enabled: an
 * end's state is used in softirqs or with them disabled, and that is all the
 * locking there is. What makes, joins and parts things holds the RTNL, too.
 */
#ifndef _VINK_VX_H
#define _VINK_VX_H

#include <linux/hrtimer.h>
#include <linux/list.h>
#include <linux/netdevice.h>
#include <linux/rbtree.h>
#include <linux/skbuff.h>

#include <asm/versions.h>
#include <asm/vink.h>

struct vx_held;
struct vx_shared;

struct vx_wire {
	u64 id;
	bool bus;
	bool up;
	u32 attached;			/* ends so far, gone ones included */
	struct list_head ends;
	struct vink_wire_settings settings;	/* of ends to come */
};

/* The private part of an interface. */
struct vx_end {
	/* What each packet needs, together. */
	struct net_device *dev;
	struct vx_end *to;		/* far, if the wire is up */
	bool busy;			/* packets go through link_model.c */
	u16 trace;			/* VINK_PACKET_*, VINK_ASK_* */
	u16 snaplen;
	struct sk_buff *next;		/* link_model.c's, behind the one it sends */
	struct vink_wire_stats stats;

	struct vx_wire *wire;		/* NULL: no longer an end */
	struct vx_end *far;		/* the other one, point to point */
	struct vx_shared *shared;	/* what leads to another process, or NULL */
	struct vx_held *held;		/* verdict.c's, or NULL */
	struct list_head list;		/* in wire->ends */
	struct list_head traced;	/* in trace.c's list */
	struct list_head stopped;	/* in put.c's list */
	u64 id;
	struct vink_wire_settings settings;

	/* link_model.c: the transmitter, */
	struct hrtimer transmitted;
	struct sk_buff *sending;
	u64 free_at;			/* when its last packet is, or was, sent */
	u64 fraction;			/* of a ns, in 1 / rate */
	u64 late;			/* how much later it may find out */
	/* the packets under way by their time of arrival, */
	struct hrtimer arrival;
	struct rb_root_cached in_flight;
	u32 under_way;
	u64 last;			/* arrival of the last one in order */
	/* and chance. */
	u64 random;
	bool bad;			/* the state, of Gilbert's two */
	u32 in_order;			/* since one that was not */

	/* Of the packet that is carried or lost now: its flight, or 0. */
	u64 flight;
	u64 departed;			/* or VINK_NEVER: it departs now */
};

static inline bool vx_ideal(const struct vink_wire_settings *s)
{
	static const struct vink_wire_settings ideal;

	return !memcmp(s, &ideal, sizeof(ideal));
}

/* wire.c */
struct vx_end *vx_find_end(u64 id);
void vx_detached(struct vx_end *end);	/* its interface is going */
void vx_update_carriers(struct vx_wire *wire);

/* vx.c */
extern struct rtnl_link_ops vx_link_ops;
extern bool vx_at_once;			/* nothing here has sent the packet */
struct net_device *vx_create(struct net *net, const char *name,
			     const u8 *address, u32 mtu);
int vx_switch(struct vx_end *end, const struct vink_wire_settings *settings);
void vx_carry(struct vx_end *end, struct sk_buff *skb);
void vx_carry_at_once(struct vx_end *end, struct sk_buff *skb);
void vx_receive(struct vx_end *from, struct vx_end *to, struct sk_buff *skb);
void vx_lose(struct vx_end *end, struct sk_buff *skb, u32 cause);

/* link_model.c */
void vx_link_init(struct vx_end *end);
netdev_tx_t vx_link_send(struct vx_end *end, struct sk_buff *skb);
void vx_link_join(struct vx_end *end, struct sk_buff *skb, u64 *joined);
bool vx_link_flip(struct sk_buff *skb, u64 bit);
void vx_link_changed(struct vx_end *end);	/* with softirqs disabled */
void vx_link_purge(struct vx_end *end);		/* all is lost; likewise */

/* shared.c */
int vx_shared_init(struct vx_end *end, const struct vink_share *share);
void vx_shared_free(struct vx_end *end);
void vx_shared_send(struct vx_end *end, struct sk_buff *skb);
void vx_shared_meet(struct vx_end *end);
void vx_shared_purge(struct vx_end *end);	/* with softirqs disabled */

/* verdict.c */
int vx_verdict_init(struct vx_end *end);
void vx_verdict_end(struct vx_end *end);		/* with softirqs disabled */
void vx_verdict_release(struct vx_end *end);
bool vx_verdict(struct vx_end *end, u32 kind, struct sk_buff *skb);
void vx_verdict_pass(struct vx_end *end, u32 kind, struct sk_buff *skb);
void vx_verdict_put(struct vx_end *end, u32 kind, struct sk_buff *skb);

/* put.c */
void vx_taken(struct vx_end *end, u32 kind);
long vx_put(void);
bool vx_put_pending(void);
void vx_put_schedule(void);

/* trace.c */
int vx_trace_set(struct vx_end *end, u32 mask, u32 snaplen);
void vx_trace_end(struct vx_end *end);
void __vx_trace(struct vx_end *end, u32 kind, u32 reason, struct sk_buff *skb);
void vx_trace_ask(struct vx_end *end, u32 kind, struct sk_buff *skb,
		  const struct sock *sock, bool put,
		  struct vink_verdict *verdict);
u64 __vx_flight(struct vx_end *end, struct sk_buff *skb, u64 departed,
		u64 arrival);
void vx_flight_lost(struct vx_end *end, struct sk_buff *skb, u32 cause);

/* A packet arrives then, if nothing is to happen to it. Its flight's id, or 0. */
static inline u64 vx_flight(struct vx_end *end, struct sk_buff *skb,
			    u64 departed, u64 arrival)
{
	if (likely(!(end->trace & VINK_PACKET_FLIGHT)))
		return 0;
	return __vx_flight(end, skb, departed, arrival);
}

static inline void vx_flight_over(struct vx_end *end)
{
	end->flight = 0;
	end->departed = VINK_NEVER;
}

static inline void vx_trace(struct vx_end *end, u32 kind, u32 reason,
			    struct sk_buff *skb)
{
	if (unlikely(end->trace & (kind | kind << 4)))
		__vx_trace(end, kind, reason, skb);
}

#endif /* _VINK_VX_H */
