/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _ASM_VINK_VMALLOC_H
#define _ASM_VINK_VMALLOC_H

#endif
