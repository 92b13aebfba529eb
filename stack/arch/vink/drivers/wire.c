// SPDX-License-Identifier: GPL-2.0
/* Which wires there are, what is attached to them, and the calls of vink/abi.h. */

#include <linux/etherdevice.h>
#include <linux/idr.h>
#include <linux/nsproxy.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>
#include <net/net_namespace.h>
#include <net/sch_generic.h>

#include "vx.h"

/* A day: times add up without an overflow. */
#define LONGEST	(24ULL * 3600 * NSEC_PER_SEC)

static DEFINE_IDR(wires);
static DEFINE_IDR(ends);

static struct vx_wire *find_wire(u64 id)
{
	return id <= INT_MAX ? idr_find(&wires, id) : NULL;
}

struct vx_end *vx_find_end(u64 id)
{
	return id <= INT_MAX ? idr_find(&ends, id) : NULL;
}

/*
 * As those of a cable are: up with the interfaces at both ends. Told at once, to
 * all listeners; by itself the kernel would take up to a second to do so.
 */
void vx_update_carriers(struct vx_wire *wire)
{
	struct vx_end *end;

	list_for_each_entry(end, &wire->ends, list) {
		bool on = wire->up && netif_running(end->dev) &&
			  (wire->bus ||
			   (end->far && netif_running(end->far->dev)));

		if (on == !!netif_carrier_ok(end->dev))
			continue;
		if (on)
			netif_carrier_on(end->dev);
		else
			netif_carrier_off(end->dev);
		if (netif_running(end->dev))
			vink_tell_carrier(end->dev);
	}
}

/* With softirqs disabled: which way packets go from now on. */
static void update_ways(struct vx_wire *wire)
{
	struct vx_end *end;

	list_for_each_entry(end, &wire->ends, list)
		end->to = wire->up ? end->far : NULL;
}

static long wire_create(u64 flags)
{
	struct vx_wire *wire;
	int id;

	if (flags & ~(u64)VINK_WIRE_BUS)
		return -EINVAL;
	wire = kzalloc(sizeof(*wire), GFP_KERNEL);
	if (!wire)
		return -ENOMEM;
	id = idr_alloc_cyclic(&wires, wire, 1, 0, GFP_KERNEL);
	if (id < 0) {
		kfree(wire);
		return id;
	}
	wire->id = id;
	wire->bus = flags & VINK_WIRE_BUS;
	wire->up = true;
	INIT_LIST_HEAD(&wire->ends);
	return id;
}

static long wire_destroy(u64 id)
{
	struct vx_wire *wire = find_wire(id);
	struct vx_end *end;
	LIST_HEAD(going);

	if (!wire)
		return -ESRCH;
	list_for_each_entry(end, &wire->ends, list)
		unregister_netdevice_queue(end->dev, &going);
	unregister_netdevice_many(&going);
	idr_remove(&wires, id);
	kfree(wire);
	return 0;
}

/* Joins a registered interface to the wire. */
static void join(struct vx_wire *wire, struct vx_end *end)
{
	struct vx_end *other;

	local_bh_disable();
	end->wire = wire;
	end->random = vink_seed(wire->id, wire->attached++);
	other = list_first_entry_or_null(&wire->ends, struct vx_end, list);
	if (other && !wire->bus) {
		end->far = other;
		other->far = end;
	}
	list_add_tail(&end->list, &wire->ends);
	update_ways(wire);
	local_bh_enable();
}

void vx_detached(struct vx_end *end)
{
	struct vx_wire *wire = end->wire;

	if (!wire)
		return;		/* it could not be registered */
	vx_trace_end(end);
	local_bh_disable();
	vx_link_purge(end);
	vx_verdict_end(end);
	list_del_init(&end->stopped);
	list_del_init(&end->list);
	if (end->far)
		end->far->far = NULL;
	end->far = NULL;
	end->to = NULL;
	update_ways(wire);
	local_bh_enable();
	idr_remove(&ends, end->id);
	vx_update_carriers(wire);
}

/* An interface, or with @share one that stands for another process. */
static long attach(struct vx_wire *wire, struct net *net, const char *name,
		   const u8 *address, u64 mtu, const struct vink_share *share)
{
	struct net_device *dev;
	struct vx_end *end;
	int id, err;

	if (!wire->bus && !list_empty(&wire->ends) &&
	    !list_is_singular(&wire->ends))
		return -EBUSY;
	dev = vx_create(net, name, address, mtu);
	if (IS_ERR(dev))
		return PTR_ERR(dev);
	end = netdev_priv(dev);
	id = idr_alloc_cyclic(&ends, end, 1, 0, GFP_KERNEL);
	if (id < 0) {
		free_netdev(dev);
		return id;
	}
	end->id = id;
	netif_carrier_off(dev);
	/*
	 * A number that no other end has, if it is free: routes are found by
	 * the numbers of their interfaces, but not by their machines.
	 */
	dev->ifindex = LOOPBACK_IFINDEX + id;
	if (__dev_get_by_index(net, dev->ifindex))
		dev->ifindex = 0;
	err = share ? vx_shared_init(end, share) : 0;
	if (!err)
		err = register_netdevice(dev);
	if (err) {
		vx_shared_free(end);
		idr_remove(&ends, id);
		free_netdev(dev);
		return err;
	}
	join(wire, end);
	err = vx_switch(end, &wire->settings);
	if (err) {
		unregister_netdevice(dev);
		return err;
	}
	vx_update_carriers(wire);
	return id;
}

static long wire_attach(u64 wire_id, u64 machine, const char *name,
			const u8 *address, u64 mtu)
{
	struct vx_wire *wire = find_wire(wire_id);
	struct nsproxy *ns;
	long result;

	if (!wire)
		return -ESRCH;
	if (!dev_valid_name(name) || strchr(name, '%') ||
	    (address && !is_valid_ether_addr(address)) ||
	    (mtu && (mtu < ETH_MIN_MTU || mtu > ETH_MAX_MTU)))
		return -EINVAL;
	ns = vink_machine_ns(machine);
	if (!ns)
		return -ESRCH;
	result = attach(wire, ns->net_ns, name, address, mtu, NULL);
	put_nsproxy(ns);
	return result;
}

static long wire_share(u64 wire_id, const struct vink_share *share, u64 end_id)
{
	struct vx_wire *wire = find_wire(wire_id);
	struct vx_end *end;
	long id;

	if (!wire)
		return -ESRCH;
	if (end_id) {
		end = vx_find_end(end_id);
		if (!end || end->wire != wire || !end->shared)
			return -ESRCH;
		dev_close(end->dev);
		return vx_shared_init(end, share) ?: end_id;
	}
	id = attach(wire, &init_net, "shared%d", NULL, 0, share);
	/* The machine that it stands for may have any address. */
	if (id > 0)
		dev_set_promiscuity(vx_find_end(id)->dev, 1);
	return id;
}

static long wire_carrier(u64 id, u64 up)
{
	struct vx_end *end = vx_find_end(id);

	if (!end || !end->shared)
		return -ESRCH;
	if (!up) {
		dev_close(end->dev);
		return 0;
	}
	vx_shared_meet(end);
	return dev_open(end->dev, NULL);
}

static long wire_detach(u64 id)
{
	struct vx_end *end = vx_find_end(id);

	if (!end)
		return -ESRCH;
	unregister_netdevice(end->dev);
	return 0;
}

static bool sensible(const struct vink_wire_settings *s)
{
	return !(s->flags & ~(VINK_WIRE_OVERTAKE | VINK_WIRE_BURSTS)) &&
	       s->delay <= LONGEST && s->jitter <= LONGEST &&
	       s->rate <= S64_MAX && !s->reserved;
}

static long wire_set(u64 wire_id, u64 end_id,
		     const struct vink_wire_settings *settings)
{
	struct vx_wire *wire = find_wire(wire_id);
	struct vx_end *end;
	int err;

	if (!wire)
		return -ESRCH;
	if (!sensible(settings))
		return -EINVAL;
	if (end_id) {
		end = vx_find_end(end_id);
		if (!end || end->wire != wire)
			return -ESRCH;
		return vx_switch(end, settings);
	}
	list_for_each_entry(end, &wire->ends, list) {
		err = vx_switch(end, settings);
		if (err)
			return err;
	}
	wire->settings = *settings;
	return 0;
}

static long wire_state(u64 id, u64 up)
{
	struct vx_wire *wire = find_wire(id);
	struct vx_end *end;

	if (!wire)
		return -ESRCH;
	local_bh_disable();
	wire->up = up;
	update_ways(wire);
	if (!up) {
		list_for_each_entry(end, &wire->ends, list)
			vx_link_purge(end);
	}
	local_bh_enable();
	vx_update_carriers(wire);
	return 0;
}

static long wire_stats(u64 id, struct vink_wire_stats *stats)
{
	struct vx_end *end = vx_find_end(id);

	if (!end)
		return -ESRCH;
	*stats = end->stats;
	stats->under_way = end->under_way + !!end->sending + !!end->next;
	return 0;
}

static void count(u64 id, struct vink_end_counts *counts)
{
	struct vx_end *end = vx_find_end(id);
	const struct vink_wire_stats *stats;

	memset(counts, 0, sizeof(*counts));
	if (!end)
		return;
	stats = &end->stats;
	counts->sent = stats->sent;
	counts->sent_bytes = stats->sent_bytes;
	counts->lost = stats->lost_random + stats->lost_limit +
		       stats->lost_mtu + stats->lost_down;
	counts->under_way = end->under_way + !!end->sending + !!end->next;
	counts->queued = qdisc_qlen_sum(rtnl_dereference(end->dev->qdisc));
}

static long wire_counts(const u64 *ids, u64 number,
			struct vink_end_counts *counts)
{
	while (number--)
		count(*ids++, counts++);
	return 0;
}

static long wire_trace(u64 id, u64 mask, u64 snaplen)
{
	struct vx_end *end = vx_find_end(id);

	if (!end)
		return -ESRCH;
	if (mask >= VINK_PACKET_FLIGHT << 1 || snaplen > U16_MAX)
		return -EINVAL;
	return vx_trace_set(end, mask, snaplen);
}

static long wire_release(u64 id)
{
	struct vx_end *end = vx_find_end(id);

	if (!end)
		return -ESRCH;
	vx_verdict_release(end);
	return 0;
}

static long serve(u64 nr, const u64 *args)
{
	switch (nr) {
	case VINK_CALL_WIRE_CREATE:
		return wire_create(args[0]);
	case VINK_CALL_WIRE_DESTROY:
		return wire_destroy(args[0]);
	case VINK_CALL_WIRE_ATTACH:
		return wire_attach(args[0], args[1], (const char *)args[2],
				   (const u8 *)args[3], args[4]);
	case VINK_CALL_WIRE_DETACH:
		return wire_detach(args[0]);
	case VINK_CALL_WIRE_SET:
		return wire_set(args[0], args[1], (const void *)args[2]);
	case VINK_CALL_WIRE_STATE:
		return wire_state(args[0], args[1]);
	case VINK_CALL_WIRE_STATS:
		return wire_stats(args[0], (void *)args[1]);
	case VINK_CALL_WIRE_TRACE:
		return wire_trace(args[0], args[1], args[2]);
	case VINK_CALL_WIRE_SHARE:
		return wire_share(args[0], (const void *)args[1], args[2]);
	case VINK_CALL_WIRE_CARRIER:
		return wire_carrier(args[0], args[1]);
	case VINK_CALL_WIRE_RELEASE:
		return wire_release(args[0]);
	case VINK_CALL_WIRE_PUT:
		return vx_put();
	case VINK_CALL_WIRE_COUNTS:
		return wire_counts((const u64 *)args[0], args[1],
				   (void *)args[2]);
	}
	return -ENOSYS;
}

long vink_wire_call(u64 nr, const u64 *args)
{
	long result;

	rtnl_lock();
	result = serve(nr, args);
	rtnl_unlock();
	return result;
}
