/* The processors that threads may use are their own affair, however often they call. */
#include "check.h"

#include <sched.h>

static void call_often(int fd)
{
	for (int i = 0; i < 5000; i++)
		get_int(fd, SOL_SOCKET, SO_TYPE);
}

int main(void)
{
	cpu_set_t before, after;

	begin();
	int fd = FD(socket(AF_INET, SOCK_DGRAM, 0));
	VALUE(sched_getaffinity(0, sizeof(before), &before));
	call_often(fd);
	VALUE(sched_getaffinity(0, sizeof(after), &after));
	VALUE(CPU_EQUAL(&before, &after));

	title("of a child");
	call_often(fd);
	pid_t child = fork();
	if (child == 0) {
		sched_getaffinity(0, sizeof(after), &after);
		_exit(CPU_EQUAL(&before, &after));
	}
	int status = 0;
	VALUE(waitpid(child, &status, 0) == child);
	VALUE(WEXITSTATUS(status));

	title("of one that executes another program");
	char count[16];
	snprintf(count, sizeof(count), "%d", CPU_COUNT(&before));
	child = fork();
	if (child == 0) {
		call_often(fd);
		execlp("sh", "sh", "-c", "exit $(($(nproc) == $0))", count, NULL);
	}
	VALUE(waitpid(child, &status, 0) == child);
	VALUE(WEXITSTATUS(status));

	title("one that it chose");
	cpu_set_t one;
	CPU_ZERO(&one);
	for (int cpu = 0; cpu < CPU_SETSIZE && !CPU_COUNT(&one); cpu++)
		if (CPU_ISSET(cpu, &before))
			CPU_SET(cpu, &one);
	TRY(sched_setaffinity(0, sizeof(one), &one));
	call_often(fd);
	VALUE(sched_getaffinity(0, sizeof(after), &after));
	VALUE(CPU_EQUAL(&one, &after));
	TRY(sched_setaffinity(0, sizeof(before), &before));
	call_often(fd);
	VALUE(sched_getaffinity(0, sizeof(after), &after));
	VALUE(CPU_EQUAL(&before, &after));
	return 0;
}
