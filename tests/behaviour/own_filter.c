/* A process that filters its own system calls is not ended by one that it does not make. */
#include "check.h"
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define ROUNDS 300

/* As the sandbox of sshd: an ioctl() ends the process. */
static void filter(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { 4, code };

	TRY(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	TRY(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0));
}

static void rounds(int pair[2])
{
	char byte = 1;
	int done = 0;

	while (done < ROUNDS && send(pair[0], &byte, 1, 0) == 1 &&
	       recv(pair[1], &byte, 1, 0) == 1)
		done++;
	VALUE(done);
}

int main(void)
{
	int pair[2], status = -1;
	pid_t child;

	begin();
	stream_pair(AF_INET, pair);
	fflush(stdout);
	child = MUST(fork());
	if (!child) {
		filter();
		rounds(pair);
		fflush(stdout);
		_exit(7);
	}
	MUST(waitpid(child, &status, 0));
	VALUE(WIFSIGNALED(status));
	VALUE(WEXITSTATUS(status));
	return 0;
}
