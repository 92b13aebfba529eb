/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _ASM_VINK_CHECKSUM_H
#define _ASM_VINK_CHECKSUM_H

#include <linux/types.h>

/* In lib/csum.c: the generic one adds 16 bits at a time. */
unsigned int do_csum(const unsigned char *buf, int len);
#define do_csum do_csum

/* An IP header is a few 32-bit words; @ihl counts them. RFC 1071. */
static inline __sum16 ip_fast_csum(const void *iph, unsigned int ihl)
{
	const u32 *word = iph;
	u64 sum = 0;

	while (ihl--)
		sum += *word++;
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (__force __sum16)~sum;
}
#define ip_fast_csum ip_fast_csum

#include <asm-generic/checksum.h>

#endif
