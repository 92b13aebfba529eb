/* setitimer(), alarm(), and the timers of timer_create(): their signals come at their very time. */
#include "exact.h"

static volatile int ticks;

static void tick(int signal)
{
	ticks++;
	say("signal %s", sigabbrev_np(signal));
}

static void told(int signal, siginfo_t *info, void *context)
{
	(void)context;
	say("signal RTMIN+%d: timer %d, value %d, SI_TIMER: %d", signal - SIGRTMIN, info->si_timerid,
	    info->si_value.sival_int, info->si_code == SI_TIMER);
}

static void *pass_time(void *unused)
{
	(void)unused;
	rest(30 * MS);
	say("the other thread has slept");
	return NULL;
}

static void handle(int signal, int flags)
{
	struct sigaction a = { .sa_handler = tick, .sa_flags = flags };

	sigaction(signal, &a, NULL);
}

static void left(int which)
{
	struct itimerval t;

	MUST(getitimer(which, &t));
	say("left: %ld.%06ld, then each %ld.%06ld", t.it_value.tv_sec, t.it_value.tv_usec, t.it_interval.tv_sec,
	    t.it_interval.tv_usec);
}

static void alarms(void)
{
	handle(SIGALRM, 0);
	TRY(alarm(2));
	rest(400 * MS);
	left(ITIMER_REAL);
	TRY(alarm(3));
	TRY(pause());
	TRY(alarm(0));
	struct timespec t = span(5000 * MS), rest_of_it;
	TRY(alarm(1));
	TRY(nanosleep(&t, &rest_of_it));
	say("%ld.%09ld left to sleep", rest_of_it.tv_sec, rest_of_it.tv_nsec);
	TRY(alarm(1));
	TRY(usleep(100));
	TRY(alarm(0));
	TRY(alarm(1));
	char byte;
	int ends[2];
	MUST(pipe(ends));
	TRY(read(ends[0], &byte, 1));
	handle(SIGALRM, SA_RESTART);
	struct itimerval each = { { 0, 250000 }, { 0, 100000 } };
	TRY(setitimer(ITIMER_REAL, &each, NULL));
	if (!MUST(fork())) {
		/* Has no timers. */
		left(ITIMER_REAL);
		rest(750 * MS);
		say("the child writes");
		MUST(write(ends[1], "x", 1));
		_exit(0);
	}
	TRY(read(ends[0], &byte, 1));
	left(ITIMER_REAL);
	struct itimerval none = { { 0, 0 }, { 0, 0 } };
	TRY(setitimer(ITIMER_REAL, &none, &each));
	say("was left: %ld us, then each %ld us", each.it_value.tv_usec, each.it_interval.tv_usec);
	MUST(wait(NULL));
	struct itimerval bad = { { 0, 0 }, { 0, 1000000 } };
	TRY(setitimer(ITIMER_REAL, &bad, NULL));
	TRY(setitimer(7, &none, NULL));
	TRY(syscall(SYS_getitimer, ITIMER_REAL, 8));
}

static timer_t make(clockid_t clock, int notify, int signal, int value)
{
	struct sigevent e = { .sigev_notify = notify, .sigev_signo = signal, .sigev_value.sival_int = value };
	timer_t t;

	MUST(timer_create(clock, &e, &t));
	return t;
}

static void set(timer_t t, int flags, struct timespec value, long interval)
{
	struct itimerspec s = { span(interval), value };

	MUST(timer_settime(t, flags, &s, NULL));
}

static void show(timer_t t)
{
	struct itimerspec s;

	MUST(timer_gettime(t, &s));
	say("left: %ld.%09ld, then each %ld.%09ld", s.it_value.tv_sec, s.it_value.tv_nsec, s.it_interval.tv_sec,
	    s.it_interval.tv_nsec);
}

static void made(void)
{
	struct sigaction a = { .sa_sigaction = told, .sa_flags = SA_SIGINFO };
	timer_t t[4];
	sigset_t set_of_it;

	sigaction(SIGRTMIN, &a, NULL);
	sigaction(SIGRTMIN + 1, &a, NULL);
	t[0] = make(CLOCK_MONOTONIC, SIGEV_SIGNAL, SIGRTMIN, 17);
	t[1] = make(CLOCK_REALTIME, SIGEV_SIGNAL, SIGRTMIN + 1, 18);
	t[2] = make(CLOCK_BOOTTIME, SIGEV_NONE, 0, 0);
	set(t[0], 0, span(7 * MS + 7), 0);
	TRY(pause());
	set(t[0], 0, span(10 * MS), 10 * MS);
	set(t[1], TIMER_ABSTIME, ahead(CLOCK_REALTIME, 25 * MS), 0);
	set(t[2], 0, span(15 * MS), 4 * MS);
	for (int i = 0; i < 3; i++)
		TRY(pause());
	show(t[0]);
	show(t[1]);
	show(t[2]);
	sigemptyset(&set_of_it);
	sigaddset(&set_of_it, SIGRTMIN);
	sigprocmask(SIG_BLOCK, &set_of_it, NULL);
	rest(35 * MS);
	sigprocmask(SIG_UNBLOCK, &set_of_it, NULL);
	TRY(timer_getoverrun(t[0]));
	/* In the past: at once. */
	set(t[1], TIMER_ABSTIME, ahead(CLOCK_REALTIME, -5 * MS), 0);
	for (int i = 0; i < 3; i++)
		TRY(timer_delete(t[i]));
	TRY(syscall(SYS_timer_delete, 0));
	TRY(syscall(SYS_timer_gettime, 1, NULL));
	TRY(timer_create(99, NULL, t));
	TRY(timer_create(CLOCK_MONOTONIC_RAW, NULL, t));
	TRY(timer_create(CLOCK_MONOTONIC, (struct sigevent[]){ { .sigev_signo = 65 } }, t));
}

static void in_thread(union sigval value)
{
	say("notified of %d", value.sival_int);
}

static void by_thread(void)
{
	struct sigevent e = { .sigev_notify = SIGEV_THREAD,
			      .sigev_notify_function = in_thread,
			      .sigev_value.sival_int = 33 };
	timer_t t;

	MUST(timer_create(CLOCK_MONOTONIC, &e, &t));
	set(t, 0, span(20 * MS), 20 * MS);
	rest(50 * MS);
	TRY(timer_delete(t));
	pthread_t other = begin_thread(pass_time, NULL);
	handle(SIGALRM, 0);
	struct itimerval in = { { 0, 0 }, { 0, 10000 } };
	MUST(setitimer(ITIMER_REAL, &in, NULL));
	TRY(pause());
	TRY0(pthread_join(other, NULL));
}

int main(void)
{
	begin();
	alarms();
	made();
	by_thread();
	say("%d ticks", ticks);
	return 0;
}
