/* SPDX-License-Identifier: GPL-2.0 */
/* What 6.12 makes of arch_xchg() and arch_cmpxchg() by itself. */
#ifndef _ASM_VINK_6_1_ATOMIC_H
#define _ASM_VINK_6_1_ATOMIC_H

#include_next <asm/atomic.h>

#define arch_atomic_xchg(v, i)		arch_xchg(&(v)->counter, (i))
#define arch_atomic_cmpxchg(v, old, i)	arch_cmpxchg(&(v)->counter, (old), (i))
#define arch_atomic64_xchg(v, i)	arch_xchg(&(v)->counter, (i))
#define arch_atomic64_cmpxchg(v, old, i)				\
	arch_cmpxchg(&(v)->counter, (old), (i))

#endif /* _ASM_VINK_6_1_ATOMIC_H */
