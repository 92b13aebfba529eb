// SPDX-License-Identifier: GPL-2.0
/*
 * Time: the host's clock in ns, and one timer whose deadline vink_run() reports.
 *
 * The clock is taken as it is (mult / 2^shift = 1), so that under a virtual clock
 * an event is at exactly its time.
 */

#include <linux/clockchips.h>
#include <linux/clocksource.h>
#include <linux/delay.h>
#include <linux/hardirq.h>
#include <linux/init.h>
#include <linux/irq.h>
#include <linux/jiffies.h>
#include <linux/sched/clock.h>
#include <linux/timekeeping.h>

#include <asm/irq_regs.h>
#include <asm/vink.h>

u64 vink_deadline = VINK_NEVER;
u64 vink_epoch;
unsigned long vink_entropy_count;	/* asm/timex.h */

static u64 read_clock(struct clocksource *cs)
{
	return vink_clock();
}

static struct clocksource clock = {
	.name	= "vink",
	.rating	= 400,
	.read	= read_clock,
	.mask	= CLOCKSOURCE_MASK(64),
	.mult	= 1 << 10,
	.shift	= 10,
	.flags	= CLOCK_SOURCE_IS_CONTINUOUS | CLOCK_SOURCE_VALID_FOR_HRES,
};

/*
 * From the first moment: on jiffies, the kernel's idea of the date would fall
 * behind the host's, which its programs see, by what booting takes.
 */
struct clocksource * __init clocksource_default_clock(void)
{
	return &clock;
}

static bool exact_sched_clock __ro_after_init;

static int __init set_exact_sched_clock(char *unused)
{
	exact_sched_clock = true;
	return 0;
}
early_param("vink_exact_sched_clock", set_exact_sched_clock);

/*
 * By default jiffies, since the host's clock costs a call at each switch of
 * tasks. They stand still in an idle kernel, and its next task is charged for
 * what has passed since they last moved: that depends on what has looked. When a
 * task ends, its time goes into the kernel's random numbers, which would then
 * differ between runs that are to repeat.
 */
unsigned long long notrace sched_clock(void)
{
	if (exact_sched_clock)
		return vink_clock();
	return (u64)(jiffies - INITIAL_JIFFIES) * TICK_NSEC;
}

static int set_deadline(ktime_t expires, struct clock_event_device *dev)
{
	s64 delta = ktime_to_ns(ktime_sub(expires, ktime_get()));

	vink_deadline = vink_clock() + max(delta, 0LL);
	return 0;
}

static int no_deadline(struct clock_event_device *dev)
{
	vink_deadline = VINK_NEVER;
	return 0;
}

static struct clock_event_device timer = {
	.name			= "vink",
	.rating			= 400,
	.features		= CLOCK_EVT_FEAT_ONESHOT | CLOCK_EVT_FEAT_KTIME,
	.set_next_ktime		= set_deadline,
	.set_state_shutdown	= no_deadline,
};

/* With interrupts off, as an interrupt would find them. */
void vink_interrupt(void)
{
	static struct pt_regs regs;
	struct pt_regs *old = set_irq_regs(&regs);

	vink_deadline = VINK_NEVER;
	irq_enter();
	timer.event_handler(&timer);
	irq_exit();
	set_irq_regs(old);
}

void __init time_init(void)
{
	__clocksource_register(&clock);
	timer.cpumask = cpumask_of(0);
	clockevents_config_and_register(&timer, NSEC_PER_SEC, 1, LONG_MAX);
}

void read_persistent_clock64(struct timespec64 *ts)
{
	*ts = ns_to_timespec64(vink_epoch + vink_clock());
}

/*
 * Between the two readings of the clock that set the date at first lies some
 * of the boot, and programs would see packets received before they were sent.
 * Once more, twice: the second time with all of it in the caches.
 */
static int __init set_date(void)
{
	struct timespec64 ts;
	int i;

	for (i = 0; i < 2; i++) {
		read_persistent_clock64(&ts);
		do_settimeofday64(&ts);
	}
	return 0;
}
late_initcall(set_date);

/* Nothing here spins for hardware: jiffies need no loops. */
void calibrate_delay(void)
{
	loops_per_jiffy = 1;
}

void __delay(unsigned long loops)
{
}

void __ndelay(unsigned long nsecs)
{
}

void __udelay(unsigned long usecs)
{
}
