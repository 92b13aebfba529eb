/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Programs' memory: in this process, or in another one that the host reads and
 * writes for us. Which, is a property of the task (thread.space). All of it is
 * out of line, in lib/uaccess.c.
 */
#ifndef _ASM_VINK_UACCESS_H
#define _ASM_VINK_UACCESS_H

#include <linux/string.h>
#include <asm/extable.h>

unsigned long raw_copy_from_user(void *to, const void __user *from,
				 unsigned long n);
unsigned long raw_copy_to_user(void __user *to, const void *from,
			       unsigned long n);

/* 0, or -EFAULT. @size is 1, 2, 4 or 8. */
int vink_get_user(void *to, const void __user *from, unsigned long size);
int vink_put_user(void __user *to, const void *from, unsigned long size);
/* The same for this process's memory, whatever the task's space is. */
int vink_get_here(void *to, const void *from, unsigned long size);
int vink_put_here(void *to, const void *from, unsigned long size);

#define __get_user_fn(size, from, to)	vink_get_user(to, from, size)
#define __put_user_fn(size, to, from)	vink_put_user(to, from, size)

#define __get_kernel_nofault(dst, src, type, err_label)			\
do {									\
	if (vink_get_here((dst), (src), sizeof(type)))			\
		goto err_label;						\
} while (0)

#define __put_kernel_nofault(dst, src, type, err_label)			\
do {									\
	if (vink_put_here((dst), (src), sizeof(type)))			\
		goto err_label;						\
} while (0)

unsigned long __clear_user(void __user *to, unsigned long n);
#define __clear_user __clear_user

#include <asm-generic/uaccess.h>

#endif /* _ASM_VINK_UACCESS_H */
