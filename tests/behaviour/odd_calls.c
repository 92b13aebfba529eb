/* File calls that make no sense on a socket, or an odd one, and vectors at their limits. */
#include "check.h"
#include <limits.h>
#include <linux/ethtool.h>
#include <linux/fs.h>
#include <linux/sockios.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/xattr.h>
#include <termios.h>

static void positions(int s)
{
	char b[8] = "";
	struct iovec v[2] = { { b, 4 }, { b + 4, 4 } };

	title("positions");
	TRY(lseek(s, 0, SEEK_SET));
	TRY(lseek(s, 0, SEEK_CUR));
	TRY(pread(s, b, 4, 0));
	TRY(pwrite(s, b, 4, 0));
	TRY(preadv(s, v, 2, 0));
	TRY(pwritev(s, v, 2, 0));
	TRY(preadv2(s, v, 2, 0, 0));
	TRY(pwritev2(s, v, 2, 0, 0));
	TRY(preadv2(s, v, 2, -1, 0));
	TRY(preadv2(s, v, 2, -1, RWF_NOWAIT));
	TRY(pwritev2(s, v, 2, -1, RWF_APPEND));
	TRY(preadv2(s, v, 2, -1, 1 << 20));
}

static void files(int s)
{
	char b[64];
	struct stat st;
	struct statfs fs;

	title("what a file has");
	TRY(ftruncate(s, 0));
	TRY(fallocate(s, 0, 0, 1));
	TRY(fsync(s));
	TRY(fdatasync(s));
	TRY(sync_file_range(s, 0, 1, 0));
	TRY(readahead(s, 0, 1));
	VALUE(posix_fadvise(s, 0, 1, POSIX_FADV_NORMAL));
	TRY(syscall(SYS_getdents64, s, b, sizeof(b)));
	TRY(fchdir(s));
	TRY(flock(s, LOCK_EX | LOCK_NB));
	TRY(flock(s, LOCK_UN));
	TRY(fstat(s, &st));
	VALUE(st.st_mode == (S_IFSOCK | 0777));
	VALUE(st.st_uid == getuid() && st.st_gid == getgid() && st.st_nlink == 1);
	TRY(fstatat(s, "", &st, AT_EMPTY_PATH));
	VALUE(S_ISSOCK(st.st_mode));
	TRY(fstatfs(s, &fs));
	VALUE(fs.f_type == 0x534f434b);
	TRY(fsetxattr(s, "user.vink", "x", 1, 0));
	TRY(fgetxattr(s, "user.vink", b, 8));
	TRY(openat(s, "name", O_RDONLY));
	sprintf(b, "/proc/self/fd/%d", s);
	TRY(open(b, O_RDWR));
	char target[32] = "";
	VALUE(readlink(b, target, sizeof(target) - 1) > 9);
	VALUE(strncmp(target, "socket:[", 8));
}

static void controls(int s)
{
	struct ethtool_value link = { .cmd = ETHTOOL_GLINK };
	struct ethtool_drvinfo driver = { .cmd = ETHTOOL_GDRVINFO };
	struct ifreq r = { .ifr_name = "lo", .ifr_data = (void *)&link };
	struct termios t;
	struct winsize w;
	int value = -1;

	title("fcntl");
	TRY(fcntl(s, F_GETPIPE_SZ));
	TRY(fcntl(s, F_ADD_SEALS, F_SEAL_GROW));
	TRY(fcntl(s, F_SETLEASE, F_RDLCK));
	TRY(fcntl(s, F_SETFL, O_DIRECT));
	TRY(fcntl(s, F_SETFL, O_APPEND | O_NONBLOCK));
	VALUE(fcntl(s, F_GETFL) == (O_APPEND | O_NONBLOCK | O_RDWR));
	TRY(fcntl(s, F_SETFL, 0));
	VALUE(fcntl(s, F_GETFL) == O_RDWR);
	TRY(fcntl(s, 9999));
	TRY(fcntl(s, F_DUPFD, 1 << 30));

	title("ioctl");
	TRY(tcgetattr(s, &t));
	TRY(ioctl(s, TIOCGWINSZ, &w));
	TRY(ioctl(s, TIOCSCTTY, 0));
	TRY(ioctl(s, FIOQSIZE, &value));
	TRY(ioctl(s, SIOCATMARK, &value));
	VALUE(value);
	TRY(ioctl(s, SIOCOUTQ, &value));
	VALUE(value);
	TRY(ioctl(s, FIONREAD, NOWHERE));
	TRY(ioctl(s, FIONBIO, NOWHERE));
	TRY(ioctl(s, SIOCETHTOOL, &r));
	VALUE(link.data);
	r.ifr_data = (void *)&driver;
	TRY(ioctl(s, SIOCETHTOOL, &r));
	r.ifr_data = NOWHERE;
	TRY(ioctl(s, SIOCETHTOOL, &r));
	strcpy(r.ifr_name, "none");
	TRY(ioctl(s, SIOCETHTOOL, &r));
}

static void vectors(int p[2])
{
	static struct iovec v[IOV_MAX + 1];
	static char out[IOV_MAX + 1], in[IOV_MAX + 1];

	title("vectors");
	for (int i = 0; i <= IOV_MAX; i++) {
		out[i] = i;
		v[i] = (struct iovec){ out + i, 1 };
	}
	TRY(writev(p[0], v, IOV_MAX + 1));
	TRY(writev(p[0], v, IOV_MAX));
	for (int i = 0; i <= IOV_MAX; i++)
		v[i] = (struct iovec){ in + i, 1 };
	TRY(readv(p[1], v, IOV_MAX + 1));
	TRY(recv(p[1], in, IOV_MAX, MSG_PEEK | MSG_WAITALL));
	memset(in, 0, sizeof(in));
	TRY(readv(p[1], v, IOV_MAX));
	VALUE(memcmp(in, out, IOV_MAX));
	TRY(syscall(SYS_readv, p[1], v, -1));
	TRY(writev(p[0], v, 0));
	TRY(writev(p[0], NOWHERE, 1));
	TRY(readv(p[1], NOWHERE, 1));
	v[0].iov_len = SSIZE_MAX;
	v[1].iov_len = SSIZE_MAX;
	VALUE(writev(p[0], v, 2) > 0 || errno == EFAULT);
	v[0] = (struct iovec){ "half", 4 };
	v[1] = (struct iovec){ NOWHERE, 4 };
	VALUE(writev(p[0], v, 2) > 0 || errno == EFAULT);
	struct msghdr m = { .msg_iov = v, .msg_iovlen = IOV_MAX + 1 };
	TRY(sendmsg(p[0], &m, 0));
	TRY(recvmsg(p[1], &m, MSG_DONTWAIT));
	TRY(write(p[0], in, 0));
	TRY(read(p[1], in, 0));
}

/* Limits and masks that are nowhere, or none: of a socket that is ready and one that is not. */
static void waits(int ready, int idle)
{
	struct timespec zero = { 0 }, none = { 0, 1000000000 };
	struct { void *mask; size_t size; } lost = { NOWHERE, 8 }, odd = { &zero, 7 };

	title("waits");
	for (int i = 0; i < 2; i++) {
		int s = i ? idle : ready;
		struct pollfd p = { s, POLLIN, 0 };
		fd_set set;

		TRY(syscall(SYS_ppoll, &p, 1, NOWHERE, NULL, 8));
		TRY(syscall(SYS_ppoll, &p, 1, &none, NULL, 8));
		TRY(syscall(SYS_ppoll, &p, 1, &zero, NOWHERE, 8));
		TRY(syscall(SYS_ppoll, &p, 1, &zero, &zero, 7));
		TRY(syscall(SYS_ppoll, &p, 1, &none, NOWHERE, 7));
		FD_ZERO(&set);
		FD_SET(s, &set);
		TRY(syscall(SYS_select, s + 1, &set, NULL, NULL, NOWHERE));
		TRY(syscall(SYS_pselect6, s + 1, &set, NULL, NULL, NOWHERE, NULL));
		TRY(syscall(SYS_pselect6, s + 1, &set, NULL, NULL, &none, NULL));
		TRY(syscall(SYS_pselect6, s + 1, &set, NULL, NULL, &zero, NOWHERE));
		TRY(syscall(SYS_pselect6, s + 1, &set, NULL, NULL, &zero, &lost));
		TRY(syscall(SYS_pselect6, s + 1, &set, NULL, NULL, &zero, &odd));
		TRY(syscall(SYS_pselect6, s + 1, &set, NULL, NULL, &none, NOWHERE));
	}
}

int main(void)
{
	begin();
	EACH_FAMILY(family) {
		int p[2];

		title(family_name(family));
		stream_pair(family, p);
		MUST(send(p[1], "12345678", 8, 0));
		WAIT(p[0], POLLIN);
		positions(p[0]);
		char b[8];
		MUST(recv(p[1], b, 8, 0));
		files(p[0]);
		controls(p[0]);
		vectors(p);
		close(p[0]);
		close(p[1]);

		stream_pair(family, p);
		MUST(send(p[1], "ready", 5, 0));
		WAIT(p[0], POLLIN);
		waits(p[0], p[1]);
		close(p[0]);
		close(p[1]);

		title("datagrams");
		datagram_pair(family, p);
		MUST(send(p[1], "12345678", 8, 0));
		WAIT(p[0], POLLIN);
		positions(p[0]);
		MUST(recv(p[1], b, 8, 0));
		files(p[0]);
		controls(p[0]);
		TRY(mmap(NULL, 4096, PROT_READ, MAP_SHARED, p[0], 0));
		close(p[0]);
		close(p[1]);
	}
	return 0;
}
