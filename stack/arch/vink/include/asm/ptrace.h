/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _ASM_VINK_PTRACE_H
#define _ASM_VINK_PTRACE_H

#include <uapi/asm/ptrace.h>

#ifndef __ASSEMBLY__

/* What stands for the registers of a program: the call in progress. */
struct pt_regs {
	unsigned long ip;
	unsigned long sp;
	unsigned long bp;
	long nr;
	unsigned long args[6];
	long result;
	unsigned long unused;	/* keeps the stack below 16-byte aligned */
};

#define user_mode(regs)			((void)(regs), 0)
#define instruction_pointer(regs)	((regs)->ip)
#define user_stack_pointer(regs)	((regs)->sp)
#define frame_pointer(regs)		((regs)->bp)
#define profile_pc(regs)		instruction_pointer(regs)
#define current_user_stack_pointer()	(0UL)

static inline void instruction_pointer_set(struct pt_regs *regs,
					   unsigned long ip)
{
	regs->ip = ip;
}

static inline long regs_return_value(struct pt_regs *regs)
{
	return regs->result;
}

static inline int is_syscall_success(struct pt_regs *regs)
{
	return regs->result >= 0;
}

#endif

#endif /* _ASM_VINK_PTRACE_H */
