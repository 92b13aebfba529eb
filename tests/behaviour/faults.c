/* Bad addresses of the program's own beside those that it gives to the kernel; the last one ends it. */
#include "check.h"
#include <setjmp.h>

static sigjmp_buf back;
static void *volatile where;
static volatile sig_atomic_t fault_code;

static void caught(int sig, siginfo_t *info, void *context)
{
	(void)context;
	where = info->si_addr;
	fault_code = info->si_code;
	siglongjmp(back, sig);
}

static void look(void)
{
	int sig = sigsetjmp(back, 1);

	if (!sig)
		(void)*(volatile char *)NOWHERE;
	VALUE(sig == SIGSEGV);
	VALUE(where == NOWHERE);
	VALUE(fault_code == SEGV_MAPERR);
}

int main(void)
{
	struct sigaction sa = { .sa_sigaction = caught, .sa_flags = SA_SIGINFO };
	struct sigaction old;
	int p[2];

	begin();
	MUST(sigaction(SIGSEGV, &sa, NULL));
	look();
	stream_pair(AF_INET, p);
	TRY(send(p[0], NOWHERE, 4, 0));
	look();
	TRY(recv(p[1], NOWHERE, 4, MSG_DONTWAIT));
	TRY(send(p[0], "text", 4, 0));
	TRY(recv(p[1], NOWHERE, 4, 0));
	TRY(poll(NOWHERE, 1, 0));
	TRY(select(p[0] + 1, NOWHERE, NULL, NULL, NULL));
	look();
	MUST(sigaction(SIGSEGV, NULL, &old));
	VALUE(old.sa_sigaction == caught);
	VALUE(old.sa_flags == SA_SIGINFO);
	signal(SIGSEGV, SIG_IGN);
	TRY(send(p[0], NOWHERE, 4, 0));
	TRY(raise(SIGSEGV));
	signal(SIGSEGV, SIG_DFL);
	TRY(send(p[0], NOWHERE, 4, 0));
	(void)*(volatile char *)NOWHERE;
	return 0;
}
