// SPDX-License-Identifier: GPL-2.0-only
/*
 * One attempt to get out: `attack NAME [PID] [PATH]`. It ends with 0 if the attempt came through, and
 * with 1 and errno's name if it did not. Linked statically, so that no library answers its calls.
 * `attack victim` is a process that lets any process of its user trace it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* At one address in each process: the program is not position-independent. */
static char secret[8] = "secret";

static int pid;
static const char *path;

static long checked(long result)
{
	if (result >= 0)
		return result;
	printf("%s\n", strerrorname_np(errno));
	exit(1);
}

static int open_of(const char *what, int flags)
{
	char name[64];

	snprintf(name, sizeof(name), "/proc/%d/%s", pid, what);
	return checked(open(name, flags));
}

static int connected(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	socklen_t length = sizeof(address);
	int fd = checked(socket(AF_UNIX, SOCK_STREAM, 0));

	strncpy(address.sun_path, path, sizeof(address.sun_path) - 1);
	if (*path == '@') {
		address.sun_path[0] = 0;
		length = offsetof(struct sockaddr_un, sun_path) + strlen(path);
	}
	checked(connect(fd, (struct sockaddr *)&address, length));
	return fd;
}

/* Processes. */

static void do_victim(void)
{
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	puts("ready");
	fflush(stdout);
	pause();
}

static void do_kill(void)
{
	checked(kill(pid, 0));
}

static void do_ptrace(void)
{
	checked(ptrace(PTRACE_SEIZE, pid, 0, 0));
}

static void do_memory_file(void)
{
	int fd = open_of("mem", O_RDWR);

	checked(pwrite(fd, "own", 3, (off_t)secret));
}

static void do_memory_call(void)
{
	struct iovec here = { "own", 3 }, there = { secret, 3 };

	checked(process_vm_writev(pid, &here, 1, &there, 1, 0));
}

static void do_descriptor(void)
{
	int process = checked(syscall(SYS_pidfd_open, pid, 0));

	checked(syscall(SYS_pidfd_getfd, process, 0, 0));
}

static void do_own_child(void)
{
	int child = checked(fork());

	if (!child)
		pause();
	pid = child;
	long traced = ptrace(PTRACE_SEIZE, child, 0, 0), error = errno;

	kill(child, SIGKILL);
	errno = error;
	checked(traced);
}

/* Namespaces and mounts. */

static void do_join(void)
{
	checked(setns(open_of("ns/net", O_RDONLY), CLONE_NEWNET));
}

static void do_user_namespace(void)
{
	checked(unshare(CLONE_NEWUSER));
}

static void do_clone_namespace(void)
{
	long child = checked(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0));

	if (!child)
		_exit(0);
	waitpid(child, 0, 0);
}

static void do_network(void)
{
	checked(unshare(CLONE_NEWUSER | CLONE_NEWNET));
	checked(socket(AF_INET, SOCK_DGRAM, 0));
}

static void do_mount(void)
{
	checked(mount("none", "/mnt", "tmpfs", 0, 0));
}

/* The network's configuration, and packets past it. */

static void do_netlink(void)
{
	struct {
		struct nlmsghdr header;
		struct ifinfomsg link;
	} ask = {
		{ sizeof(ask), RTM_NEWLINK, NLM_F_REQUEST | NLM_F_ACK, 1, 0 },
		{ .ifi_index = 1, .ifi_flags = IFF_UP, .ifi_change = IFF_UP },
	};
	struct {
		struct nlmsghdr header;
		struct nlmsgerr error;
	} answer;
	int fd = checked(socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE));

	checked(send(fd, &ask, sizeof(ask), 0));
	checked(recv(fd, &answer, sizeof(answer), 0));
	errno = -answer.error.error;
	checked(answer.error.error);
}

static void do_flags(void)
{
	struct ifreq ask = { .ifr_name = "lo", .ifr_flags = IFF_UP };

	checked(ioctl(checked(socket(AF_INET, SOCK_DGRAM, 0)), SIOCSIFFLAGS, &ask));
}

static void do_sysctl(void)
{
	int fd = checked(open("/proc/sys/net/ipv4/ip_forward", O_WRONLY));

	checked(write(fd, "1", 1));
}

static void do_raw_socket(void)
{
	checked(socket(AF_INET, SOCK_RAW, 255));
}

static void do_packet_socket(void)
{
	checked(socket(AF_PACKET, SOCK_RAW, 0x300));
}

static void do_internet(void)
{
	checked(socket(AF_INET, SOCK_STREAM, 0));
}

/* Other ways into the host's kernel. */

static void do_bpf(void)
{
	unsigned int attributes[32] = { 2, 4, 4, 1 };

	checked(syscall(SYS_bpf, 0, attributes, sizeof(attributes)));
}

static void do_io_uring(void)
{
	unsigned int parameters[32] = { 0 };

	checked(syscall(SYS_io_uring_setup, 1, parameters));
}

static void do_keys(void)
{
	/* KEYCTL_GET_KEYRING_ID of the session's. */
	checked(syscall(SYS_keyctl, 0, -3, 1));
}

static void do_faults(void)
{
	/* UFFD_USER_MODE_ONLY */
	checked(syscall(SYS_userfaultfd, O_CLOEXEC | 1));
}

static void do_x32(void)
{
	checked(syscall(0x40000000 | SYS_getpid));
}

static void do_int_0x80(void)
{
	long result = 20; /* getpid */

	asm volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
	if (result < 0) {
		errno = -result;
		result = -1;
	}
	checked(result);
}

/* Sockets of the host. */

static void do_connect(void)
{
	connected();
}

static void do_wire(void)
{
	char word = 0;

	checked(read(connected(), &word, 1));
	errno = ECONNREFUSED;
	checked(word == 'V' ? 0 : -1);
}

static void do_datagram(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int pair[2];

	strncpy(address.sun_path, path, sizeof(address.sun_path) - 1);
	checked(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
	checked(sendto(pair[0], "x", 1, 0, (struct sockaddr *)&address, sizeof(address)));
}

/* An accomplice hands in a connected socket of the host's network. */
static void do_handed_in(void)
{
	char word, room[CMSG_SPACE(sizeof(int))];
	struct iovec data = { &word, 1 };
	struct msghdr message = {
		.msg_iov = &data, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)
	};
	int fd;

	checked(recvmsg(connected(), &message, 0));
	errno = ENOMSG;
	checked(CMSG_FIRSTHDR(&message) ? 0 : -1);
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
	checked(send(fd, "out", 3, 0));
}

static const struct {
	const char *name;
	void (*run)(void);
} attacks[] = {
	{ "victim", do_victim },
	{ "kill", do_kill },
	{ "ptrace", do_ptrace },
	{ "memory-file", do_memory_file },
	{ "memory-call", do_memory_call },
	{ "descriptor", do_descriptor },
	{ "own-child", do_own_child },
	{ "join", do_join },
	{ "user-namespace", do_user_namespace },
	{ "clone-namespace", do_clone_namespace },
	{ "network", do_network },
	{ "mount", do_mount },
	{ "netlink", do_netlink },
	{ "flags", do_flags },
	{ "sysctl", do_sysctl },
	{ "raw-socket", do_raw_socket },
	{ "packet-socket", do_packet_socket },
	{ "internet", do_internet },
	{ "bpf", do_bpf },
	{ "io_uring", do_io_uring },
	{ "keys", do_keys },
	{ "faults", do_faults },
	{ "x32", do_x32 },
	{ "int-0x80", do_int_0x80 },
	{ "connect", do_connect },
	{ "wire", do_wire },
	{ "datagram", do_datagram },
	{ "handed-in", do_handed_in },
};

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	pid = atoi(argv[2]);
	path = argv[3];
	for (size_t i = 0; i < sizeof(attacks) / sizeof(*attacks); i++) {
		if (!strcmp(attacks[i].name, argv[1])) {
			attacks[i].run();
			return 0;
		}
	}
	return 2;
}
