// SPDX-License-Identifier: GPL-2.0
/*
 * Many addresses at once. Whenever one is added the kernel looks through those
 * of all machines for what has come to its end; of ten thousand machines that is
 * nearly all there is to do. The work is done on a queue of works that may wait:
 * this makes it wait while addresses are being added, for a second at most.
 */

#include <linux/inetdevice.h>
#include <linux/jiffies.h>
#include <linux/notifier.h>
#include <linux/sched.h>
#include <linux/workqueue.h>

/* How long no address must have been added. */
#define PAUSE	(HZ / 10)

static unsigned long last_added;
static bool holding;

/* As long as this works, the queue's other works don't. */
static void hold(struct work_struct *work)
{
	unsigned long begun = jiffies;

	while (time_before(jiffies, last_added + PAUSE) &&
	       time_before(jiffies, begun + HZ))
		schedule_timeout_uninterruptible(last_added + PAUSE - jiffies);
	holding = false;
}

static DECLARE_WORK(hold_work, hold);

static int address_event(struct notifier_block *block, unsigned long event,
			 void *address)
{
	if (event != NETDEV_UP)
		return NOTIFY_DONE;
	last_added = jiffies;
	if (!holding) {
		holding = true;
		queue_work(system_power_efficient_wq, &hold_work);
	}
	return NOTIFY_DONE;
}

static struct notifier_block address_notifier = {
	.notifier_call = address_event,
};

static int __init addr_batch_init(void)
{
	workqueue_set_max_active(system_power_efficient_wq, 1);
	return register_inetaddr_notifier(&address_notifier);
}
late_initcall(addr_batch_init);
