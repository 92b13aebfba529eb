/* Threads that go on with their calls while the program ends. */
#include "../check.h"
#include <pthread.h>

#define THREADS 4

static pthread_barrier_t all;

static void *ask(void *unused)
{
	int s = socket(AF_INET, SOCK_STREAM, 0), value;
	socklen_t len = sizeof(value);

	pthread_barrier_wait(&all);
	while (!getsockopt(s, SOL_SOCKET, SO_ERROR, &value, &len))
		;
	_exit(1);
	return unused;
}

int main(void)
{
	pthread_t thread;
	int i;

	pthread_barrier_init(&all, NULL, THREADS + 1);
	for (i = 0; i < THREADS; i++)
		pthread_create(&thread, NULL, ask, NULL);
	pthread_barrier_wait(&all);
	return 7;
}
