// SPDX-License-Identifier: GPL-2.0
/* Memory that the kernel has freed goes back to the host, in large pieces. */

#include <linux/mm.h>
#include <linux/page_reporting.h>
#include <linux/scatterlist.h>

#include <asm/vink.h>

/*
 * Pieces of 256 KiB: what a machine or a burst of sockets leaves, but not the
 * pages that every packet takes and gives back.
 */
#define RELEASE_ORDER	6

static int release(struct page_reporting_dev_info *dev,
		   struct scatterlist *pieces, unsigned int count)
{
	struct scatterlist *piece;
	unsigned int i;

	for_each_sg(pieces, piece, count, i)
		vink_ops->release(vink_host, sg_virt(piece), piece->length);
	return 0;
}

static struct page_reporting_dev_info device = {
	.report	= release,
	.order	= RELEASE_ORDER,
};

static int __init release_init(void)
{
	return vink_ops->release ? page_reporting_register(&device) : 0;
}
late_initcall(release_init);
