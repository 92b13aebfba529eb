/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _ASM_VINK_SWITCH_TO_H
#define _ASM_VINK_SWITCH_TO_H

#include <asm-generic/switch_to.h>

/*
 * Leave this stack, storing its pointer at *@save, for the one that a like
 * call left at @load. Returns @prev on the other side: see kernel/switch.S.
 */
struct task_struct *vink_switch_stack(struct task_struct *prev,
				      unsigned long *save, unsigned long load);

/*
 * The same, but @fn is called on the stack at @load before what left it there
 * goes on; that does not, if @fn returns another such stack to go on with.
 */
void vink_call_and_switch(unsigned long (*fn)(void), unsigned long *save,
			  unsigned long load);

/* Call @fn(@arg) on the stack whose upper end is @top. */
int vink_call_on_stack(int (*fn)(void *arg), void *arg, void *top);

#endif
