/* What the kernel itself wakes when a thread or a process ends. */
#include "exact.h"
#include <linux/futex.h>
#include <sched.h>

static pthread_mutex_t *mutex;

static void *abandon(void *unused)
{
	pthread_mutex_lock(mutex);
	rest(10 * MS);
	say("ending");
	return unused;
}

static void make(int shared)
{
	pthread_mutexattr_t a;

	pthread_mutexattr_init(&a);
	pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
	pthread_mutexattr_setpshared(&a, shared ? PTHREAD_PROCESS_SHARED : PTHREAD_PROCESS_PRIVATE);
	MUST(-pthread_mutex_init(mutex, &a));
}

static void take(void)
{
	TRY0(pthread_mutex_lock(mutex));
	TRY0(pthread_mutex_consistent(mutex));
	TRY0(pthread_mutex_unlock(mutex));
}

static int body(void *unused)
{
	(void)unused;
	rest(7 * MS);
	return 0;
}

int main(void)
{
	static char stack[65536] __attribute__((aligned(16)));
	static uint32_t word;

	begin();
	mutex = shared_page();
	make(0);
	pthread_t t = begin_thread(abandon, NULL);
	rest(1 * MS);
	take();
	pthread_join(t, NULL);

	make(1);
	for (int killed = 0; killed < 2; killed++) {
		pid_t pid = MUST(fork());
		if (!pid) {
			pthread_mutex_lock(mutex);
			rest(killed ? 3600000 * MS : 10 * MS);
			_exit(0);
		}
		pid_t killer = MUST(fork());
		if (!killer) {
			rest(20 * MS);
			if (killed)
				kill(pid, SIGKILL);
			_exit(0);
		}
		rest(1 * MS);
		take();
		MUST(waitpid(pid, NULL, 0));
		MUST(waitpid(killer, NULL, 0));
	}

	/* A process that shares the memory, whose end clears a word. */
	pid_t pid = MUST(clone(body, stack + sizeof(stack), CLONE_VM | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD, NULL, NULL,
			       NULL, &word));
	rest(1 * MS);
	TRY(syscall(SYS_futex, &word, FUTEX_WAIT, pid, NULL, NULL, 0));
	TRY(word);
	MUST(waitpid(pid, NULL, 0));
	return 0;
}
