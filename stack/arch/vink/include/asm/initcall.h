/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Included ahead of every C file, by the compiler's command line: the section of
 * an initcall carries the name of its module, so that the linker script can tell
 * one from another. With LTO the kernel itself names them in this way.
 */
#ifndef _ASM_VINK_INITCALL_H
#define _ASM_VINK_INITCALL_H

#include <linux/init.h>

#undef __initcall_section
#define __initcall_section(__sec, __iid)	#__sec ".init." #__iid

#endif /* _ASM_VINK_INITCALL_H */
