/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Exchange in plain C, for the reason given in atomic.h. No local here may be
 * named like one of linux/atomic/atomic-arch-fallback.h (___o, ___p, ___r): an
 * argument of that name would silently refer to the local itself.
 */
#ifndef _ASM_VINK_CMPXCHG_H
#define _ASM_VINK_CMPXCHG_H

#define arch_xchg(ptr, with)						\
({									\
	__typeof__(ptr) vx_ptr = (ptr);					\
	__typeof__(*(ptr)) vx_before = READ_ONCE(*vx_ptr);		\
									\
	WRITE_ONCE(*vx_ptr, (__typeof__(*(ptr)))(with));		\
	vx_before;							\
})

#define arch_cmpxchg(ptr, expected, with)				\
({									\
	__typeof__(ptr) vc_ptr = (ptr);					\
	__typeof__(*(ptr)) vc_expected = (__typeof__(*(ptr)))(expected); \
	__typeof__(*(ptr)) vc_with = (__typeof__(*(ptr)))(with);	\
	__typeof__(*(ptr)) vc_before = READ_ONCE(*vc_ptr);		\
									\
	if (vc_before == vc_expected)					\
		WRITE_ONCE(*vc_ptr, vc_with);				\
	vc_before;							\
})

#define arch_cmpxchg_local	arch_cmpxchg
#define arch_cmpxchg64		arch_cmpxchg
#define arch_cmpxchg64_local	arch_cmpxchg

#endif /* _ASM_VINK_CMPXCHG_H */
