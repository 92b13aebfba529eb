// SPDX-License-Identifier: GPL-2.0
/* Machines: a network and a UTS namespace each, under a number of the host's. */

#include <linux/fs.h>
#include <linux/idr.h>
#include <linux/mm.h>
#include <linux/namei.h>
#include <linux/nsproxy.h>
#include <linux/proc_fs.h>
#include <linux/proc_ns.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/utsname.h>
#include <net/addrconf.h>
#include <net/af_unix.h>
#include <net/arp.h>
#include <net/ndisc.h>
#include <net/net_namespace.h>
#include <net/snmp.h>

#include <asm/vink.h>

/* Pages that have to be free for a machine to be made: 2 MiB. */
#define MACHINE_RESERVE	512
/* Machines to be made between two times that /proc is cleared up. */
#define CLEAR_INTERVAL	128

static DEFINE_IDR(machines);	/* of struct nsproxy */
static u64 machine_count;

static void release_zeroes(void *start, size_t len)
{
	if (PAGE_ALIGNED(start) && PAGE_ALIGNED(len) &&
	    !memchr_inv(start, 0, len))
		vink_ops->release(vink_host, start, len);
}

#if IS_ENABLED(CONFIG_IPV6)
static void release_unused_ipv6(struct net *net)
{
	struct inet6_dev *lo = __in6_dev_get(net->loopback_dev);

	release_zeroes(net->mib.icmpv6msg_statistics,
		       sizeof(*net->mib.icmpv6msg_statistics));
	if (lo)
		release_zeroes(lo->stats.icmpv6msgdev,
			       sizeof(*lo->stats.icmpv6msgdev));
}

static void allow_neighbours_ipv6(int most)
{
	nd_tbl.gc_thresh3 = most;
	nd_tbl.gc_thresh2 = most / 2;
}
#else
static void release_unused_ipv6(struct net *net) {}
static void allow_neighbours_ipv6(int most) {}
#endif

/*
 * What is nothing but zeroes in a new machine, and mostly stays so: the counters
 * of each type of ICMP message, the bitmap of reserved ports, the hash table of
 * unix sockets. The host need not keep memory for it until it is written.
 */
static void release_unused(struct net *net)
{
	if (!vink_ops->release)
		return;
	release_zeroes(net->ipv4.sysctl_local_reserved_ports,
		       (U16_MAX + 1) / BITS_PER_BYTE);
	release_zeroes(net->mib.icmpmsg_statistics,
		       sizeof(*net->mib.icmpmsg_statistics));
	release_zeroes(net->unx.table.buckets,
		       UNIX_HASH_SIZE * sizeof(*net->unx.table.buckets));
	release_unused_ipv6(net);
}

/*
 * /proc/sys/net/ipv4 and its like are other folders in each machine, but for the
 * cache of names they are one name in one folder: it looks through those of all
 * machines. What is not open may go.
 */
static void clear_proc(void)
{
	struct path path;

	if (kern_path("/proc", LOOKUP_FOLLOW, &path))
		return;
	shrink_dcache_sb(path.dentry->d_sb);
	path_put(&path);
}

long vink_machine_create(const char *name, u64 len)
{
	struct nsproxy *ns;
	int id;

	if (!len || len > __NEW_UTS_LEN)
		return -EINVAL;
	/*
	 * A namespace that fails half-way is taken down by cleanup_net(), which
	 * waits for a worker thread: without memory for one it waits for ever.
	 */
	if (global_zone_page_state(NR_FREE_PAGES) < MACHINE_RESERVE)
		return -ENOMEM;
	id = unshare_nsproxy_namespaces(CLONE_NEWNET | CLONE_NEWUTS, &ns,
					NULL, NULL);
	if (id < 0)
		return id;
	memcpy(ns->uts_ns->name.nodename, name, len);
	ns->uts_ns->name.nodename[len] = '\0';
	id = idr_alloc_cyclic(&machines, ns, 1, 0, GFP_KERNEL);
	if (id < 0) {
		put_nsproxy(ns);
		return id;
	}
	if (++machine_count % CLEAR_INTERVAL == 0)
		clear_proc();
	release_unused(ns->net_ns);
	return id;
}

long vink_machine_destroy(u64 id)
{
	struct nsproxy *ns = NULL;

	if (id <= INT_MAX)
		ns = idr_remove(&machines, id);
	if (!ns)
		return -ESRCH;
	machine_count--;
	put_nsproxy(ns);
	return 0;
}

struct nsproxy *vink_machine_ns(u64 id)
{
	struct nsproxy *ns = NULL;

	if (id <= INT_MAX)
		ns = idr_find(&machines, id);
	if (ns)
		get_nsproxy(ns);
	return ns;
}

long vink_machine_fd(u64 id)
{
	struct nsproxy *ns = vink_machine_ns(id);
	long fd;

	if (!ns)
		return -ESRCH;
	/* open_related_ns() takes over the reference that get_net_ns() gets. */
	fd = open_related_ns(&ns->net_ns->ns, get_net_ns);
	put_nsproxy(ns);
	return fd;
}

/*
 * The limits of how many neighbours are known are for all machines together, and
 * by default for one alone. With them as they are a thousand machines could not
 * talk to each other.
 */
static int __init allow_neighbours(void)
{
	int most = totalram_pages() / 4;

	if (most > arp_tbl.gc_thresh3) {
		arp_tbl.gc_thresh3 = most;
		arp_tbl.gc_thresh2 = most / 2;
		allow_neighbours_ipv6(most);
	}
	return 0;
}
late_initcall(allow_neighbours);

u64 vink_machine_count(void)
{
	return machine_count;
}
