// SPDX-License-Identifier: GPL-2.0
/*
 * Tracepoints of the kernel's own, told to the host.
 *
 * One function stands for those of all tracepoints: each is called with its
 * data and then the arguments, in the registers that the ABI of the processor
 * gives them, one after the other. What a tracepoint does not have, the
 * register does not have either.
 */

#include <linux/list.h>
#include <linux/slab.h>
#include <linux/tracepoint.h>

#include <asm/vink.h>

struct probe {
	struct list_head list;
	struct tracepoint *point;
	u64 cookie;
};

struct search {
	const char *name;
	struct tracepoint *found;
};

static LIST_HEAD(probes);

static void passed(void *data, u64 first, u64 second, u64 third)
{
	struct probe *probe = data;
	u64 args[] = { first, second, third };

	vink_ops->probe(vink_host, probe->cookie, args);
}

static void compare(struct tracepoint *point, void *data)
{
	struct search *search = data;

	if (!strcmp(point->name, search->name))
		search->found = point;
}

static long begin(struct tracepoint *point, u64 cookie)
{
	struct probe *probe;
	int err;

	probe = kmalloc(sizeof(*probe), GFP_KERNEL);
	if (!probe)
		return -ENOMEM;
	probe->point = point;
	probe->cookie = cookie;
	err = tracepoint_probe_register(point, passed, probe);
	if (err) {
		kfree(probe);
		return err;
	}
	list_add(&probe->list, &probes);
	return 0;
}

static long end(struct tracepoint *point, u64 cookie)
{
	struct probe *probe;

	list_for_each_entry(probe, &probes, list) {
		if (probe->point != point || probe->cookie != cookie)
			continue;
		list_del(&probe->list);
		tracepoint_probe_unregister(point, passed, probe);
		tracepoint_synchronize_unregister();
		kfree(probe);
		return 0;
	}
	return -ENOENT;
}

long vink_probe(const char *name, u64 cookie, bool on)
{
	struct search search = { .name = name };

	if (!vink_ops->probe)
		return -EOPNOTSUPP;
	for_each_kernel_tracepoint(compare, &search);
	if (!search.found)
		return -ESRCH;
	return on ? begin(search.found, cookie) : end(search.found, cookie);
}
