/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _ASM_VINK_PROCESSOR_H
#define _ASM_VINK_PROCESSOR_H

#ifndef __ASSEMBLY__

#include <linux/types.h>

/* The host's user half: any pointer of a program may lie in it. */
#define TASK_SIZE		0x7ffffffff000UL
#define TASK_UNMAPPED_BASE	(TASK_SIZE / 3)
#define STACK_TOP		TASK_SIZE
#define STACK_TOP_MAX		TASK_SIZE

struct vink_group;
struct vink_slot;

struct thread_struct {
	unsigned long sp;	/* where __switch_to() left the stack */
	u64 space;		/* whose memory user pointers are in */
	struct vink_slot *slot;	/* the host's handle, or NULL */
	struct vink_group *group; /* what a modprobe is to start, or NULL */
};

#define INIT_THREAD { }

struct task_struct;
struct pt_regs;

#define task_pt_regs(tsk)						\
	((struct pt_regs *)(task_stack_page(tsk) + THREAD_SIZE) - 1)

#define KSTK_EIP(tsk)	(0UL)
#define KSTK_ESP(tsk)	(0UL)

void start_thread(struct pt_regs *regs, unsigned long pc, unsigned long sp);
unsigned long __get_wchan(struct task_struct *p);

static inline void cpu_relax(void)
{
	/* What spins waits for time to pass, so let it. */
	extern int vink_poll_budget;

	vink_poll_budget = 0;
	asm volatile("" : : : "memory");
}

#endif /* !__ASSEMBLY__ */

#endif /* _ASM_VINK_PROCESSOR_H */
