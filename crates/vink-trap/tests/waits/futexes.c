/* futex(2) itself: each operation, its errors, both clocks, and words shared by processes. */
#include "exact.h"
#include <linux/futex.h>

static uint32_t here, there;
static uint32_t *shared;

static long futex(uint32_t *word, int op, uint32_t value, uintptr_t timeout, uint32_t *second, uint32_t third)
{
	return syscall(SYS_futex, word, op, value, timeout, second, third);
}

static long in(uint32_t *word, int op, uint32_t value, long ns)
{
	struct timespec t = span(ns);

	return futex(word, op, value, (uintptr_t)&t, NULL, FUTEX_BITSET_MATCH_ANY);
}

static long at(uint32_t *word, int op, uint32_t value, clockid_t clock, long ns)
{
	struct timespec t = ahead(clock, ns);

	return futex(word, op, value, (uintptr_t)&t, NULL, FUTEX_BITSET_MATCH_ANY);
}

static void time_outs(void)
{
	struct timespec bad = { 0, 1000000000 };

	TRY(in(&here, FUTEX_WAIT, 1, 10 * MS));
	TRY(in(&here, FUTEX_WAIT, 0, 10 * MS));
	TRY(in(&here, FUTEX_WAIT_PRIVATE, 0, 1));
	TRY(in(&here, FUTEX_WAIT_PRIVATE, 0, 0));
	TRY(in(&here, FUTEX_WAIT | FUTEX_CLOCK_REALTIME, 0, 0));
	TRY(at(&here, FUTEX_WAIT_BITSET, 0, CLOCK_MONOTONIC, 3 * MS));
	TRY(at(&here, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, 0, CLOCK_REALTIME, 4 * MS));
	TRY(at(&here, FUTEX_WAIT_BITSET, 0, CLOCK_MONOTONIC, 0));
	TRY(in(&here, FUTEX_WAIT_BITSET, 0, 5));
	TRY(in(&here, FUTEX_WAIT, 0, -1));
	TRY(futex(&here, FUTEX_WAIT, 0, (uintptr_t)&bad, NULL, 0));
	TRY(futex(&here, FUTEX_WAIT, 0, 8, NULL, 0));
	TRY(futex((void *)8, FUTEX_WAIT, 0, 0, NULL, 0));
	TRY(futex((void *)((char *)&here + 1), FUTEX_WAIT, 0, 0, NULL, 0));
	TRY(futex(&here, FUTEX_WAIT_BITSET, 0, 0, NULL, 0));
	TRY(futex(&here, FUTEX_WAKE_BITSET, 1, 0, NULL, 0));
	TRY(futex(&here, 77, 0, 0, NULL, 0));
	TRY(futex(&here, FUTEX_FD, 0, 0, NULL, 0));
	TRY(futex(&here, FUTEX_WAKE, 1, 0, NULL, 0));
	TRY(syscall(449, NULL, 0, 0, NULL, 0));
}

static void *sleeper(void *bits)
{
	long r = futex(&here, FUTEX_WAIT_BITSET_PRIVATE, 0, 0, NULL, (long)bits);

	say("%ld is woken: %ld", (long)bits, r);
	return NULL;
}

static pthread_t t[6];

static void sleepers(int n)
{
	for (long i = 0; i < n; i++)
		t[i] = begin_thread(sleeper, (void *)(i + 1));
	rest(10 * MS);
}

static void joined(int n)
{
	for (int i = 0; i < n; i++)
		pthread_join(t[i], NULL);
}

static void wakes(void)
{
	sleepers(6);
	/* To the kernel this is another one. */
	TRY(futex(&here, FUTEX_WAKE, 9, 0, NULL, 0));
	TRY(futex(&here, FUTEX_WAKE_PRIVATE, 1, 0, NULL, 0));
	rest(1 * MS);
	TRY(futex(&here, FUTEX_WAKE_BITSET_PRIVATE, 1, 0, NULL, 2));
	rest(1 * MS);
	TRY(futex(&here, FUTEX_WAKE_BITSET_PRIVATE, 9, 0, NULL, 4));
	rest(1 * MS);
	TRY(futex(&here, FUTEX_WAKE_PRIVATE, 0, 0, NULL, 0));
	rest(1 * MS);
	TRY(futex(&here, FUTEX_WAKE_PRIVATE, INT_MAX, 0, NULL, 0));
	joined(6);
}

static void requeues(void)
{
	sleepers(6);
	TRY(futex(&here, FUTEX_CMP_REQUEUE_PRIVATE, 1, 2, &there, 1));
	TRY(futex(&here, FUTEX_CMP_REQUEUE_PRIVATE, -1, 2, &there, 0));
	TRY(futex(&here, FUTEX_CMP_REQUEUE_PRIVATE, 1, 2, &there, 0));
	rest(1 * MS);
	TRY(futex(&there, FUTEX_WAKE_PRIVATE, 1, 0, NULL, 0));
	rest(1 * MS);
	TRY(futex(&here, FUTEX_REQUEUE_PRIVATE, 0, INT_MAX, &there, 0));
	TRY(futex(&here, FUTEX_WAKE_PRIVATE, 9, 0, NULL, 0));
	TRY(futex(&there, FUTEX_WAKE_PRIVATE, 9, 0, NULL, 0));
	joined(6);
}

static void operations(void)
{
	there = 5;
	sleepers(3);
	TRY(futex(&here, FUTEX_WAKE_OP_PRIVATE, 1, 1, &there, FUTEX_OP(FUTEX_OP_ADD, 3, FUTEX_OP_CMP_GT, 9)));
	TRY(there);
	rest(1 * MS);
	TRY(futex(&there, FUTEX_WAKE_OP_PRIVATE, 1, 1, &here, FUTEX_OP(FUTEX_OP_SET, 0, FUTEX_OP_CMP_EQ, 0)));
	rest(1 * MS);
	TRY(futex(&here, FUTEX_WAKE_OP_PRIVATE, 1, 1, &there, 7u << 28));
	TRY(futex(&here, FUTEX_WAKE_OP_PRIVATE, 1, 1, (void *)8, 0));
	TRY(futex(&here, FUTEX_WAKE_PRIVATE, 1, 0, NULL, 0));
	joined(3);
}

static void processes(void)
{
	shared = shared_page();
	pid_t pid = MUST(fork());

	if (!pid) {
		TRY(in(shared + 3, FUTEX_WAIT, 0, 1000 * MS));
		TRY(in(shared + 3, FUTEX_WAIT_PRIVATE, 0, 20 * MS));
		TRY(futex(shared, FUTEX_WAKE, 1, 0, NULL, 0));
		_exit(0);
	}
	rest(5 * MS);
	/* The same page at another address. */
	uint32_t *other = mremap(shared, 0, 4096, MREMAP_MAYMOVE);
	TRY(futex(other + 3, FUTEX_WAKE, 1, 0, NULL, 0));
	rest(5 * MS);
	TRY(futex(other + 3, FUTEX_WAKE, 1, 0, NULL, 0));
	TRY(futex(other, FUTEX_WAIT, 0, 0, NULL, 0));
	MUST(waitpid(pid, NULL, 0));
	say("the child has ended");
}

int main(void)
{
	begin();
	time_outs();
	wakes();
	requeues();
	operations();
	processes();
	return 0;
}
