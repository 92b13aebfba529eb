// SPDX-License-Identifier: GPL-2.0
/* The Internet checksum's sum (RFC 1071), eight bytes at a time. */

#include <linux/types.h>
#include <linux/unaligned.h>
#include <net/checksum.h>

static u64 add_carry(u64 sum, u64 word)
{
	sum += word;
	return sum + (sum < word);
}

unsigned int do_csum(const unsigned char *buf, int len)
{
	u64 sum = 0;

	for (; len >= 32; buf += 32, len -= 32) {
		sum = add_carry(sum, get_unaligned((const u64 *)buf));
		sum = add_carry(sum, get_unaligned((const u64 *)(buf + 8)));
		sum = add_carry(sum, get_unaligned((const u64 *)(buf + 16)));
		sum = add_carry(sum, get_unaligned((const u64 *)(buf + 24)));
	}
	for (; len >= 8; buf += 8, len -= 8)
		sum = add_carry(sum, get_unaligned((const u64 *)buf));
	if (len > 0) {
		u64 last = 0;

		memcpy(&last, buf, len);
		sum = add_carry(sum, last);
	}
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}
