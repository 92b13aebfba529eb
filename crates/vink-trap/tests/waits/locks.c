/* Locks of files that are waited for: of open files, of processes, of ranges. */
#include "exact.h"
#include <sys/file.h>

static char path[] = "/tmp/vink-locks-XXXXXX";

static int lock(int fd, int how, short type, long start, long length)
{
	struct flock l = { .l_type = type, .l_start = start, .l_len = length };

	return fcntl(fd, how, &l);
}

static int again(void)
{
	return MUST(open(path, O_RDWR));
}

/* A child that takes the lock after `ms`, and keeps it for 20. */
static void flocker(long ms, int how)
{
	if (MUST(fork()))
		return;
	int fd = again();
	rest(ms * MS);
	MUST(flock(fd, how));
	say("%s after %ld ms", how == LOCK_EX ? "alone" : "with others", ms);
	rest(20 * MS);
	_exit(0);
}

static void locker(int how, long ms, short type, long start, long length)
{
	if (MUST(fork()))
		return;
	int fd = again();
	rest(ms * MS);
	MUST(lock(fd, how, type, start, length));
	say("%s %ld-%ld after %ld ms", type == F_WRLCK ? "write" : "read", start, start + length - 1, ms);
	rest(20 * MS);
	_exit(0);
}

static void all(void)
{
	while (wait(NULL) > 0)
		;
}

static void on_alarm(int signal)
{
	say("SIG%s", sigabbrev_np(signal));
}

int main(void)
{
	begin();
	int fd = MUST(mkstemp(path));

	MUST(ftruncate(fd, 1000));
	TRY(flock(fd, LOCK_EX));
	flocker(1, LOCK_EX);
	flocker(2, LOCK_SH);
	flocker(3, LOCK_SH);
	flocker(4, LOCK_EX);
	rest(10 * MS);
	TRY(flock(fd, LOCK_EX | LOCK_NB));
	TRY(flock(fd, LOCK_UN));
	all();
	TRY(flock(fd, LOCK_EX));
	close(fd);
	fd = again();

	TRY(lock(fd, F_SETLKW, F_WRLCK, 0, 100));
	locker(F_SETLKW, 1, F_WRLCK, 50, 100);
	locker(F_SETLKW, 2, F_RDLCK, 200, 10);
	locker(F_SETLKW, 3, F_RDLCK, 120, 10);
	rest(10 * MS);
	TRY(lock(fd, F_SETLK, F_UNLCK, 60, 10));
	rest(10 * MS);
	TRY(lock(fd, F_SETLK, F_UNLCK, 0, 0));
	all();

	TRY(lock(fd, F_OFD_SETLKW, F_RDLCK, 0, 10));
	locker(F_OFD_SETLKW, 1, F_WRLCK, 0, 10);
	locker(F_SETLKW, 2, F_WRLCK, 5, 10);
	locker(F_OFD_SETLKW, 3, F_RDLCK, 0, 3);
	rest(10 * MS);
	TRY(lock(fd, F_OFD_SETLK, F_UNLCK, 0, 0));
	all();
	TRY(lock(fd, F_SETLKW, F_WRLCK, 0, 1));
	pid_t pid = MUST(fork());
	if (!pid) {
		int mine = again();
		MUST(lock(mine, F_SETLKW, F_WRLCK, 1, 1));
		TRY(lock(mine, F_SETLKW, F_WRLCK, 0, 1));
		_exit(0);
	}
	rest(10 * MS);
	TRY(lock(fd, F_SETLKW, F_WRLCK, 1, 1));
	TRY(lock(fd, F_SETLK, F_UNLCK, 0, 1));
	all();

	struct sigaction a = { .sa_handler = on_alarm };
	sigaction(SIGALRM, &a, NULL);
	if (!MUST(fork())) {
		int mine = again();
		flock(mine, LOCK_EX);
		lock(mine, F_SETLK, F_WRLCK, 0, 0);
		rest(10000 * MS);
		_exit(0);
	}
	rest(1 * MS);
	alarm(1);
	TRY(flock(fd, LOCK_SH));
	alarm(1);
	TRY(lock(fd, F_SETLKW, F_RDLCK, 0, 0));
	TRY(flock(fd, LOCK_SH));
	TRY(flock(999, LOCK_SH));
	TRY(lock(999, F_SETLKW, F_RDLCK, 0, 0));
	TRY(flock(fd, 77));
	unlink(path);
	return 0;
}
