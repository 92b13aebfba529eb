/*
 * An image without a kernel, for what a real one can't be asked to do: be of
 * another version, lack a symbol, jump through a bad pointer, have no timer.
 * The kernel parameter says which fault vink_run() commits. Control calls give
 * 5, sysinfo() tells of free memory, other calls wait.
 */
#include <linux/sysinfo.h>
#include <sys/syscall.h>
#include <vink/abi.h>

#ifndef VERSION
#define VERSION VINK_ABI_VERSION
#endif

static struct vink_boot boot;
static char fault_to_commit;
/* What ends a loop. */
static volatile int *stop;
static void *way_out[5];
static uint64_t trace[2];

/* The linker's own. */
#define HIDDEN __attribute__((visibility("hidden")))
extern const char __ehdr_start[] HIDDEN;
extern const char etext[] HIDDEN;

static const struct vink_info info = {
	.abi_version = VERSION, .size = sizeof(info),
	.release = "0.0.0-stub", .version = "#0",
	.text_start = __ehdr_start, .text_end = etext,
};

VINK_API const struct vink_info *vink_info(void)
{
	return &info;
}

VINK_API int vink_boot(const struct vink_boot *b)
{
	boot = *b;
	boot.ops->console(boot.host, "stub\xff\n", 6);
	fault_to_commit = b->cmdline[0];
	if (fault_to_commit == 'l') {
		uintptr_t address = 0;
		const char *digit;

		for (digit = b->cmdline + 1; *digit >= '0' && *digit <= '9'; digit++)
			address = 10 * address + (*digit - '0');
		stop = (volatile int *)address;
	}
	return 0;
}

/* Runs in the place of the code that faulted. */
static void die(void)
{
	struct vink_panic panic = {
		.message = "stub fault", .trace = trace, .depth = 2,
	};

	boot.ops->panic(boot.host, &panic);
	__builtin_longjmp(way_out, 1);
}

VINK_API int vink_fault(struct vink_fault *fault)
{
	trace[0] = fault->rip;
	trace[1] = 8;
	fault->rip = (uint64_t)die;
	fault->rsp = (fault->rsp - 4096) & -16UL;
	fault->rsp -= 8;
	return 1;
}

__attribute__((noinline)) void commit_fault(void)
{
	void (*volatile nowhere)(void) = (void (*)(void))0;
	volatile int zero = 0;

	switch (fault_to_commit) {
	case 'n':
		*(volatile int *)(uintptr_t)8 = 1;
		break;
	case 'j':
		nowhere();
		break;
	case 'b':
		__asm__ volatile("ud2");
		break;
	case 'd':
		zero = 7 / zero;
		break;
	case 'l':
		while (!*stop)
			;
	}
}

/* The one call in progress; it waits until it is cancelled. */
static struct vink_call *pending;
static int cancelled;

static void end_call(int64_t result)
{
	pending->state = VINK_CALL_DONE;
	pending->result = result;
	boot.ops->done(boot.host, pending);
	pending = 0;
}

VINK_API int vink_run(uint64_t *deadline)
{
	*deadline = VINK_NEVER;
	if (__builtin_setjmp(way_out))
		return VINK_DEAD;
	commit_fault();
	if (pending && cancelled)
		end_call(-4);
	else if (pending && pending->nr >= VINK_CALL_BASE)
		end_call(5);
	else if (pending && pending->nr == SYS_sysinfo) {
		struct sysinfo *info = (struct sysinfo *)pending->args[0];

		info->freeram = 1UL << 30;
		info->mem_unit = 1;
		end_call(0);
	}
	return 0;
}

#ifndef LACKING
VINK_API int vink_counters(struct vink_counters *counters)
{
	*counters = (struct vink_counters){ .calls = boot.seed[31] };
	return 0;
}
#endif

VINK_API int vink_call_start(uint64_t task, struct vink_call *call)
{
	call->state = VINK_CALL_RUNNING;
	pending = call;
	cancelled = 0;
	return 0;
}

VINK_API int vink_call_cancel(uint64_t task)
{
	cancelled = 1;
	return 0;
}

VINK_API int64_t vink_fiber_call(uint64_t nr, uint64_t a0, uint64_t a1,
				 uint64_t a2, uint64_t a3, uint64_t a4,
				 uint64_t a5)
{
	return -38;
}
