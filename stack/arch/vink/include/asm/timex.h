/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _ASM_VINK_TIMEX_H
#define _ASM_VINK_TIMEX_H

typedef unsigned long cycles_t;

static inline cycles_t get_cycles(void)
{
	return 0;
}

/* Never the same twice, and yet the same in every run with the same seed. */
static inline unsigned long random_get_entropy(void)
{
	extern unsigned long vink_entropy_count;

	return ++vink_entropy_count;
}
#define random_get_entropy random_get_entropy

#endif
