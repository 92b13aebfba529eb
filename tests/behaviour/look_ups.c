/* The machine's files below /proc by all names they have, and by every call that takes a path. */
#include "check.h"
#include <dirent.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/xattr.h>

/* The kernel's release decides which files there are: these have always been. */
static const char *const paths[] = {
	"/proc/net",
	"/proc/net/",
	"/proc/net/dev",
	"/proc//./net/tcp",
	"/proc/net/../net/udp",
	"/proc/net/dev/",
	"/proc/net/no_such_file",
	"/proc/self/net/route",
	"/proc/thread-self/net/route",
	"/proc/self/../sys/net/ipv4/ip_forward",
	"/proc/sys/net",
	"/proc/sys/net/ipv4/conf/lo",
	"/proc/sys/net/ipv4/conf/lo/forwarding",
	"/proc/sys/net/ipv4/no_such_file",
};

static void show(const char *what, int result, const struct stat *st)
{
	if (result)
		printf("  %s: %s\n", what, strerrorname_np(errno));
	else
		printf("  %s: mode %o, size %ld\n", what, st->st_mode,
		       (long)st->st_size);
}

static void statuses(const char *path)
{
	struct statx stx = { 0 };
	struct stat st = { 0 };
	char link[64] = "";

	printf("%s\n", path);
	show("stat", stat(path, &st), &st);
	show("lstat", lstat(path, &st), &st);
	show("SYS_stat", syscall(SYS_stat, path, &st), &st);
	show("SYS_lstat", syscall(SYS_lstat, path, &st), &st);
	if (!statx(AT_FDCWD, path, 0, STATX_BASIC_STATS, &stx))
		VALUE(stx.stx_mode);
	TRY(access(path, R_OK));
	TRY(access(path, X_OK));
	TRY(faccessat(AT_FDCWD, path, R_OK, AT_EACCESS));
	TRY(readlink(path, link, sizeof(link) - 1));
	TEXT(link);
	TRY(readlink(path, link, 2));
	TRY(getxattr(path, "user.nothing", link, 0));
	TRY(listxattr(path, link, 0));
	int fd = FD(open(path, O_RDONLY));
	if (fd >= 0) {
		struct stat same;

		MUST(stat(path, &st));
		MUST(fstat(fd, &same));
		VALUE(st.st_ino == same.st_ino && st.st_dev == same.st_dev);
		show("fstat", 0, &same);
		close(fd);
	}
}

static void relative(int at, const char *path)
{
	struct open_how how = { .flags = O_RDONLY | O_CLOEXEC };
	struct stat st;
	char text[6] = "";

	printf("from a directory: %s\n", path);
	show("fstatat", fstatat(at, path, &st, 0), &st);
	TRY(faccessat(at, path, R_OK, 0));
	TRY(readlinkat(at, path, text, sizeof(text)));
	int fd = FD(openat(at, path, O_RDONLY));
	if (fd >= 0) {
		TRY(read(fd, text, sizeof(text) - 1));
		TEXT(text);
		close(fd);
	}
	fd = FD(syscall(SYS_openat2, at, path, &how, sizeof(how)));
	if (fd >= 0) {
		VALUE(fcntl(fd, F_GETFD));
		close(fd);
	}
	how.resolve = RESOLVE_BENEATH;
	fd = FD(syscall(SYS_openat2, at, path, &how, sizeof(how)));
	if (fd >= 0)
		close(fd);
}

static void own_numbers(void)
{
	char path[64], name[32] = "";
	struct stat st;
	int fd;

	title("below a number");
	for (int n = 0; n < 4; n++) {
		static const char *const forms[] = { "/proc/%d/net/dev",
						     "/proc/%d/task/%d/net/dev",
						     "/proc/self/task/%d/net/dev",
						     "/proc/%d/net" };

		snprintf(path, sizeof(path), forms[n], getpid(), getpid());
		show(forms[n], stat(path, &st), &st);
		fd = FD(open(path, O_RDONLY));
		VALUE(read(fd, name, 6));
		TEXT(name);
		close(fd);
	}
}

static int holds(const char *path, const char *name)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	int found = 0;

	while (dir && (entry = readdir(dir)))
		found += !strcmp(entry->d_name, name);
	if (dir)
		closedir(dir);
	return found;
}

int main(void)
{
	struct stat st;

	begin();
	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++)
		statuses(paths[i]);
	own_numbers();

	title("relative to an open directory");
	int root = MUST(open("/", O_RDONLY | O_DIRECTORY));
	int proc = MUST(open("/proc", O_PATH));
	int net = MUST(open("/proc/sys/net", O_RDONLY | O_DIRECTORY));
	relative(root, "proc/net/dev");
	relative(proc, "self/net/dev");
	relative(proc, "net/dev");
	relative(net, "ipv4/ip_forward");
	relative(net, "../net/ipv4/ip_forward");
	relative(net, "no_such_file");
	relative(NO_FD, "proc/net/dev");
	relative(NO_FD, "/proc/net/dev");

	title("from where one is");
	TRY(chdir("/proc/sys/net/ipv4"));
	show("stat", stat("ip_forward", &st), &st);
	VALUE(holds(".", "ip_forward"));
	VALUE(holds("../core", "somaxconn"));
	TRY(chdir("conf"));
	VALUE(holds(".", "lo"));
	show("stat", stat("lo/forwarding", &st), &st);
	TRY(fchdir(net));
	VALUE(holds("ipv4", "ip_forward"));
	TRY(chdir("/proc"));
	show("stat", stat("net/dev", &st), &st);
	TRY(chdir("net/dev"));
	TRY(chdir("net/no_such_directory"));
	TRY(chdir("/"));
	show("stat", stat("proc/net/dev", &st), &st);
	pid_t pid = child();
	if (!pid) {
		MUST(chdir("/proc/sys/net"));
		exit(!holds("core", "somaxconn"));
	}
	join(pid);

	title("to and fro in a directory");
	DIR *dir = opendir("/proc/sys/net/ipv4");
	int first = 0, second = 0, rest = 0;
	long half = 0;
	while (readdir(dir))
		if (++first == 40)
			half = telldir(dir);
	rewinddir(dir);
	while (readdir(dir))
		second++;
	seekdir(dir, half);
	while (readdir(dir))
		rest++;
	VALUE(first > 40 && first == second && first == rest + 40);
	VALUE(readdir(dir) != NULL);
	closedir(dir);

	title("errors");
	TRY(stat("/proc/net/dev", NOWHERE));
	TRY(access("/proc/net/dev", 99));
	TRY(readlink("/proc/net", NOWHERE, 10));
	TRY(syscall(SYS_readlink, "/proc/net", NULL, 0));
	TRY(open("/proc/net/dev", O_RDWR | O_CREAT | O_EXCL, 0600));
	TRY(open("/proc/net/dev", O_RDONLY | O_DIRECTORY));
	TRY(open("/proc/sys/net", O_WRONLY));
	TRY(syscall(SYS_openat2, proc, "net/dev", NOWHERE, sizeof(struct open_how)));
	return 0;
}
