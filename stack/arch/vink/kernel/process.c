// SPDX-License-Identifier: GPL-2.0
/* Tasks as fibers: how one is made, switched to, and waits when idle. */

#include <linux/cpu.h>
#include <linux/init_task.h>
#include <linux/ptrace.h>
#include <linux/reboot.h>
#include <linux/sched.h>
#include <linux/sched/debug.h>
#include <linux/sched/task.h>
#include <linux/sched/task_stack.h>

#include <asm/stacktrace.h>
#include <asm/switch_to.h>
#include <asm/vink.h>

struct task_struct *vink_current = &init_task;

void vink_fiber_start(void);

/* As vink_switch_stack() pops it, and then what it returns to. */
struct first_frame {
	unsigned long r15, r14, r13, r12, rbx, rbp;
	void (*start)(void);
	unsigned long end_of_frames;
};

int copy_thread(struct task_struct *p, const struct kernel_clone_args *args)
{
	struct first_frame *frame = (void *)task_pt_regs(p);

	/* Only functions start here: fork(2) and clone(2) are the host's. */
	if (!args->fn)
		return -ENOSYS;

	/* kthreadd's alone: see reserve.c. */
	p->flags &= ~PF_MEMALLOC;
	memset(task_pt_regs(p), 0, sizeof(struct pt_regs));
	frame--;
	*frame = (struct first_frame) {
		.rbx	= (unsigned long)args->fn,
		.r12	= (unsigned long)args->fn_arg,
		.start	= vink_fiber_start,
	};
	p->thread = (struct thread_struct) {
		.sp	= (unsigned long)frame,
		.space	= VINK_SPACE_SELF,
	};
	return 0;
}

struct task_struct *__switch_to(struct task_struct *prev,
				struct task_struct *next)
{
	vink_current = next;
	return vink_switch_stack(prev, &prev->thread.sp, next->thread.sp);
}

/*
 * Nothing is left to do: hand the thread back to the host until the next timer
 * is due, or it has brought work. Called, and returns, with interrupts off.
 */
void arch_cpu_idle(void)
{
	do {
		if (vink_clock() >= vink_deadline) {
			vink_interrupt();
			return;
		}
		if (vink_frames_pending()) {
			vink_frames_interrupt();
			return;
		}
		vink_leave();
		vink_take_notes();
	} while (!need_resched());
}

void flush_thread(void)
{
}

void start_thread(struct pt_regs *regs, unsigned long pc, unsigned long sp)
{
}

unsigned long __get_wchan(struct task_struct *p)
{
	return 0;
}

long arch_ptrace(struct task_struct *child, long request, unsigned long addr,
		 unsigned long data)
{
	return -EIO;
}

void ptrace_disable(struct task_struct *child)
{
}

void show_regs(struct pt_regs *regs)
{
	show_stack(current, NULL, KERN_DEFAULT);
}

/* reboot(2) is not in the system call table: nothing gets here. */
void machine_restart(char *cmd)
{
	panic("restart");
}

void machine_halt(void)
{
	panic("halt");
}

void machine_power_off(void)
{
	panic("power off");
}
