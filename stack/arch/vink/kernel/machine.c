// SPDX-License-Identifier: GPL-2.0
/* Machines: a network and a UTS namespace each, under a number of the host's. */

#include <linux/idr.h>
#include <linux/mm.h>
#include <linux/nsproxy.h>
#include <linux/proc_fs.h>
#include <linux/proc_ns.h>
#include <linux/slab.h>
#include <linux/utsname.h>
#include <net/net_namespace.h>

#include <asm/vink.h>

/* Pages that have to be free for a machine to be made: 2 MiB. */
#define MACHINE_RESERVE	512

static DEFINE_IDR(machines);	/* of struct nsproxy */
static u64 machine_count;

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
	if (id < 0)
		put_nsproxy(ns);
	else
		machine_count++;
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

u64 vink_machine_count(void)
{
	return machine_count;
}
