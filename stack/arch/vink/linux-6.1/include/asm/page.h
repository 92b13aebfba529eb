/* SPDX-License-Identifier: GPL-2.0 */
/* What 6.12 has for all flat memory. */
#ifndef _ASM_VINK_6_1_PAGE_H
#define _ASM_VINK_6_1_PAGE_H

#include_next <asm/page.h>

#define pfn_valid(pfn)	((pfn) - ARCH_PFN_OFFSET < max_mapnr)

#endif /* _ASM_VINK_6_1_PAGE_H */
