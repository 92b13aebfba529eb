/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Where kernels differ in more than a header: as Linux 6.12 has it. The folder
 * linux-6.1/ has the file of the same name for that one.
 */
#ifndef _ASM_VINK_VERSIONS_H
#define _ASM_VINK_VERSIONS_H

#include <linux/bitfield.h>
#include <linux/ethtool.h>
#include <linux/netdevice.h>
#include <net/dropreason.h>
#include <net/sock.h>

/* An interface that does its own locking. */
static inline void vink_set_lockless(struct net_device *dev)
{
	dev->lltx = true;
}

/* Packets of more than 64 KiB in one piece, of IPv4 too. */
static inline void vink_set_gso_max(struct net_device *dev)
{
	netif_set_tso_max_size(dev, GSO_MAX_SIZE);
	WRITE_ONCE(dev->gso_ipv4_max_size, GSO_MAX_SIZE);
}

/* Listeners learn now that the carrier has come or gone. */
static inline void vink_tell_carrier(struct net_device *dev)
{
	ethtool_op_get_link(dev);
}

/* A literal, or NULL. */
static inline const char *vink_drop_reason(u32 reason)
{
	const struct drop_reason_list *list = NULL;
	u32 subsys = u32_get_bits(reason, SKB_DROP_REASON_SUBSYS_MASK);
	const char *name = NULL;

	reason &= ~SKB_DROP_REASON_SUBSYS_MASK;
	rcu_read_lock();
	if (subsys < SKB_DROP_REASON_SUBSYS_NUM)
		list = rcu_dereference(drop_reasons_by_subsys[subsys]);
	if (list && reason < list->n_reasons)
		name = list->reasons[reason];
	rcu_read_unlock();
	return name;
}

/*
 * A probe for the tracepoint kfree_skb that calls @dropped with the packet, the
 * reason, and the network that it was to be received in, or NULL.
 */
#define VINK_DROP_PROBE(probe, dropped)					\
static void probe(void *unused, struct sk_buff *skb, void *location,	\
		  enum skb_drop_reason reason, struct sock *sk)		\
{									\
	dropped(skb, reason, sk ? sock_net(sk) : NULL);			\
}

#endif /* _ASM_VINK_VERSIONS_H */
