// SPDX-License-Identifier: GPL-2.0
/*
 * Pages of programs, for senders that do not copy (MSG_ZEROCOPY, vmsplice).
 *
 * A program's memory is not the kernel's: it is in another process, or outside
 * of the arena, and has no struct page. Such a sender gets pages of its own with
 * the program's bytes in them, and gives them back as it would give back the
 * program's: a completion comes when it does on any kernel. A write after the
 * call and before the completion does not show in what is sent; programs may
 * not rely on that. Pages to be written to cannot be had.
 *
 * The linker puts this in the place of get_user_pages_fast() (see Makefile),
 * which finds no page without an MMU.
 */

#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/uaccess.h>

int __wrap_get_user_pages_fast(unsigned long start, int count,
			       unsigned int flags, struct page **pages);

int __wrap_get_user_pages_fast(unsigned long start, int count,
			       unsigned int flags, struct page **pages)
{
	int done;

	if (flags & FOLL_WRITE)
		return -EFAULT;
	start &= PAGE_MASK;
	for (done = 0; done < count; done++, start += PAGE_SIZE) {
		struct page *page = alloc_page(GFP_KERNEL);

		if (!page)
			return done ?: -ENOMEM;
		if (copy_from_user(page_address(page),
				   (const void __user *)start, PAGE_SIZE)) {
			put_page(page);
			return done ?: -EFAULT;
		}
		pages[done] = page;
	}
	return done;
}
