/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _ASM_VINK_IRQ_H
#define _ASM_VINK_IRQ_H

#define NR_IRQS	1

#include <asm-generic/irq.h>

#endif
