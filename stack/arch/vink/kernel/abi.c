// SPDX-License-Identifier: GPL-2.0
/*
 * The border: the calls of vink/abi.h, made by a thread of the host that holds
 * the token.
 *
 * No kernel code that could need a context runs on the host's stack: a call
 * leaves a note and vink_run() goes to the idle task, which was left in
 * arch_cpu_idle() and acts upon the note as upon an interrupt.
 */

#include <linux/cpu.h>
#include <linux/fdtable.h>
#include <linux/kernel_stat.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task_stack.h>
#include <linux/start_kernel.h>
#include <linux/utsname.h>
#include <generated/utsrelease.h>
#include <net/sock.h>

#include <asm/sections.h>
#include <asm/switch_to.h>
#include <asm/vink.h>

const struct vink_ops *vink_ops;
void *vink_host;
bool vink_booted;
bool vink_dead;
bool vink_inside;
u64 vink_entries;

static bool boot_begun;
static bool yielded;		/* outside, with work left to do */
static unsigned long host_sp;	/* while inside */
static unsigned long kernel_sp;	/* while outside */

extern const char __vink_text_end[];

const struct vink_info *vink_info(void)
{
	static struct vink_info info = {
		.abi_version	= VINK_ABI_VERSION,
		.size		= sizeof(struct vink_info),
		.release	= UTS_RELEASE,
		.text_start	= _stext,
		.text_end	= __vink_text_end,
	};

	info.version = init_uts_ns.name.version;
	return &info;
}

static bool ops_complete(const struct vink_ops *ops)
{
	return ops && ops->clock && ops->console && ops->panic &&
	       ops->user_read && ops->user_write && ops->done && ops->ready &&
	       ops->gone;
}

/* The first fiber's first function. */
static void __ref enter_kernel(void)
{
	start_kernel();
}

/* Where to go on, on the stack of a task that stays: 0, there. */
static unsigned long serve_staying(void)
{
	return vink_serve_staying() ? host_sp : 0;
}

/* Go to where the kernel left off, until it leaves again. */
static int enter(void)
{
	vink_inside = true;
	vink_entries++;
	if (vink_staying && vink_staying->call)
		vink_call_and_switch(serve_staying, &host_sp, kernel_sp);
	else
		vink_switch_stack(NULL, &host_sp, kernel_sp);
	vink_inside = false;
	return vink_dead ? VINK_DEAD : 0;
}

void vink_leave(void)
{
	vink_switch_stack(NULL, &kernel_sp, host_sp);
}

void vink_yield(void)
{
	yielded = true;
	vink_leave();
	yielded = false;
	vink_take_notes();
	vink_poll_interrupts();
	/* The clock may be a virtual one, by which no task has run for long. */
	yield();
}

int vink_boot(const struct vink_boot *boot)
{
	unsigned long *sp;
	int err;

	if (boot->abi_version != VINK_ABI_VERSION ||
	    boot->size != sizeof(*boot))
		return -EPROTO;
	if (!ops_complete(boot->ops) ||
	    !boot->arena || (unsigned long)boot->arena % VINK_ARENA_ALIGN ||
	    boot->arena_size % VINK_ARENA_ALIGN)
		return -EINVAL;
	if (boot->arena_size < VINK_ARENA_MIN)
		return -ENOMEM;
	if (boot_begun)
		return -EALREADY;
	boot_begun = true;

	vink_ops = boot->ops;
	vink_host = boot->host;
	vink_setup_boot(boot);

	/* A frame as vink_switch_stack() leaves it: six registers, a return. */
	sp = (unsigned long *)task_pt_regs(&init_task);
	*--sp = 0;
	*--sp = (unsigned long)enter_kernel;
	kernel_sp = (unsigned long)(sp - 6);

	do {
		err = enter();
	} while (!err && !vink_booted);
	return err;
}

int vink_run(uint64_t *deadline)
{
	int err;

	if (vink_dead)
		return VINK_DEAD;
	if (!vink_booted)
		return -EINVAL;
	if (vink_inside)
		return -EBUSY;
	err = enter();
	*deadline = yielded || vink_frames_left() ? vink_clock() :
						    vink_deadline;
	return err;
}

static u64 count_sockets(void)
{
	struct net *net;
	u64 sum = 0;

	for_each_net_rcu(net)
		sum += sock_inuse_get(net);
	return sum;
}

/* Processes that share a table (VINK_CLONE_FILES) count it each. */
static u64 count_descriptors(void)
{
	struct task_struct *p;
	u64 sum = 0;

	for_each_process(p) {
		struct fdtable *fdt;

		if (!p->files)
			continue;
		fdt = files_fdtable(p->files);
		sum += bitmap_weight(fdt->open_fds, fdt->max_fds);
	}
	return sum;
}

int vink_counters(struct vink_counters *counters)
{
	if (!vink_booted)
		return -EINVAL;
	*counters = (struct vink_counters) {
		.tasks		= vink_slot_count(),
		.machines	= vink_machine_count(),
		.sockets	= count_sockets(),
		.files		= count_descriptors(),
		.arena_pages	= totalram_pages(),
		.free_pages	= global_zone_page_state(NR_FREE_PAGES),
		.switches	= nr_context_switches(),
		.calls		= vink_calls_started(),
	};
	return 0;
}
