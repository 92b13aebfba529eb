/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _ASM_VINK_CURRENT_H
#define _ASM_VINK_CURRENT_H

#ifndef __ASSEMBLY__

struct task_struct;

/* There is one CPU, so the running task is a variable. */
extern struct task_struct *vink_current;

#define get_current()	vink_current
#define current		vink_current

#endif

#endif
