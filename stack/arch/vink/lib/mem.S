/* SPDX-License-Identifier: GPL-2.0 */
/*
 * memcpy, memmove, memset. Short ones with pairs of loads that may overlap, long
 * ones with the string instructions, which processors with ERMS run at the full
 * width of the cache. SSE is free to use: a user-space kernel saves no state of
 * it, and at a call no register of it is live.
 */

#include <linux/linkage.h>

	.text

SYM_FUNC_START(memcpy)
	movq	%rdi, %rax
	cmpq	$16, %rdx
	jb	.Lcopy_below_16
	cmpq	$32, %rdx
	ja	.Lcopy_above_32
	movups	(%rsi), %xmm0
	movups	-16(%rsi, %rdx), %xmm1
	movups	%xmm0, (%rdi)
	movups	%xmm1, -16(%rdi, %rdx)
	ret

.Lcopy_above_32:
	cmpq	$256, %rdx
	ja	.Lcopy_string
	movups	-32(%rsi, %rdx), %xmm2
	movups	-16(%rsi, %rdx), %xmm3
	leaq	-32(%rdi, %rdx), %rcx
1:	movups	(%rsi), %xmm0
	movups	16(%rsi), %xmm1
	movups	%xmm0, (%rdi)
	movups	%xmm1, 16(%rdi)
	addq	$32, %rsi
	addq	$32, %rdi
	cmpq	%rcx, %rdi
	jb	1b
	movups	%xmm2, (%rcx)
	movups	%xmm3, 16(%rcx)
	ret

.Lcopy_string:
	movq	%rdx, %rcx
	rep movsb
	ret

.Lcopy_below_16:
	cmpl	$8, %edx
	jb	2f
	movq	(%rsi), %rcx
	movq	-8(%rsi, %rdx), %r8
	movq	%rcx, (%rdi)
	movq	%r8, -8(%rdi, %rdx)
	ret
2:	cmpl	$4, %edx
	jb	3f
	movl	(%rsi), %ecx
	movl	-4(%rsi, %rdx), %r8d
	movl	%ecx, (%rdi)
	movl	%r8d, -4(%rdi, %rdx)
	ret
3:	testl	%edx, %edx
	je	4f
	movzbl	(%rsi), %ecx
	movzbl	-1(%rsi, %rdx), %r8d
	cmpl	$3, %edx
	jb	5f
	movzbl	1(%rsi), %r9d
	movb	%r9b, 1(%rdi)
5:	movb	%cl, (%rdi)
	movb	%r8b, -1(%rdi, %rdx)
4:	ret
SYM_FUNC_END(memcpy)

SYM_FUNC_START(memmove)
	movq	%rdi, %rcx
	subq	%rsi, %rcx
	cmpq	%rdx, %rcx
	jae	memcpy
	cmpq	$32, %rdx
	jbe	memcpy
	/* The target's start lies in the source: from the end downwards. */
	movq	%rdi, %rax
	movups	(%rsi), %xmm2
	movups	16(%rsi), %xmm3
1:	movups	-16(%rsi, %rdx), %xmm0
	movups	-32(%rsi, %rdx), %xmm1
	movups	%xmm0, -16(%rdi, %rdx)
	movups	%xmm1, -32(%rdi, %rdx)
	subq	$32, %rdx
	cmpq	$32, %rdx
	ja	1b
	movups	%xmm2, (%rdi)
	movups	%xmm3, 16(%rdi)
	ret
SYM_FUNC_END(memmove)

SYM_FUNC_START(memset)
	movq	%rdi, %r9
	movzbl	%sil, %eax
	cmpq	$64, %rdx
	ja	1f
	movabsq	$0x0101010101010101, %rcx
	imulq	%rcx, %rax
	cmpl	$8, %edx
	jb	3f
	leaq	-8(%rdi, %rdx), %rcx
2:	movq	%rax, (%rdi)
	addq	$8, %rdi
	cmpq	%rcx, %rdi
	jb	2b
	movq	%rax, (%rcx)
	movq	%r9, %rax
	ret
1:	movq	%rdx, %rcx
	rep stosb
	movq	%r9, %rax
	ret
3:	testl	%edx, %edx
	je	5f
4:	movb	%al, -1(%rdi, %rdx)
	decl	%edx
	jne	4b
5:	movq	%r9, %rax
	ret
SYM_FUNC_END(memset)
