/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory is the arena, at whatever address the host put it. Physical addresses
 * count from its start: were they the virtual ones, which would save a
 * subtraction, memmap_init() would walk some 10^10 absent pages at boot.
 */
#ifndef _ASM_VINK_PAGE_H
#define _ASM_VINK_PAGE_H

#include <linux/const.h>

#define PAGE_SHIFT	12
#define PAGE_SIZE	(_AC(1, UL) << PAGE_SHIFT)
#define PAGE_MASK	(~(PAGE_SIZE - 1))

#ifndef __ASSEMBLY__

#include <linux/string.h>

typedef struct { unsigned long pte; } pte_t;
typedef struct { unsigned long pmd; } pmd_t;
typedef struct { unsigned long pgd; } pgd_t;
typedef struct { unsigned long pgprot; } pgprot_t;
typedef struct page *pgtable_t;

#define pte_val(x)	((x).pte)
#define pmd_val(x)	((x).pmd)
#define pgd_val(x)	((x).pgd)
#define pgprot_val(x)	((x).pgprot)

#define __pte(x)	((pte_t) { (x) })
#define __pmd(x)	((pmd_t) { (x) })
#define __pgd(x)	((pgd_t) { (x) })
#define __pgprot(x)	((pgprot_t) { (x) })

/* The arena's first and last-but-one address. */
extern unsigned long vink_arena_start;
extern unsigned long vink_arena_end;

#define PAGE_OFFSET	vink_arena_start

#define __pa(x)		((unsigned long)(x) - PAGE_OFFSET)
#define __va(x)		((void *)((unsigned long)(x) + PAGE_OFFSET))

#define clear_page(page)	memset((page), 0, PAGE_SIZE)
#define copy_page(to, from)	memcpy((to), (from), PAGE_SIZE)
#define clear_user_page(page, vaddr, pg)	clear_page(page)
#define copy_user_page(to, from, vaddr, pg)	copy_page(to, from)

#define virt_to_pfn(addr)	(__pa(addr) >> PAGE_SHIFT)
#define pfn_to_virt(pfn)	__va((pfn) << PAGE_SHIFT)
#define virt_to_page(addr)	pfn_to_page(virt_to_pfn(addr))
#define page_to_phys(page)	((phys_addr_t)page_to_pfn(page) << PAGE_SHIFT)
#define phys_to_page(phys)	pfn_to_page(PHYS_PFN(phys))
#define page_to_virt(page)	pfn_to_virt(page_to_pfn(page))

/* Static data of the image is no part of the arena. */
#define virt_addr_valid(addr)						\
	((unsigned long)(addr) - vink_arena_start <			\
	 vink_arena_end - vink_arena_start)

#endif /* !__ASSEMBLY__ */

#include <asm-generic/memory_model.h>
#include <asm-generic/getorder.h>

#endif /* _ASM_VINK_PAGE_H */
