/* wait4() and waitid() in their forms, and what a child's end brings about. */
#include "exact.h"

static void ended(int signal)
{
	say("SIG%s", sigabbrev_np(signal));
}

/* A child that lives so long. */
static pid_t child(long ms, int status)
{
	pid_t pid = MUST(fork());

	if (!pid) {
		rest(ms * MS);
		_exit(status);
	}
	return pid;
}

static void waited(const char *how, pid_t pid, int options, pid_t expected)
{
	int status = 0;
	pid_t found = waitpid(pid, &status, options);

	if (found < 0)
		say("%s: %s", how, strerrorname_np(errno));
	else if (WIFSTOPPED(status))
		say("%s: %d, stopped by SIG%s", how, found == expected, sigabbrev_np(WSTOPSIG(status)));
	else if (WIFCONTINUED(status))
		say("%s: %d, continued", how, found == expected);
	else if (WIFSIGNALED(status))
		say("%s: %d, ended by SIG%s", how, found == expected, sigabbrev_np(WTERMSIG(status)));
	else
		say("%s: %d, exited with %d", how, found == expected, WEXITSTATUS(status));
}
#define WAIT(pid, options, expected) waited("waitpid(" #pid ", " #options ")", pid, options, expected)

static void forms(void)
{
	pid_t a = child(30, 1), b = child(20, 2), c = child(10, 3);

	WAIT(-1, WNOHANG, 0);
	WAIT(b, 0, b);
	WAIT(-1, 0, c);
	WAIT(0, 0, a);
	WAIT(-1, 0, 0);
	WAIT(12345678, 0, 0);
	a = child(10, 4);
	b = child(20, 5);
	MUST(setpgid(b, b));
	WAIT(-b, 0, b);
	WAIT(a, WNOHANG, a);
}

static void by_id(void)
{
	siginfo_t i = { 0 };
	pid_t a = child(10, 6);
	int fd = MUST(syscall(SYS_pidfd_open, a, 0));

	TRY(waitid(P_PIDFD, fd, &i, WEXITED | WNOWAIT));
	say("%d: %d, %d", i.si_pid == a, i.si_code == CLD_EXITED, i.si_status);
	TRY(waitid(P_PID, a, &i, WEXITED));
	TRY(waitid(P_ALL, 0, &i, WEXITED));
	TRY(waitid(P_ALL, 0, &i, 0));
}

static void stops(void)
{
	pid_t a = child(100, 7);
	pid_t helper = MUST(fork());

	if (!helper) {
		rest(10 * MS);
		kill(a, SIGSTOP);
		rest(20 * MS);
		kill(a, SIGCONT);
		rest(20 * MS);
		kill(a, SIGSTOP);
		rest(10 * MS);
		kill(a, SIGKILL);
		_exit(0);
	}
	WAIT(a, WUNTRACED | WCONTINUED, a);
	WAIT(a, WUNTRACED | WCONTINUED, a);
	WAIT(a, WUNTRACED, a);
	WAIT(a, WUNTRACED, a);
	WAIT(-1, 0, helper);
	/* A sleep goes on where it was. */
	a = child(100, 8);
	helper = MUST(fork());
	if (!helper) {
		rest(10 * MS);
		kill(a, SIGSTOP);
		rest(20 * MS);
		kill(a, SIGCONT);
		_exit(0);
	}
	WAIT(helper, 0, helper);
	WAIT(a, 0, a);
}

static void signals(void)
{
	struct sigaction action = { .sa_handler = ended };
	struct timespec t = span(100 * MS), left;
	sigset_t blocked, before;
	pid_t a;

	sigaction(SIGCHLD, &action, NULL);
	a = child(10, 9);
	TRY(nanosleep(&t, &left));
	say("%ld ns left", left.tv_nsec);
	WAIT(-1, WNOHANG, a);
	a = child(10, 10);
	WAIT(-1, 0, a);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGCHLD);
	sigprocmask(SIG_BLOCK, &blocked, &before);
	a = child(10, 11);
	TRY(sigsuspend(&before));
	WAIT(-1, WNOHANG, a);
	a = child(20, 12);
	t = span(5 * MS);
	TRY(sigtimedwait(&blocked, NULL, &t));
	TRY(sigwaitinfo(&blocked, NULL) == SIGCHLD);
	WAIT(-1, WNOHANG, a);
	sigprocmask(SIG_SETMASK, &before, NULL);
	/* The parent is not to know of them. */
	signal(SIGCHLD, SIG_IGN);
	child(10, 0);
	child(30, 0);
	WAIT(-1, 0, 0);
}

static void *wait_too(void *unused)
{
	WAIT(-1, 0, 0);
	return unused;
}

static void threads(void)
{
	signal(SIGCHLD, SIG_DFL);
	pthread_t t = begin_thread(wait_too, NULL);

	pthread_join(t, NULL);
	child(10, 13);
	child(20, 14);
	t = begin_thread(wait_too, NULL);
	WAIT(-1, __WNOTHREAD, 0);
	pthread_join(t, NULL);
	pid_t a = MUST(vfork());
	if (!a) {
		char *args[] = { "sh", "-c", "sleep 0.5; exit 15", NULL };
		execv("/bin/sh", args);
		_exit(1);
	}
	WAIT(-1, 0, a);
	say("system() gave %d", WEXITSTATUS(system("sleep 2 & sleep 1; wait; kill -9 $$")));
}

int main(void)
{
	begin();
	forms();
	by_id();
	stops();
	signals();
	threads();
	return 0;
}
