/* Threads that wait for each other: mutexes, conditions, barriers, rwlocks, semaphores, ends. */
#include "exact.h"
#include <semaphore.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t barrier;
static sem_t sem;
static int ready;

static void *hold(void *unused)
{
	pthread_mutex_lock(&mutex);
	rest(30 * MS);
	say("unlocking");
	pthread_mutex_unlock(&mutex);
	return unused;
}

static void *lock(void *name)
{
	pthread_mutex_lock(&mutex);
	say("%s has it", (char *)name);
	rest(1 * MS + 1);
	pthread_mutex_unlock(&mutex);
	return NULL;
}

static void mutexes(void)
{
	pthread_t t[4];
	struct timespec until;

	t[0] = begin_thread(hold, NULL);
	rest(1 * MS);
	until = ahead(CLOCK_REALTIME, 10 * MS);
	TRY0(pthread_mutex_timedlock(&mutex, &until));
	until = ahead(CLOCK_MONOTONIC, 10 * MS + 7);
	TRY0(pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &until));
	t[1] = begin_thread(lock, "first");
	t[2] = begin_thread(lock, "second");
	t[3] = begin_thread(lock, "third");
	for (int i = 0; i < 4; i++)
		TRY0(pthread_join(t[i], NULL));
}

static void *wait_for_it(void *name)
{
	pthread_mutex_lock(&mutex);
	while (!ready)
		pthread_cond_wait(&cond, &mutex);
	ready--;
	say("%s goes on", (char *)name);
	pthread_mutex_unlock(&mutex);
	return name;
}

static void conditions(void)
{
	pthread_t t[4];
	char *names[] = { "a", "b", "c", "d" };
	struct timespec until = ahead(CLOCK_REALTIME, 1234567);

	pthread_mutex_lock(&mutex);
	TRY0(pthread_cond_timedwait(&cond, &mutex, &until));
	until = ahead(CLOCK_MONOTONIC, 1);
	TRY0(pthread_cond_clockwait(&cond, &mutex, CLOCK_MONOTONIC, &until));
	pthread_mutex_unlock(&mutex);
	for (int i = 0; i < 4; i++)
		t[i] = begin_thread(wait_for_it, names[i]);
	for (int i = 0; i < 2; i++) {
		rest(5 * MS);
		pthread_mutex_lock(&mutex);
		ready++;
		pthread_cond_signal(&cond);
		pthread_mutex_unlock(&mutex);
	}
	rest(5 * MS);
	pthread_mutex_lock(&mutex);
	ready += 2;
	pthread_cond_broadcast(&cond);
	pthread_mutex_unlock(&mutex);
	for (int i = 0; i < 4; i++)
		TRY0(pthread_join(t[i], NULL));
}

static void *meet(void *ms)
{
	rest((long)ms * MS);
	int last = pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD;
	say("%ld ms: %s", (long)ms, last ? "the one" : "one of them");
	return NULL;
}

static void barriers(void)
{
	pthread_t t[3];

	pthread_barrier_init(&barrier, NULL, 3);
	for (long i = 0; i < 3; i++)
		t[i] = begin_thread(meet, (void *)(10 * (3 - i)));
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
}

static void *read_it(void *name)
{
	pthread_rwlock_rdlock(&rwlock);
	say("%s reads", (char *)name);
	rest(10 * MS);
	pthread_rwlock_unlock(&rwlock);
	return NULL;
}

static void *write_it(void *name)
{
	pthread_rwlock_wrlock(&rwlock);
	say("%s writes", (char *)name);
	rest(10 * MS);
	pthread_rwlock_unlock(&rwlock);
	return NULL;
}

static void rwlocks(void)
{
	pthread_t t[4];
	struct timespec until;

	t[0] = begin_thread(read_it, "r1");
	t[1] = begin_thread(read_it, "r2");
	rest(1 * MS);
	t[2] = begin_thread(write_it, "w1");
	t[3] = begin_thread(write_it, "w2");
	rest(1 * MS);
	until = ahead(CLOCK_MONOTONIC, 3 * MS);
	TRY0(pthread_rwlock_clockwrlock(&rwlock, CLOCK_MONOTONIC, &until));
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
}

static void *post(void *unused)
{
	rest(10 * MS);
	say("posting");
	sem_post(&sem);
	return unused;
}

static void semaphores(void)
{
	struct timespec until;
	pthread_t t;

	MUST(sem_init(&sem, 0, 0));
	until = ahead(CLOCK_REALTIME, 50 * MS);
	TRY(sem_timedwait(&sem, &until));
	t = begin_thread(post, NULL);
	TRY(sem_wait(&sem));
	pthread_join(t, NULL);
	t = begin_thread(post, NULL);
	until = ahead(CLOCK_MONOTONIC, 3600000 * MS);
	TRY(sem_clockwait(&sem, CLOCK_MONOTONIC, &until));
	until = ahead(CLOCK_REALTIME, 5 * MS);
	TRY0(pthread_timedjoin_np(t, NULL, &until));
}

static void *sleep_long(void *unused)
{
	rest(100 * MS);
	return unused;
}

static void ends(void)
{
	pthread_t t = begin_thread(sleep_long, NULL);
	struct timespec until = ahead(CLOCK_REALTIME, 10 * MS);

	TRY0(pthread_timedjoin_np(t, NULL, &until));
	TRY0(pthread_tryjoin_np(t, NULL));
	TRY0(pthread_join(t, NULL));
	t = begin_thread(sleep_long, NULL);
	rest(20 * MS);
	TRY0(pthread_cancel(t));
	TRY0(pthread_join(t, NULL));
}

int main(void)
{
	begin();
	mutexes();
	conditions();
	barriers();
	rwlocks();
	semaphores();
	ends();
	say("end");
	return 0;
}
