// SPDX-License-Identifier: GPL-2.0
/*
 * System calls by the host's numbers, and those that make no sense for tasks
 * whose programs live elsewhere.
 */

#include <linux/linkage.h>
#include <linux/syscalls.h>

#include <asm/syscall.h>
#include <asm/unistd.h>

/* Entries of the x86 table that only x86 implements. */
#define x86_only(call)		\
	long call(void);	\
	cond_syscall(call)

x86_only(sys_arch_prctl);
cond_syscall(sys_ioperm);
x86_only(sys_iopl);
cond_syscall(sys_map_shadow_stack);
x86_only(sys_mmap);
x86_only(sys_modify_ldt);
x86_only(sys_rt_sigreturn);
x86_only(sys_uretprobe);

#define sys_fn(call) ((sys_call_fn)(void *)(call))

#define __SYSCALL(nr, call) [nr] = sys_fn(call),
#define __SYSCALL_NORETURN __SYSCALL

const sys_call_fn sys_call_table[NR_syscalls] = {
#include <asm/syscall_table_64.h>
	/* Processes are the host's. */
	[__NR_clone]		= sys_fn(sys_ni_syscall),
	[__NR_clone3]		= sys_fn(sys_ni_syscall),
	[__NR_fork]		= sys_fn(sys_ni_syscall),
	[__NR_vfork]		= sys_fn(sys_ni_syscall),
	[__NR_execve]		= sys_fn(sys_ni_syscall),
	[__NR_execveat]		= sys_fn(sys_ni_syscall),
	[__NR_exit]		= sys_fn(sys_ni_syscall),
	[__NR_exit_group]	= sys_fn(sys_ni_syscall),
	[__NR_ptrace]		= sys_fn(sys_ni_syscall),
	/* Nor is there a computer to reboot. */
	[__NR_reboot]		= sys_fn(sys_ni_syscall),
};
