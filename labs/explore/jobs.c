// SPDX-License-Identifier: GPL-2.0
/*
 * A protocol to be explored: a server takes jobs from its clients over TCP. A
 * thread for each client puts its job into a queue; one more thread does them.
 *
 *	jobs serve COUNT
 *	jobs send ADDRESS MS
 *
 * A client sends one job after so many ms, and ends with status 0 when it is
 * done; the server when so many are. It has a mistake: the thread that does the
 * jobs looks into the queue, writes that there is none, and then waits to be
 * woken; what comes in between wakes nothing. Compiled with -DLOCKED it looks
 * and waits with the lock held.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PORT		7300
#define LOG_MS		60

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wakes = PTHREAD_COND_INITIALIZER;
static int queue[16];
static int queued;

static void *client(void *of)
{
	int connection = (int)(long)of;
	char job;

	if (read(connection, &job, 1) != 1)
		return NULL;
	printf("a job comes\n");
	pthread_mutex_lock(&lock);
	queue[queued++] = connection;
	pthread_cond_signal(&wakes);
	pthread_mutex_unlock(&lock);
	return NULL;
}

/* Writes to a log, which takes its time. */
static void there_is_no_job(void)
{
	printf("no job: it waits for one\n");
	usleep(LOG_MS * 1000);
}

static void *worker(void *jobs)
{
	int left = (int)(long)jobs, connection;

	while (left > 0) {
		pthread_mutex_lock(&lock);
		while (queued == 0) {
#ifdef LOCKED
			pthread_cond_wait(&wakes, &lock);
#else
			pthread_mutex_unlock(&lock);
			there_is_no_job();
			pthread_mutex_lock(&lock);
			pthread_cond_wait(&wakes, &lock);
#endif
		}
		connection = queue[--queued];
		pthread_mutex_unlock(&lock);
		if (write(connection, "d", 1) == 1)
			printf("a job is done\n");
		close(connection);
		left--;
	}
#ifdef LOCKED
	there_is_no_job();
#endif
	return NULL;
}

static int serve(int jobs)
{
	struct sockaddr_in at = {
		.sin_family	= AF_INET,
		.sin_port	= htons(PORT),
	};
	int listener = socket(AF_INET, SOCK_STREAM, 0), i;
	pthread_t does, takes;

	if (bind(listener, (void *)&at, sizeof(at)) || listen(listener, 8))
		return 1;
	pthread_create(&does, NULL, worker, (void *)(long)jobs);
	for (i = 0; i < jobs; i++) {
		long connection = accept(listener, NULL, NULL);

		pthread_create(&takes, NULL, client, (void *)connection);
		pthread_detach(takes);
	}
	pthread_join(does, NULL);
	return 0;
}

static int send_job(const char *to, int ms)
{
	struct sockaddr_in at = {
		.sin_family	= AF_INET,
		.sin_port	= htons(PORT),
	};
	int connection = socket(AF_INET, SOCK_STREAM, 0);
	char answer;

	inet_pton(AF_INET, to, &at.sin_addr);
	usleep(ms * 1000);
	if (connect(connection, (void *)&at, sizeof(at)) ||
	    write(connection, "j", 1) != 1 ||
	    read(connection, &answer, 1) != 1)
		return 1;
	printf("the job is done\n");
	return 0;
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 3 && strcmp(argv[1], "serve") == 0)
		return serve(atoi(argv[2]));
	if (argc == 4)
		return send_job(argv[2], atoi(argv[3]));
	return 2;
}
