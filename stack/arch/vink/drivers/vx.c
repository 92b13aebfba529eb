// SPDX-License-Identifier: GPL-2.0
/*
 * The interface at an end of a wire, and how an ideal wire carries a packet:
 * the sk_buff itself goes to the far interface, whole.
 *
 * It does not go there on the sender's stack, where the answer would be sent,
 * and so on, but into a list, which a NAPI instance hands to the stack. The list
 * is one for all interfaces: what a router sends is received in the same poll.
 * What has come from another process has no sender here. It is received at once
 * if nothing is before it, and so is not taken faster than it is received.
 */

#include <linux/etherdevice.h>
#include <linux/ethtool.h>
#include <linux/rtnetlink.h>
#include <net/pkt_sched.h>
#include <net/rtnetlink.h>
#include <net/sch_generic.h>

#include "vx.h"

/* Packets that may wait to be received: as much as a storm may take. */
#define MOST_ARRIVED	16384

/* What an ideal wire needs not have done to a packet. */
#define OFFLOADS	(NETIF_F_SG | NETIF_F_FRAGLIST | NETIF_F_HW_CSUM |	\
			 NETIF_F_SCTP_CRC | NETIF_F_GSO_SOFTWARE |		\
			 NETIF_F_GSO_ENCAP_ALL | NETIF_F_GSO)

bool vx_at_once;

static struct sk_buff_head arrived;
static struct napi_struct *napi;

static int receive(struct napi_struct *napi, int budget)
{
	struct sk_buff *skb;
	int done = 0;

	while (done < budget && (skb = __skb_dequeue(&arrived))) {
		netif_receive_skb(skb);
		done++;
	}
	if (done < budget)
		napi_complete_done(napi, done);
	return done;
}

void vx_lose(struct vx_end *end, struct sk_buff *skb, u32 cause)
{
	switch (cause) {
	case VINK_LOST_RANDOM:
		end->stats.lost_random++;
		break;
	case VINK_LOST_LIMIT:
		end->stats.lost_limit++;
		break;
	case VINK_LOST_MTU:
		end->stats.lost_mtu++;
		break;
	case VINK_LOST_DOWN:
		end->stats.lost_down++;
		break;
	}
	vx_trace(end, VINK_PACKET_LOSS, cause, skb);
	if (unlikely(end->trace & VINK_PACKET_FLIGHT))
		vx_flight_lost(end, skb, cause);
	/* The stack has dropped nothing: this is not for its own tracepoint. */
	consume_skb(skb);
}

void vx_receive(struct vx_end *from, struct vx_end *to, struct sk_buff *skb)
{
	bool at_once = vx_at_once && skb_queue_empty(&arrived);
	u32 len = skb->len;

	vx_at_once = false;
	if (unlikely(skb_queue_len(&arrived) >= MOST_ARRIVED)) {
		vx_lose(from, skb, VINK_LOST_LIMIT);
		return;
	}
	if (to->shared) {
		vx_shared_send(to, skb);
		return;
	}
	skb->dev = from->dev;
	if (__dev_forward_skb(to->dev, skb))
		return;	/* too large for the interface, which counts it */
	vx_trace(to, VINK_PACKET_ARRIVAL, 0, skb);
	to->stats.received++;
	to->stats.received_bytes += len;
	if (at_once) {
		netif_receive_skb(skb);
		return;
	}
	__skb_queue_tail(&arrived, skb);
	napi_schedule(napi);
}

static void arrive(struct vx_end *from, struct vx_end *to, struct sk_buff *skb)
{
	if (unlikely(to->trace & VINK_ASK_ARRIVAL) &&
	    !vx_verdict(to, VINK_PACKET_ARRIVAL, skb))
		return;
	vx_receive(from, to, skb);
}

/* To the end it is addressed to, or to all if that is a group or not known. */
static void arrive_on_bus(struct vx_end *from, struct sk_buff *skb)
{
	const u8 *address = eth_hdr(skb)->h_dest;
	bool known = false;
	struct vx_end *end, *last = NULL;

	if (!is_multicast_ether_addr(address)) {
		list_for_each_entry(end, &from->wire->ends, list)
			if (ether_addr_equal(address, end->dev->dev_addr))
				known = true;
	}
	list_for_each_entry(end, &from->wire->ends, list) {
		struct sk_buff *copy;

		if (end == from || !netif_running(end->dev))
			continue;
		if (known && !(end->dev->flags & IFF_PROMISC) &&
		    !ether_addr_equal(address, end->dev->dev_addr))
			continue;
		if (last) {
			copy = skb_clone(skb, GFP_ATOMIC);
			if (copy)
				arrive(from, last, copy);
		}
		last = end;
	}
	if (last)
		arrive(from, last, skb);
	else
		consume_skb(skb);
}

/* Takes a packet to where it goes, at the moment when it arrives there. */
void vx_carry(struct vx_end *end, struct sk_buff *skb)
{
	struct vx_end *to = end->to;

	if (likely(to && netif_running(to->dev))) {
		arrive(end, to, skb);
	} else if (end->wire->bus && end->wire->up) {
		skb_reset_mac_header(skb);
		arrive_on_bus(end, skb);
	} else {
		vx_lose(end, skb, VINK_LOST_DOWN);
	}
}

/* The same for one that departs now. */
void vx_carry_at_once(struct vx_end *end, struct sk_buff *skb)
{
	u64 now = ktime_get_ns();

	end->flight = vx_flight(end, skb, now, now);
	vx_carry(end, skb);
	vx_flight_over(end);
}

static netdev_tx_t vx_xmit(struct sk_buff *skb, struct net_device *dev)
{
	struct vx_end *end = netdev_priv(dev);

	if (unlikely(end->next))
		return NETDEV_TX_BUSY;	/* the sender did not look */
	end->stats.sent++;
	end->stats.sent_bytes += skb->len;
	skb_tx_timestamp(skb);
	if (unlikely(end->trace)) {
		vx_trace(end, VINK_PACKET_DEPARTURE, 0, skb);
		if (end->trace & VINK_ASK_DEPARTURE &&
		    !vx_verdict(end, VINK_PACKET_DEPARTURE, skb))
			return NETDEV_TX_OK;
		if (end->trace & VINK_PACKET_FLIGHT && !end->busy) {
			vx_carry_at_once(end, skb);
			return NETDEV_TX_OK;
		}
	}
	if (likely(!end->busy)) {
		vx_carry(end, skb);
		return NETDEV_TX_OK;
	}
	return vx_link_send(end, skb);
}

static int vx_open(struct net_device *dev)
{
	struct vx_end *end = netdev_priv(dev);

	vx_update_carriers(end->wire);
	return 0;
}

static int vx_stop(struct net_device *dev)
{
	struct vx_end *end = netdev_priv(dev);
	struct sk_buff *skb, *next;

	/* Nothing arrives any more; and nothing that has may be left. */
	local_bh_disable();
	skb_queue_walk_safe(&arrived, skb, next) {
		if (skb->dev == dev) {
			__skb_unlink(skb, &arrived);
			kfree_skb_reason(skb, SKB_DROP_REASON_DEV_READY);
		}
	}
	if (end->shared)
		vx_shared_purge(end);
	local_bh_enable();
	vx_update_carriers(end->wire);
	return 0;
}

static void vx_uninit(struct net_device *dev)
{
	vx_detached(netdev_priv(dev));
	vx_shared_free(netdev_priv(dev));
}

static void vx_get_stats64(struct net_device *dev,
			   struct rtnl_link_stats64 *stats)
{
	struct vx_end *end = netdev_priv(dev);

	stats->tx_packets = end->stats.sent;
	stats->tx_bytes = end->stats.sent_bytes;
	stats->rx_packets = end->stats.received;
	stats->rx_bytes = end->stats.received_bytes;
}

static netdev_features_t vx_fix_features(struct net_device *dev,
					 netdev_features_t features)
{
	struct vx_end *end = netdev_priv(dev);

	return vx_ideal(&end->settings) ? features : features & ~OFFLOADS;
}

static const struct net_device_ops vx_netdev_ops = {
	.ndo_uninit		= vx_uninit,
	.ndo_open		= vx_open,
	.ndo_stop		= vx_stop,
	.ndo_start_xmit		= vx_xmit,
	.ndo_get_stats64	= vx_get_stats64,
	.ndo_fix_features	= vx_fix_features,
	.ndo_set_mac_address	= eth_mac_addr,
	.ndo_validate_addr	= eth_validate_addr,
	.ndo_features_check	= passthru_features_check,
};

bool vink_is_wire(const struct net_device *dev)
{
	return dev->netdev_ops == &vx_netdev_ops;
}

static void vx_get_drvinfo(struct net_device *dev, struct ethtool_drvinfo *info)
{
	strscpy(info->driver, "vx", sizeof(info->driver));
}

static int vx_get_link_ksettings(struct net_device *dev,
				 struct ethtool_link_ksettings *settings)
{
	struct vx_end *end = netdev_priv(dev);
	u64 rate = end->settings.rate;

	settings->base.speed = rate ? clamp(div_u64(rate, 1000000), 1ULL,
					    (u64)INT_MAX) : SPEED_10000;
	settings->base.duplex = DUPLEX_FULL;
	settings->base.port = PORT_TP;
	settings->base.autoneg = AUTONEG_DISABLE;
	return 0;
}

static const struct ethtool_ops vx_ethtool_ops = {
	.get_drvinfo		= vx_get_drvinfo,
	.get_link		= ethtool_op_get_link,
	.get_link_ksettings	= vx_get_link_ksettings,
	.get_ts_info		= ethtool_op_get_ts_info,
};

static void vx_setup(struct net_device *dev)
{
	ether_setup(dev);
	dev->netdev_ops = &vx_netdev_ops;
	dev->ethtool_ops = &vx_ethtool_ops;
	dev->rtnl_link_ops = &vx_link_ops;
	dev->needs_free_netdev = true;
	dev->priv_flags &= ~IFF_TX_SKB_SHARING;
	dev->priv_flags |= IFF_LIVE_ADDR_CHANGE | IFF_NO_QUEUE;
	dev->min_mtu = ETH_MIN_MTU;
	dev->max_mtu = ETH_MAX_MTU;
	dev->features = OFFLOADS | NETIF_F_HIGHDMA;
	dev->hw_features = OFFLOADS;
	dev->hw_enc_features = OFFLOADS;
	dev->vlan_features = OFFLOADS | NETIF_F_HIGHDMA;
	vink_set_lockless(dev);
	vink_set_gso_max(dev);
}

/* Only wires have such interfaces: there is nothing to be set up by others. */
struct rtnl_link_ops vx_link_ops = {
	.kind		= "vx",
};

/* Allocates an interface; it is neither registered nor an end yet. */
struct net_device *vx_create(struct net *net, const char *name,
			     const u8 *address, u32 mtu)
{
	struct net_device *dev;
	struct vx_end *end;

	dev = alloc_netdev(sizeof(*end), name, NET_NAME_USER, vx_setup);
	if (!dev)
		return ERR_PTR(-ENOMEM);
	dev_net_set(dev, net);
	if (address)
		eth_hw_addr_set(dev, address);
	else
		eth_hw_addr_random(dev);
	if (mtu)
		dev->mtu = mtu;
	end = netdev_priv(dev);
	end->dev = dev;
	INIT_LIST_HEAD(&end->list);
	INIT_LIST_HEAD(&end->traced);
	INIT_LIST_HEAD(&end->stopped);
	vx_flight_over(end);
	vx_link_init(end);
	return dev;
}

/*
 * An ideal wire never lets its interface wait: that has no queue. Any other one
 * does, and what waits is the queueing discipline's.
 */
static int give_queue(struct net_device *dev)
{
	struct netdev_queue *txq = netdev_get_tx_queue(dev, 0);
	struct Qdisc *old = rtnl_dereference(dev->qdisc);
	struct Qdisc *queue;

	if (old->ops == &noqueue_qdisc_ops) {
		queue = qdisc_create_dflt(txq, get_default_qdisc_ops(dev, 0),
					  TC_H_ROOT, NULL);
		if (!queue)
			return -ENOMEM;
		queue->flags |= TCQ_F_ONETXQUEUE | TCQ_F_NOPARENT;
		if (dev->flags & IFF_UP)
			dev_deactivate(dev);
		qdisc_put(dev_graft_qdisc(txq, queue));
		rcu_assign_pointer(dev->qdisc, queue);
		qdisc_refcount_inc(queue);
		qdisc_hash_add(queue, false);
		qdisc_put(old);
		if (dev->flags & IFF_UP)
			dev_activate(dev);
	}
	dev->priv_flags &= ~IFF_NO_QUEUE;
	return 0;
}

/* Applies settings, with the RTNL. The line's state stays as it is. */
int vx_switch(struct vx_end *end, const struct vink_wire_settings *settings)
{
	struct vink_wire_settings old = end->settings;
	int err;

	if (!memcmp(&old, settings, sizeof(old)))
		return 0;
	if (!vx_ideal(settings) && end->dev->priv_flags & IFF_NO_QUEUE) {
		err = give_queue(end->dev);
		if (err)
			return err;
	}
	/*
	 * The features first if packets are to be segmented from now on, and
	 * last if they need not be: none may meet an impairment in one piece.
	 */
	if (vx_ideal(&old)) {
		end->settings = *settings;
		netdev_update_features(end->dev);
	}
	local_bh_disable();
	end->settings = *settings;
	vx_link_changed(end);
	local_bh_enable();
	if (!vx_ideal(&old))
		netdev_update_features(end->dev);
	return 0;
}

static int __init vx_init(void)
{
	struct net_device *dummy = alloc_netdev_dummy(sizeof(*napi));

	if (!dummy)
		return -ENOMEM;
	__skb_queue_head_init(&arrived);
	napi = netdev_priv(dummy);
	netif_napi_add(dummy, napi, receive);
	napi_enable(napi);
	return rtnl_link_register(&vx_link_ops);
}
device_initcall(vx_init);
