/* SPDX-License-Identifier: GPL-2.0 */
/* this_cpu_*() need no interrupt guard here; the reason is in irqflags.h. */
#ifndef _ASM_VINK_PERCPU_H
#define _ASM_VINK_PERCPU_H

#include <asm-generic/percpu.h>

#undef this_cpu_generic_read
#define this_cpu_generic_read(pcp)	raw_cpu_generic_read(pcp)
#undef this_cpu_generic_to_op
#define this_cpu_generic_to_op(pcp, val, op)				\
	raw_cpu_generic_to_op(pcp, val, op)
#undef this_cpu_generic_add_return
#define this_cpu_generic_add_return(pcp, val)				\
	raw_cpu_generic_add_return(pcp, val)
#undef this_cpu_generic_xchg
#define this_cpu_generic_xchg(pcp, nval)	raw_cpu_generic_xchg(pcp, nval)

#endif
