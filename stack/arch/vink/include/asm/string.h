/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _ASM_VINK_STRING_H
#define _ASM_VINK_STRING_H

#define __HAVE_ARCH_MEMCPY
void *memcpy(void *to, const void *from, __kernel_size_t n);
#define __HAVE_ARCH_MEMMOVE
void *memmove(void *to, const void *from, __kernel_size_t n);
#define __HAVE_ARCH_MEMSET
void *memset(void *s, int c, __kernel_size_t n);

#endif
