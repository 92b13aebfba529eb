/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Nothing interrupts this kernel. What a timer interrupt would do is done at
 * the moments when interrupts are enabled, but only at every so many of them:
 * reading the host's clock costs more than most critical sections do.
 */
#ifndef _ASM_VINK_IRQFLAGS_H
#define _ASM_VINK_IRQFLAGS_H

#ifndef __ASSEMBLY__

#define ARCH_IRQ_ENABLED	0UL
#define ARCH_IRQ_DISABLED	1UL

/* Enablings between two looks at the clock. */
#define VINK_POLL_INTERVAL	256

extern unsigned long vink_irqs_off;
extern int vink_poll_budget;
void vink_poll_interrupts(void);

static __always_inline unsigned long arch_local_save_flags(void)
{
	return vink_irqs_off;
}

static __always_inline void arch_local_irq_disable(void)
{
	vink_irqs_off = ARCH_IRQ_DISABLED;
	asm volatile("" : : : "memory");
}

static __always_inline void arch_local_irq_enable(void)
{
	asm volatile("" : : : "memory");
	vink_irqs_off = ARCH_IRQ_ENABLED;
	if (__builtin_expect(--vink_poll_budget < 0, 0))
		vink_poll_interrupts();
}

static __always_inline unsigned long arch_local_irq_save(void)
{
	unsigned long flags = vink_irqs_off;

	arch_local_irq_disable();
	return flags;
}

static __always_inline void arch_local_irq_restore(unsigned long flags)
{
	if (flags == ARCH_IRQ_ENABLED)
		arch_local_irq_enable();
	else
		arch_local_irq_disable();
}

static __always_inline int arch_irqs_disabled_flags(unsigned long flags)
{
	return flags != ARCH_IRQ_ENABLED;
}

static __always_inline int arch_irqs_disabled(void)
{
	return arch_irqs_disabled_flags(vink_irqs_off);
}

#endif /* !__ASSEMBLY__ */

#endif /* _ASM_VINK_IRQFLAGS_H */
