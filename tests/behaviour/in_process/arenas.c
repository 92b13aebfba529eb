/* Threads that allocate, more than there are arenas for: the C library asks how many processors there are meanwhile. */
#include "../check.h"
#include <pthread.h>

#define THREADS 16

static pthread_barrier_t all;

static void *allocate(void *unused)
{
	void *volatile some = malloc(100);

	pthread_barrier_wait(&all);
	free(some);
	return unused;
}

int main(void)
{
	pthread_t threads[THREADS];
	int i;

	pthread_barrier_init(&all, NULL, THREADS);
	for (i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, allocate, NULL);
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	puts("all ended");
	return 0;
}
