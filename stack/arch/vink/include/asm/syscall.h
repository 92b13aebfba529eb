/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _ASM_VINK_SYSCALL_H
#define _ASM_VINK_SYSCALL_H

#include <linux/err.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <uapi/linux/audit.h>
#include <asm/ptrace.h>

typedef long (*sys_call_fn)(unsigned long a0, unsigned long a1,
			    unsigned long a2, unsigned long a3,
			    unsigned long a4, unsigned long a5);

extern const sys_call_fn sys_call_table[];

static inline int syscall_get_nr(struct task_struct *task, struct pt_regs *regs)
{
	return regs->nr;
}

static inline void syscall_rollback(struct task_struct *task,
				    struct pt_regs *regs)
{
}

static inline long syscall_get_error(struct task_struct *task,
				     struct pt_regs *regs)
{
	return IS_ERR_VALUE(regs->result) ? regs->result : 0;
}

static inline long syscall_get_return_value(struct task_struct *task,
					    struct pt_regs *regs)
{
	return regs->result;
}

static inline void syscall_set_return_value(struct task_struct *task,
					    struct pt_regs *regs,
					    int error, long val)
{
	regs->result = error ?: val;
}

static inline void syscall_get_arguments(struct task_struct *task,
					 struct pt_regs *regs,
					 unsigned long *args)
{
	memcpy(args, regs->args, sizeof(regs->args));
}

static inline int syscall_get_arch(struct task_struct *task)
{
	return AUDIT_ARCH_X86_64;
}

#endif /* _ASM_VINK_SYSCALL_H */
