/* SPDX-License-Identifier: GPL-2.0 */
/* What Linux 6.1 has otherwise than 6.12, or not at all. */
#ifndef _ASM_VINK_VERSIONS_H
#define _ASM_VINK_VERSIONS_H

#include <linux/file.h>
#include <linux/netdevice.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <net/dropreason.h>
#include <net/dst.h>

#define fd_file(f)	((f).file)
#define fd_empty(f)	(!fd_file(f))

#define dequeue_signal(mask, info, type)				\
	dequeue_signal(current, mask, info, type)

static inline void vink_set_lockless(struct net_device *dev)
{
	dev->features |= NETIF_F_LLTX;
}

/* IPv4 has none of more than 64 KiB, and no limit of its own. */
#define gso_ipv4_max_size	gso_max_size
static inline void vink_set_gso_max(struct net_device *dev)
{
	netif_set_tso_max_size(dev, GSO_MAX_SIZE);
}

/* net/core/dev.h; 6.12 calls it linkwatch_sync_dev(). */
void linkwatch_forget_dev(struct net_device *dev);

static inline void vink_tell_carrier(struct net_device *dev)
{
	linkwatch_forget_dev(dev);
}

/* An interface for nothing but NAPI, with @size bytes of the caller's. */
static inline struct net_device *alloc_netdev_dummy(int size)
{
	struct net_device *dev;

	dev = kzalloc(ALIGN(sizeof(*dev), NETDEV_ALIGN) + size, GFP_KERNEL);
	if (dev)
		init_dummy_netdev(dev);
	return dev;
}

static inline const char *vink_drop_reason(u32 reason)
{
	return reason < SKB_DROP_REASON_MAX ? drop_reasons[reason] : NULL;
}

/* The tracepoint does not tell which socket was to receive the packet: its route does. */
#define VINK_DROP_PROBE(probe, dropped)					\
static void probe(void *unused, struct sk_buff *skb, void *location,	\
		  enum skb_drop_reason reason)				\
{									\
	struct dst_entry *dst = skb_dst(skb);				\
									\
	dropped(skb, reason, dst && dst->dev ? dev_net(dst->dev) : NULL); \
}

#endif /* _ASM_VINK_VERSIONS_H */
