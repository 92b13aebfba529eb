/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _ASM_VINK_DELAY_H
#define _ASM_VINK_DELAY_H

/* Busy waiting makes no sense where no hardware is: see kernel/time.c. */
void __udelay(unsigned long usecs);
void __ndelay(unsigned long nsecs);
void __delay(unsigned long loops);

#define udelay(n) __udelay(n)
#define ndelay(n) __ndelay(n)

#endif
