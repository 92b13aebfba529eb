/* What FUTEX_WAKE_OP makes of a word, with all operations and comparisons, also those that there are not. */
#include "check.h"

#include <linux/futex.h>

static long wake_op(uint32_t *first, uint32_t *second, uint32_t encoded)
{
	return syscall(SYS_futex, first, FUTEX_WAKE_OP_PRIVATE, 1, 1, second, encoded);
}

int main(void)
{
	uint32_t first = 0, second = 0;

	begin();
	for (unsigned operation = 0; operation < 16; operation++) {
		for (unsigned comparison = 0; comparison < 16; comparison++) {
			uint32_t encoded = operation << 28 | comparison << 24 | 5 << 12 | 0xffd;

			second = 6;
			TRY(wake_op(&first, &second, encoded));
			VALUE(second);
		}
	}
	return 0;
}
