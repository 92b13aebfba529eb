/* SPDX-License-Identifier: GPL-2.0 */
#include_next <asm/vmlinux.lds.h>

/* No constants are patched into the code yet. */
#define RUNTIME_CONST_VARIABLES
