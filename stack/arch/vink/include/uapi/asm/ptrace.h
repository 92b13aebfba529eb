/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
#ifndef _UAPI_ASM_VINK_PTRACE_H
#define _UAPI_ASM_VINK_PTRACE_H

/* Tasks have no registers: what runs above them is the host's. */
struct user_regs_struct {
	unsigned long none;
};

#endif
