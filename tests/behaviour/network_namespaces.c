/* Network namespaces that a program makes and enters: unshare(), clone(), setns(). */
#include "check.h"
#include <pthread.h>
#include <sched.h>

static int port;

/* What can be seen from here. */
static void look(const char *from)
{
	char line[256];
	union address a;
	socklen_t len = loopback(AF_INET, port, &a);
	int interfaces = -2, s = MUST(socket(AF_INET, SOCK_STREAM, 0));
	FILE *f = fopen("/proc/self/net/dev", "r");
	struct ifreq r = { .ifr_name = "lo" };

	while (f && fgets(line, sizeof(line), f))
		interfaces++;
	fclose(f);
	MUST(ioctl(s, SIOCGIFFLAGS, &r));
	printf("%s: %d interface, %s; server: ", from, interfaces,
	       r.ifr_flags & IFF_UP ? "up" : "down");
	errno = 0;
	connect(s, &a.any, len);
	printf("%s\n", errno ? strerrorname_np(errno) : "reached");
	close(s);
}

static void loopback_up(void)
{
	struct ifreq r = { .ifr_name = "lo" };
	int s = MUST(socket(AF_INET, SOCK_DGRAM, 0));

	MUST(ioctl(s, SIOCGIFFLAGS, &r));
	r.ifr_flags |= IFF_UP;
	MUST(ioctl(s, SIOCSIFFLAGS, &r));
	close(s);
}

static int own_namespace(void)
{
	return MUST(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
}

static void *grandchild_thread(void *arg)
{
	look("a thread of that thread");
	return arg;
}

static void *leaving_thread(void *arg)
{
	pthread_t thread;

	TRY(unshare(CLONE_NEWNET));
	look("a thread that left");
	MUST(pthread_create(&thread, NULL, grandchild_thread, NULL));
	pthread_join(thread, NULL);
	return arg;
}

static void *other_thread(void *arg)
{
	look("a thread made before");
	pthread_barrier_wait(arg);
	pthread_barrier_wait(arg);
	look("a thread made before");
	return arg;
}

/* As root of a user namespace of its own. */
static void inside(int old[2])
{
	char byte;

	look("a new namespace");
	TRY(send(old[0], "x", 1, 0));
	TRY(recv(old[1], &byte, 1, 0));
	loopback_up();
	look("its loopback up");
	int first = own_namespace();
	int l = listener(AF_INET);
	port = port_of(l);
	look("its own server");

	title("a second one, and back");
	TRY(unshare(CLONE_NEWNET));
	look("second");
	int second = own_namespace();
	TRY(setns(first, CLONE_NEWNET));
	look("first");
	TRY(setns(second, 0));
	look("second");
	TRY(setns(first, CLONE_NEWUTS));
	TRY(setns(old[0], CLONE_NEWNET));
	TRY(setns(NO_FD, 0));
	look("still second");

	title("inherited");
	pid_t pid = child();
	if (!pid) {
		look("a child");
		TRY(setns(first, CLONE_NEWNET));
		look("a child that went back");
		exit(0);
	}
	join(pid);
	pid = child();
	if (!pid) {
		char number[12];

		close(l);
		close(old[0]);
		close(old[1]);
		snprintf(number, sizeof(number), "%d", port);
		execl("/proc/self/exe", "network_namespaces", number, NULL);
		_exit(99);
	}
	join(pid);
	look("still second");

	title("clone");
	TRY(setns(first, 0));
	fflush(stdout);
	pid = MUST(syscall(SYS_clone, CLONE_NEWNET | SIGCHLD, 0, 0, 0, 0));
	if (!pid) {
		look("a child");
		exit(0);
	}
	join(pid);
	look("its parent");

	title("threads");
	pthread_barrier_t barrier;
	pthread_t other, leaving;
	pthread_barrier_init(&barrier, NULL, 2);
	MUST(pthread_create(&other, NULL, other_thread, &barrier));
	pthread_barrier_wait(&barrier);
	MUST(pthread_create(&leaving, NULL, leaving_thread, NULL));
	pthread_join(leaving, NULL);
	pthread_barrier_wait(&barrier);
	pthread_join(other, NULL);
	look("the first thread");
}

int main(int argc, char **argv)
{
	int old[2];

	if (argc > 1) {
		limit_life();
		port = atoi(argv[1]);
		look("executed");
		return 0;
	}
	begin();
	int l = listener(AF_INET);
	port = port_of(l);
	look("the machine");
	stream_pair(AF_INET, old);
	pid_t pid = child();
	if (!pid) {
		TRY(unshare(CLONE_NEWUSER | CLONE_NEWNET));
		inside(old);
		exit(0);
	}
	join(pid);

	title("clone with a user namespace");
	fflush(stdout);
	pid = MUST(syscall(SYS_clone, CLONE_NEWUSER | CLONE_NEWNET | SIGCHLD, 0, 0, 0, 0));
	if (!pid) {
		look("a child");
		loopback_up();
		look("its loopback up");
		exit(0);
	}
	join(pid);
	look("the machine");
	return 0;
}
