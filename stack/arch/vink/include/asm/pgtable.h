/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _ASM_VINK_PGTABLE_H
#define _ASM_VINK_PGTABLE_H

#include <asm-generic/pgtable-nopud.h>

#ifndef __ASSEMBLY__

#include <asm/page.h>
#include <asm/processor.h>

#define pgd_present(pgd)	(1)
#define pgd_none(pgd)		(0)
#define pgd_bad(pgd)		(0)
#define pgd_clear(pgdp)		do { } while (0)
#define pmd_offset(dir, addr)	((void *)0)

#define PAGE_NONE	__pgprot(0)
#define PAGE_SHARED	__pgprot(0)
#define PAGE_COPY	__pgprot(0)
#define PAGE_READONLY	__pgprot(0)
/* Means nothing, but the allocator for modules complains about 0. */
#define PAGE_KERNEL	__pgprot(1)

#define swapper_pg_dir	((pgd_t *)0)

#define VMALLOC_START	PAGE_SIZE
#define VMALLOC_END	(~0UL)

/* A page of zeroes; from the arena, since static data has no struct page. */
extern void *vink_zero_page;
#define ZERO_PAGE(vaddr)	virt_to_page(vink_zero_page)

#endif

#endif /* _ASM_VINK_PGTABLE_H */
