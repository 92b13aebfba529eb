// SPDX-License-Identifier: GPL-2.0
/*
 * The end: a panic is told to the host with a backtrace, and then the kernel
 * leaves and is never entered again. Also where faults come in.
 */

#include <linux/extable.h>
#include <linux/panic_notifier.h>
#include <linux/sched/debug.h>
#include <linux/sched/task_stack.h>
#include <linux/stacktrace.h>
#include <linux/uaccess.h>

#include <asm/extable.h>
#include <asm/ptrace.h>
#include <asm/sections.h>
#include <asm/stacktrace.h>
#include <asm/switch_to.h>
#include <asm/vink.h>

#define TRACE_MAX 64

extern const char __vink_text_end[];
void vink_fault_entry(void);

static struct vink_fault fault;
static bool faulted;
/* A fault may be a stack's overflow: its panic must not need that stack. */
static u8 emergency_stack[THREAD_SIZE] __aligned(16);

static bool in_text(unsigned long addr)
{
	return addr >= (unsigned long)_stext &&
	       addr < (unsigned long)__vink_text_end;
}

unsigned int vink_walk_stack(unsigned long fp, u64 *trace, unsigned int max)
{
	unsigned int depth = 0;

	while (depth < max && fp && !(fp & 7)) {
		unsigned long frame[2];

		if (copy_from_kernel_nofault(frame, (void *)fp, sizeof(frame)))
			break;
		if (!in_text(frame[1]))
			break;
		trace[depth++] = frame[1];
		/* Outer frames lie higher, or on another stack altogether. */
		if (frame[0] == fp)
			break;
		fp = frame[0];
	}
	return depth;
}

void arch_stack_walk(stack_trace_consume_fn consume, void *cookie,
		     struct task_struct *task, struct pt_regs *regs)
{
	unsigned long fp = (unsigned long)__builtin_frame_address(0);
	u64 trace[TRACE_MAX];
	unsigned int depth, i;

	if (regs)
		fp = regs->bp;
	else if (task && task != current)
		/* rbp is the sixth register that a switch leaves behind. */
		fp = ((unsigned long *)task->thread.sp)[5];
	depth = vink_walk_stack(fp, trace, TRACE_MAX);
	for (i = 0; i < depth; i++) {
		if (!consume(cookie, trace[i]))
			return;
	}
}

static bool show_frame(void *loglvl, unsigned long addr)
{
	printk("%s [<%px>]\n", (const char *)loglvl, (void *)addr);
	return true;
}

void show_stack(struct task_struct *task, unsigned long *sp, const char *loglvl)
{
	/* The host knows the symbols: see ops->panic. */
	printk("%sCall Trace:\n", loglvl);
	arch_stack_walk(show_frame, (void *)loglvl, task, NULL);
}

static int die(struct notifier_block *nb, unsigned long event, void *message)
{
	static u64 trace[TRACE_MAX];
	struct vink_panic panic = {
		.message	= message,
		.trace		= trace,
	};

	if (faulted) {
		trace[0] = fault.rip;
		panic.depth = 1 + vink_walk_stack(fault.rbp, trace + 1,
						  TRACE_MAX - 1);
	} else {
		panic.depth = vink_walk_stack(
			(unsigned long)__builtin_frame_address(0), trace,
			TRACE_MAX);
	}
	vink_dead = true;
	vink_ops->panic(vink_host, &panic);
	vink_leave();
	return NOTIFY_DONE;
}

static struct notifier_block panic_block = {
	.notifier_call	= die,
	.priority	= INT_MIN,
};

void vink_panic_setup(void)
{
	atomic_notifier_chain_register(&panic_notifier_list, &panic_block);
}

void __noreturn vink_fault_panic(void)
{
	panic("Unable to handle a fault (signal %u) at %px, address %px",
	      fault.signal, (void *)fault.rip, (void *)fault.address);
}

int vink_fault(struct vink_fault *frame)
{
	const struct exception_table_entry *entry;


	if (!in_text(frame->rip))
		return 0;

	entry = search_exception_tables(frame->rip);
	if (entry) {
		frame->rip = (unsigned long)&entry->fixup + entry->fixup;
		return 1;
	}
	/* Twice: the panic itself has failed. Let the host's default act. */
	if (faulted)
		return 0;
	faulted = true;
	fault = *frame;
	frame->rsp = (unsigned long)emergency_stack + sizeof(emergency_stack);
	frame->rip = (unsigned long)vink_fault_entry;
	return 1;
}
