/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One CPU and no interrupt that could come between two instructions (see
 * irqflags.h): atomic is what C does anyway, without a bus lock.
 */
#ifndef _ASM_VINK_ATOMIC_H
#define _ASM_VINK_ATOMIC_H

#include <linux/types.h>
#include <asm/barrier.h>
#include <asm/cmpxchg.h>

#define VINK_ATOMIC_OP(prefix, type, atype, op, c_op)			\
static __always_inline void						\
prefix##_##op(type i, atype *v)						\
{									\
	v->counter c_op i;						\
}

#define VINK_ATOMIC_RETURN(prefix, type, atype, op, c_op)		\
static __always_inline type						\
prefix##_##op##_return(type i, atype *v)				\
{									\
	return v->counter c_op i;					\
}

#define VINK_ATOMIC_FETCH(prefix, type, atype, op, c_op)		\
static __always_inline type						\
prefix##_fetch_##op(type i, atype *v)					\
{									\
	type before = v->counter;					\
									\
	v->counter c_op i;						\
	return before;							\
}

#define VINK_ATOMIC_ALL(prefix, type, atype)				\
	VINK_ATOMIC_OP(prefix, type, atype, add, +=)			\
	VINK_ATOMIC_OP(prefix, type, atype, sub, -=)			\
	VINK_ATOMIC_OP(prefix, type, atype, and, &=)			\
	VINK_ATOMIC_OP(prefix, type, atype, or, |=)			\
	VINK_ATOMIC_OP(prefix, type, atype, xor, ^=)			\
	VINK_ATOMIC_RETURN(prefix, type, atype, add, +=)		\
	VINK_ATOMIC_RETURN(prefix, type, atype, sub, -=)		\
	VINK_ATOMIC_FETCH(prefix, type, atype, add, +=)			\
	VINK_ATOMIC_FETCH(prefix, type, atype, sub, -=)			\
	VINK_ATOMIC_FETCH(prefix, type, atype, and, &=)			\
	VINK_ATOMIC_FETCH(prefix, type, atype, or, |=)			\
	VINK_ATOMIC_FETCH(prefix, type, atype, xor, ^=)

VINK_ATOMIC_ALL(arch_atomic, int, atomic_t)
VINK_ATOMIC_ALL(arch_atomic64, s64, atomic64_t)

#undef VINK_ATOMIC_ALL
#undef VINK_ATOMIC_FETCH
#undef VINK_ATOMIC_RETURN
#undef VINK_ATOMIC_OP

#define ATOMIC64_INIT(i)		{ (i) }

#define arch_atomic_add_return		arch_atomic_add_return
#define arch_atomic_sub_return		arch_atomic_sub_return
#define arch_atomic_fetch_add		arch_atomic_fetch_add
#define arch_atomic_fetch_sub		arch_atomic_fetch_sub
#define arch_atomic_fetch_and		arch_atomic_fetch_and
#define arch_atomic_fetch_or		arch_atomic_fetch_or
#define arch_atomic_fetch_xor		arch_atomic_fetch_xor
#define arch_atomic64_add_return	arch_atomic64_add_return
#define arch_atomic64_sub_return	arch_atomic64_sub_return
#define arch_atomic64_fetch_add		arch_atomic64_fetch_add
#define arch_atomic64_fetch_sub		arch_atomic64_fetch_sub
#define arch_atomic64_fetch_and		arch_atomic64_fetch_and
#define arch_atomic64_fetch_or		arch_atomic64_fetch_or
#define arch_atomic64_fetch_xor		arch_atomic64_fetch_xor

#define arch_atomic_read(v)		READ_ONCE((v)->counter)
#define arch_atomic_set(v, i)		WRITE_ONCE((v)->counter, (i))
#define arch_atomic64_read(v)		READ_ONCE((v)->counter)
#define arch_atomic64_set(v, i)		WRITE_ONCE((v)->counter, (i))

#endif /* _ASM_VINK_ATOMIC_H */
