// SPDX-License-Identifier: GPL-2.0
/*
 * Copies between the kernel and its programs' memory.
 *
 * Memory of this process is touched directly: a bad address raises SIGSEGV, the
 * host's handler asks vink_fault(), and that finds the instruction in the
 * exception table. Memory of another process is copied by the host, and a bad
 * address shows as a short count.
 */

#include <linux/export.h>
#include <linux/minmax.h>
#include <linux/sched.h>
#include <linux/uaccess.h>

#include <asm/extable.h>
#include <asm/vink.h>

/*
 * Bytes not copied. The string instruction takes no ownership of lines that it
 * will fill; 64 KiB writes over TCP lose 8 % with a loop of SSE moves here.
 */
static __always_inline unsigned long copy_here(void *to, const void *from,
					       unsigned long n)
{
	asm volatile("1: rep movsb\n"
		     "2:\n"
		     VINK_EXTABLE("1b", "2b")
		     : "+D" (to), "+S" (from), "+c" (n) : : "memory");
	return n;
}

unsigned long raw_copy_from_user(void *to, const void __user *from,
				 unsigned long n)
{
	u64 space = current->thread.space;

	if (likely(space == VINK_SPACE_SELF))
		return copy_here(to, (__force const void *)from, n);
	return n - vink_ops->user_read(vink_host, space, to,
				       (__force unsigned long)from, n);
}
EXPORT_SYMBOL(raw_copy_from_user);

unsigned long raw_copy_to_user(void __user *to, const void *from,
			       unsigned long n)
{
	u64 space = current->thread.space;

	if (likely(space == VINK_SPACE_SELF))
		return copy_here((__force void *)to, from, n);
	return n - vink_ops->user_write(vink_host, space,
					(__force unsigned long)to, from, n);
}
EXPORT_SYMBOL(raw_copy_to_user);

/* One load and one store; which of the two may fault is all the same. */
#define MOVE(suffix, type, to, from)					\
({									\
	type move_value;						\
	int move_err = 0;						\
									\
	asm volatile("1: mov" suffix " %2, %1\n"			\
		     "2: mov" suffix " %1, %3\n"			\
		     "3:\n"						\
		     ".pushsection .text.unlikely, \"ax\"\n"		\
		     "4: movl %4, %0\n"					\
		     "   jmp 3b\n"					\
		     ".popsection\n"					\
		     VINK_EXTABLE("1b", "4b")				\
		     VINK_EXTABLE("2b", "4b")				\
		     : "+r" (move_err), "=&q" (move_value)		\
		     : "m" (*(const type *)(from)), "m" (*(type *)(to)), \
		       "i" (-EFAULT)					\
		     : "memory");					\
	move_err;							\
})

static __always_inline int move_here(void *to, const void *from,
				     unsigned long size)
{
	switch (size) {
	case 1:
		return MOVE("b", u8, to, from);
	case 2:
		return MOVE("w", u16, to, from);
	case 4:
		return MOVE("l", u32, to, from);
	case 8:
		return MOVE("q", u64, to, from);
	}
	return copy_here(to, from, size) ? -EFAULT : 0;
}

int vink_get_here(void *to, const void *from, unsigned long size)
{
	return move_here(to, from, size);
}

int vink_put_here(void *to, const void *from, unsigned long size)
{
	return move_here(to, from, size);
}

int vink_get_user(void *to, const void __user *from, unsigned long size)
{
	if (likely(current->thread.space == VINK_SPACE_SELF))
		return move_here(to, (__force const void *)from, size);
	return raw_copy_from_user(to, from, size) ? -EFAULT : 0;
}
EXPORT_SYMBOL(vink_get_user);

int vink_put_user(void __user *to, const void *from, unsigned long size)
{
	if (likely(current->thread.space == VINK_SPACE_SELF))
		return move_here((__force void *)to, from, size);
	return raw_copy_to_user(to, from, size) ? -EFAULT : 0;
}
EXPORT_SYMBOL(vink_put_user);

unsigned long __clear_user(void __user *to, unsigned long n)
{
	static const char zeroes[256];

	while (n) {
		unsigned long step = min(n, sizeof(zeroes));
		unsigned long left = raw_copy_to_user(to, zeroes, step);

		to += step - left;
		n -= step - left;
		if (left)
			break;
	}
	return n;
}
EXPORT_SYMBOL(__clear_user);
