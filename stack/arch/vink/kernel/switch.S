/* SPDX-License-Identifier: GPL-2.0 */
/* Between stacks: of two fibers, or of a fiber and the host's thread. */

#include <linux/linkage.h>

	.text

/*
 * struct task_struct *vink_switch_stack(struct task_struct *prev,
 *					 unsigned long *save,
 *					 unsigned long load)
 *
 * What the System V ABI lets a function destroy, the caller has saved. The
 * floating-point control words are left alone: the kernel never changes them.
 */
SYM_FUNC_START(vink_switch_stack)
	pushq	%rbp
	pushq	%rbx
	pushq	%r12
	pushq	%r13
	pushq	%r14
	pushq	%r15
	movq	%rsp, (%rsi)
	movq	%rdx, %rsp
	popq	%r15
	popq	%r14
	popq	%r13
	popq	%r12
	popq	%rbx
	popq	%rbp
	movq	%rdi, %rax
	ret
SYM_FUNC_END(vink_switch_stack)

/*
 * void vink_call_and_switch(unsigned long (*fn)(void), unsigned long *save,
 *			     unsigned long load)
 *
 * Code that returns to where it was called from has its returns predicted; code that
 * goes on elsewhere has not one, up to the top of both stacks.
 */
SYM_FUNC_START(vink_call_and_switch)
	pushq	%rbp
	pushq	%rbx
	pushq	%r12
	pushq	%r13
	pushq	%r14
	pushq	%r15
	movq	%rsp, (%rsi)
	movq	%rdx, %rsp
	movq	40(%rsp), %rbp	/* for a backtrace of that stack */
	subq	$8, %rsp
	call	*%rdi
	addq	$8, %rsp
	testq	%rax, %rax
	cmovneq	%rax, %rsp
	popq	%r15
	popq	%r14
	popq	%r13
	popq	%r12
	popq	%rbx
	popq	%rbp
	ret
SYM_FUNC_END(vink_call_and_switch)

/*
 * Where a new fiber's first switch returns to, with what copy_thread() put in
 * rbx (function) and r12 (argument). A function that returns has become a user
 * task by kernel_execve(): pid 1, or a modprobe.
 */
SYM_FUNC_START(vink_fiber_start)
	.cfi_startproc
	.cfi_undefined rip	/* a backtrace ends here */
	subq	$8, %rsp
	movq	%rax, %rdi
	call	schedule_tail
	movq	%r12, %rdi
	call	*%rbx
	call	vink_program_main
	ud2
	.cfi_endproc
SYM_FUNC_END(vink_fiber_start)

/* int vink_call_on_stack(int (*fn)(void *arg), void *arg, void *top) */
SYM_FUNC_START(vink_call_on_stack)
	pushq	%rbp
	movq	%rsp, %rbp
	movq	%rdi, %rax
	movq	%rsi, %rdi
	andq	$-16, %rdx
	movq	%rdx, %rsp
	call	*%rax
	movq	%rbp, %rsp
	popq	%rbp
	ret
SYM_FUNC_END(vink_call_on_stack)

/* Where vink_fault() sends a thread whose fault is a bug of the kernel's. */
SYM_FUNC_START(vink_fault_entry)
	xorl	%ebp, %ebp
	call	vink_fault_panic
	ud2
SYM_FUNC_END(vink_fault_entry)
