/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _ASM_VINK_LINKAGE_H
#define _ASM_VINK_LINKAGE_H

#define __ALIGN		.balign 16, 0x90
#define __ALIGN_STR	".balign 16, 0x90"

#endif
