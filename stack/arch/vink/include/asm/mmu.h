/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _ASM_VINK_MMU_H
#define _ASM_VINK_MMU_H

typedef struct {
	unsigned long end_brk;
} mm_context_t;

#endif
