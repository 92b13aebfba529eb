// SPDX-License-Identifier: GPL-2.0
/*
 * Frames of the host's: what it has in the place of packets that it took.
 *
 * Taking a packet ends it here. When the kernel has left and been entered again the
 * host has made up its mind, and is asked for frames until it has no more. They
 * come as an interface's would, by an interrupt and a poll.
 */

#include <linux/etherdevice.h>

#include "vx.h"

static LIST_HEAD(stopped);	/* ends that send nothing until then */
static struct napi_struct *napi;
static u64 taken;		/* vink_entries of the last one, or 0 */
static bool called;		/* there are frames, the host says */

/* A packet was taken. Others would wait at the wire, not in the queue before it. */
void vx_taken(struct vx_end *end, u32 kind)
{
	taken = vink_entries;
	if (kind == VINK_PACKET_DEPARTURE && end->settings.rate &&
	    list_empty(&end->stopped)) {
		netif_stop_queue(end->dev);
		list_add_tail(&end->stopped, &stopped);
	}
}

static void pass(const struct vink_put *put)
{
	struct vx_end *end = vx_find_end(put->end);
	struct sk_buff *skb;

	if (!end || !end->held || put->len < ETH_HLEN)
		return;
	skb = __netdev_alloc_skb(end->dev, put->len, GFP_ATOMIC | __GFP_NOWARN);
	if (!skb) {
		end->stats.lost_limit++;
		return;
	}
	skb_put_data(skb, put->bytes, put->len);
	skb_reset_mac_header(skb);
	skb->protocol = eth_hdr(skb)->h_proto;
	skb_set_network_header(skb, ETH_HLEN);
	vx_verdict_put(end, put->kind, skb);
}

static void start_queues(void)
{
	struct vx_end *end, *next;

	list_for_each_entry_safe(end, next, &stopped, stopped) {
		list_del_init(&end->stopped);
		/* Else the transmitter does it. */
		if (!end->next)
			netif_wake_queue(end->dev);
	}
}

static int poll(struct napi_struct *napi, int budget)
{
	struct vink_put put;
	int done = 0;

	while (done < budget && vink_ops->put(vink_host, &put)) {
		pass(&put);
		done++;
	}
	if (done < budget) {
		if (taken != vink_entries)
			taken = 0;
		called = false;
		napi_complete_done(napi, done);
		start_queues();
	}
	return done;
}

bool vx_put_pending(void)
{
	return ((taken && taken != vink_entries) || called) &&
	       !test_bit(NAPI_STATE_SCHED, &napi->state);
}

/* In an interrupt. */
void vx_put_schedule(void)
{
	napi_schedule(napi);
}

long vx_put(void)
{
	if (!vink_ops->put)
		return -EOPNOTSUPP;
	called = true;
	return 0;
}

static int __init vx_put_init(void)
{
	struct net_device *dummy = alloc_netdev_dummy(sizeof(*napi));

	if (!dummy)
		return -ENOMEM;
	napi = netdev_priv(dummy);
	netif_napi_add(dummy, napi, poll);
	napi_enable(napi);
	return 0;
}
device_initcall(vx_put_init);
