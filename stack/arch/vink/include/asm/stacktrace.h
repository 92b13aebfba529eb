/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _ASM_VINK_STACKTRACE_H
#define _ASM_VINK_STACKTRACE_H

#include <linux/types.h>

/*
 * Return addresses from frame pointer @fp outwards, at most @max of them into
 * @trace. Stops at anything that is not a frame of kernel text.
 */
unsigned int vink_walk_stack(unsigned long fp, u64 *trace, unsigned int max);

#endif
