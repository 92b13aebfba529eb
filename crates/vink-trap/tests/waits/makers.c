/*
 * Makes threads, one after the other. Their maker computes then, so that they make their first calls before it makes
 * the next one.
 */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#define ROUNDS 50

static void sleep_for(long ms)
{
	struct timespec time = {0, ms * 1000000};

	if (nanosleep(&time, NULL))
		abort();
}

static void *live(void *unused)
{
	(void)unused;
	sleep_for(1);
	return NULL;
}

int main(void)
{
	pthread_t thread;

	for (int round = 0; round < ROUNDS; round++) {
		sleep_for(10);
		if (pthread_create(&thread, NULL, live, NULL))
			return 1;
		for (volatile int n = 0; n < 1000000; n++)
			;
		if (pthread_join(thread, NULL))
			return 1;
	}
	return 0;
}
