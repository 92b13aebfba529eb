// SPDX-License-Identifier: GPL-2.0
/*
 * What keeps the kernel going when the arena is full. A call that finds no memory
 * fails, but one that waits for a work queue would wait for ever if the queue had
 * no thread to run its work and could not start one. So kthreadd may use the
 * pages below the watermark, which other tasks leave alone, and each queue has a
 * second thread from the start: the first one never runs work without a spare.
 */

#include <linux/init.h>
#include <linux/kthread.h>
#include <linux/sched.h>
#include <linux/workqueue.h>

static void nothing(struct work_struct *work)
{
}

static DECLARE_WORK(first_work, nothing);
static DECLARE_WORK(first_urgent_work, nothing);

static int __init reserve_init(void)
{
	/* Not inherited by the threads that it makes: see copy_thread(). */
	kthreadd_task->flags |= PF_MEMALLOC;
	queue_work(system_wq, &first_work);
	queue_work(system_highpri_wq, &first_urgent_work);
	return 0;
}
late_initcall(reserve_init);
