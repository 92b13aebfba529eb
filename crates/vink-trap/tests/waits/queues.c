/* POSIX message queues, and System V's, with and without time-outs. */
#include "exact.h"
#include <mqueue.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>

static void *send_soon(void *queue)
{
	rest(10 * MS);
	TRY(mq_send(*(mqd_t *)queue, "1", 1, 0));
	rest(10 * MS);
	TRY(mq_send(*(mqd_t *)queue, "2", 1, 0));
	return NULL;
}

static void *receive_soon(void *queue)
{
	char byte;

	rest(10 * MS);
	TRY(mq_receive(*(mqd_t *)queue, &byte, 1, NULL));
	return NULL;
}

static void *post_soon(void *id)
{
	struct sembuf up = { 0, 1, 0 };

	rest(10 * MS);
	say("posting");
	MUST(semop(*(int *)id, &up, 1));
	return NULL;
}

int main(void)
{
	struct mq_attr attributes = { .mq_maxmsg = 1, .mq_msgsize = 1 };
	struct sembuf down = { 0, -1, 0 };
	struct timespec until, t = span(5 * MS);
	char name[32], byte;
	pthread_t other;

	begin();
	sprintf(name, "/vink-waits-%d", getpid());
	mqd_t queue = MUST(mq_open(name, O_CREAT | O_RDWR, 0600, &attributes));
	MUST(mq_unlink(name));
	until = ahead(CLOCK_REALTIME, 5 * MS);
	TRY(mq_timedreceive(queue, &byte, 1, NULL, &until));
	TRY(mq_timedreceive(queue, &byte, 1, NULL, &until));
	other = begin_thread(send_soon, &queue);
	TRY(mq_receive(queue, &byte, 1, NULL));
	until = ahead(CLOCK_REALTIME, 50 * MS);
	TRY(mq_timedreceive(queue, &byte, 1, NULL, &until));
	pthread_join(other, NULL);
	TRY(mq_send(queue, "3", 1, 0));
	until = ahead(CLOCK_REALTIME, 5 * MS);
	TRY(mq_timedsend(queue, "4", 1, 0, &until));
	other = begin_thread(receive_soon, &queue);
	TRY(mq_send(queue, "4", 1, 0));
	pthread_join(other, NULL);

	int id = MUST(semget(IPC_PRIVATE, 1, 0600));
	other = begin_thread(post_soon, &id);
	TRY(semop(id, &down, 1));
	pthread_join(other, NULL);
	TRY(semtimedop(id, &down, 1, &t));
	MUST(semctl(id, 0, IPC_RMID));
	return 0;
}
