// SPDX-License-Identifier: GPL-2.0
/*
 * The timer's interrupt, and that of frames from outside: both are polled for,
 * see asm/irqflags.h.
 */

#include <linux/hardirq.h>
#include <linux/interrupt.h>
#include <linux/irq.h>
#include <linux/seq_file.h>

#include <asm/vink.h>

unsigned long vink_irqs_off = ARCH_IRQ_DISABLED;
int vink_poll_budget = VINK_POLL_INTERVAL;

void vink_poll_interrupts(void)
{
	bool due = vink_deadline != VINK_NEVER && vink_clock() >= vink_deadline;
	bool frames = vink_frames_pending();
	unsigned long flags;

	vink_poll_budget = VINK_POLL_INTERVAL;
	if (!due && !frames)
		return;
	/* Not through local_irq_save(): that would come back here. */
	flags = vink_irqs_off;
	vink_irqs_off = ARCH_IRQ_DISABLED;
	if (due)
		vink_interrupt();
	if (frames)
		vink_frames_interrupt();
	vink_irqs_off = flags;
}

void __init init_IRQ(void)
{
}

int arch_show_interrupts(struct seq_file *p, int prec)
{
	return 0;
}

