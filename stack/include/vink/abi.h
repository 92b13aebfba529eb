/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The one contract between an image (the Linux network stack as a shared
 * object) and the host program that loads it. Nothing else crosses the border.
 *
 * Theory of operation
 * -------------------
 * An image is inert until vink_boot(). After that the kernel in it runs only
 * while a host thread is inside one of the calls below, and only one thread may
 * be inside at a time: the one that may call holds "the token". The token is the
 * host's (a mutex will do); the image has no thread of its own, no thread-local
 * storage and no affinity, so the token may pass between threads at will.
 *
 * Every task of the kernel is a fiber: a context with its own stack. When all
 * of them wait, the idle task leaves the kernel and vink_run() returns with the
 * time of the next timer. A blocked task therefore never holds the token.
 *
 * A task is a slot for system calls. Three ways lead in:
 *
 *  - a remote task: the host starts a struct vink_call on it with
 *    vink_call_start(), drives the kernel with vink_run(), and learns of the
 *    end from ops->done. The pointers among its arguments may lie in another
 *    process (call->space).
 *  - a fiber task: a host function runs as the task, on a stack of the host's,
 *    and makes system calls with vink_fiber_call(): a function call.
 *  - the control task, VINK_TASK_CONTROL: a remote task that exists from boot
 *    on, owns no machine, and answers the VINK_CALL_* that create things.
 *
 * Errors are negative errno values (include/uapi/asm-generic/errno.h, the
 * numbers of x86-64) unless said otherwise. VINK_DEAD means that the kernel
 * has panicked: nothing but vink_info() and vink_fault() may be expected to
 * work again, and no call ever finishes.
 *
 * Everything that a kernel interface already gives (addresses, routes, qdiscs,
 * nftables, sysctl) goes through system calls and netlink, not through here.
 */
#ifndef VINK_ABI_H
#define VINK_ABI_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdint.h>
#endif

/* Raised at every change that an older host or image can't bear. */
#define VINK_ABI_VERSION	2

/* Returned by any call once the kernel in the image has panicked. */
#define VINK_DEAD		(-4095)

/* "No timer is armed", in the place of a deadline. */
#define VINK_NEVER		(~0ULL)

/* The arena's start must be a multiple of this many bytes. */
#define VINK_ARENA_ALIGN	(4UL << 20)
/* The smallest arena that boots, in bytes. */
#define VINK_ARENA_MIN		(16UL << 20)

/* The task that answers control calls; exists from vink_boot() on. */
#define VINK_TASK_CONTROL	1

/* call->space: the calling process's own memory. Any other value is the host's
 * word for another address space (a process id, say), passed to ops->user_*.
 */
#define VINK_SPACE_SELF		0

/* call->nr: below VINK_CALL_BASE an x86-64 system call number; from there on
 * the calls that have no Linux equivalent. Pointers in the arguments of those
 * are always the caller's own memory and are valid until the call is done.
 */
#define VINK_CALL_BASE		0x10000

/*
 * On the control task. args: name (char *), its length in bytes (1..64).
 * Makes a machine: a network and a UTS namespace, the latter named as given.
 * Result: the machine's id (> 0), -EINVAL, -ENOMEM (less than 2 MiB of the
 * arena are free).
 */
#define VINK_CALL_MACHINE_CREATE	(VINK_CALL_BASE + 0)
/*
 * On the control task. args: machine id. Gives up the machine; the kernel
 * takes it down when its last task and socket are gone. Result: 0, -ESRCH.
 */
#define VINK_CALL_MACHINE_DESTROY	(VINK_CALL_BASE + 1)
/*
 * On any task. args: machine id. Opens the machine's network namespace as a
 * descriptor of the task, as open("/proc/PID/ns/net") would: for
 * IFLA_NET_NS_FD and setns(). Result: descriptor, -ESRCH, -EMFILE, -ENOMEM.
 */
#define VINK_CALL_MACHINE_FD		(VINK_CALL_BASE + 2)
/*
 * On the control task. args: machine id (0: the kernel's initial namespaces),
 * const struct vink_task_params *. Makes a process of one thread with an empty
 * descriptor table. Result: the task's id (> 1), -ESRCH, -ENOMEM, -EAGAIN,
 * -EINVAL (no such user or group).
 */
#define VINK_CALL_TASK_CREATE		(VINK_CALL_BASE + 3)
/*
 * On a remote task, which becomes the parent. args: VINK_CLONE_* flags, the
 * new task's cookie. The new remote task is what clone(2) would have made of
 * the parent: descriptors copied or shared, same machine. Result: its id.
 */
#define VINK_CALL_TASK_CLONE		(VINK_CALL_BASE + 4)
/*
 * On a remote task. args: status as in wait(2), whole group (0/1). The task
 * (or its thread group) exits as by exit(2); ops->gone follows for each task,
 * when its descriptors have been closed. ops->done is not called.
 */
#define VINK_CALL_TASK_EXIT		(VINK_CALL_BASE + 5)
/*
 * On any task. args: descriptor, cookie, events (EPOLL*). From now on every
 * edge of readiness of the open file is told to ops->ready with the cookie,
 * until the file's last descriptor is closed or events is 0; what is true at
 * the start counts as an edge. A falling edge is not told: ask with
 * VINK_CALL_POLL or VINK_FLAG_POLL. Masks may have more bits set than were
 * asked for (EPOLLRDNORM, EPOLLWRNORM, ...).
 * Result: the events true now (EPOLL* mask), -EBADF, -EPERM, -ENOMEM.
 */
#define VINK_CALL_WATCH			(VINK_CALL_BASE + 6)
/* On any task. args: descriptor. Result: its EPOLL* mask now, -EBADF. */
#define VINK_CALL_POLL			(VINK_CALL_BASE + 7)
/*
 * On any task: a deliberate fault for tests. args: VINK_TEST_*. Never
 * succeeds: the kernel panics, or -EINVAL.
 */
#define VINK_CALL_TEST			(VINK_CALL_BASE + 8)
/*
 * On any task. args: descriptor of a packet socket, cookie, struct vink_block *,
 * how many there is room for. In the place of mmap(2) of the socket, which the
 * host does for its program: fills in where the blocks of the socket's receive
 * ring lie in the arena, then those of its transmit ring; all are whole pages.
 * Until VINK_CALL_RING_UNMAP the socket is held open and the rings stay where
 * they are (a change of them is -EBUSY), as with a socket that is mapped.
 * Between calls the host may put other memory with the same contents in the
 * place of the blocks; it must be private again when it unmaps.
 * Result: the number of blocks; nothing was done if there was not room for all
 * of them. -EBADF, -ENODEV (not a packet socket), -EINVAL (no ring), -ENOMEM.
 */
#define VINK_CALL_RING_MAP		(VINK_CALL_BASE + 9)
/* On any task. args: cookie. Undoes VINK_CALL_RING_MAP. Result: 0, -ENOENT. */
#define VINK_CALL_RING_UNMAP		(VINK_CALL_BASE + 10)
/* On any task. args: cookie. As VINK_CALL_POLL of the socket; -ENOENT. */
#define VINK_CALL_RING_POLL		(VINK_CALL_BASE + 11)
/*
 * Wires, all on the control task. args: VINK_WIRE_* flags. Makes a wire, which
 * is up and ideal. Result: its id (> 0), -EINVAL, -ENOMEM.
 */
#define VINK_CALL_WIRE_CREATE		(VINK_CALL_BASE + 12)
/* args: wire. Its ends go, with their interfaces. Result: 0, -ESRCH. */
#define VINK_CALL_WIRE_DESTROY		(VINK_CALL_BASE + 13)
/*
 * args: wire, machine id, name (char *, NUL-terminated), Ethernet address
 * (uint8_t[6]; NULL: a random one), MTU (0: 1500). Makes an interface of the
 * machine, still down, that is an end of the wire. An end goes with its
 * interface, and that with its machine. Result: the end's id (> 0), -ESRCH,
 * -EBUSY (a point-to-point wire has two ends already), -EEXIST (the name),
 * -EINVAL (name, address or MTU), -ENOMEM.
 */
#define VINK_CALL_WIRE_ATTACH		(VINK_CALL_BASE + 14)
/* args: end. Removes the end and its interface. Result: 0, -ESRCH. */
#define VINK_CALL_WIRE_DETACH		(VINK_CALL_BASE + 15)
/*
 * args: wire, end (0: all ends, and those to come), const struct
 * vink_wire_settings *. Holds for the next packet of each end on.
 * Result: 0, -ESRCH, -EINVAL (a time beyond a day, an unknown flag), -ENOMEM.
 */
#define VINK_CALL_WIRE_SET		(VINK_CALL_BASE + 16)
/*
 * args: wire, up (0/1). A wire that is down carries nothing, loses what is on
 * it, and its ends have no carrier. On a point-to-point wire an end has none
 * either while there is no other end, or that one's interface is down.
 * Result: 0, -ESRCH.
 */
#define VINK_CALL_WIRE_STATE		(VINK_CALL_BASE + 17)
/* args: end, struct vink_wire_stats *. Result: 0, -ESRCH. */
#define VINK_CALL_WIRE_STATS		(VINK_CALL_BASE + 18)
/*
 * args: end, VINK_PACKET_* mask, snapshot length in bytes (at most 65535).
 * From now on ops->packet is called for these events of the end, and ops->verdict
 * for those whose VINK_ASK_* bit is set.
 * Result: 0, -ESRCH, -EINVAL, -ENOMEM, -EOPNOTSUPP (there is no such op).
 */
#define VINK_CALL_WIRE_TRACE		(VINK_CALL_BASE + 19)
/*
 * On a fiber task. Gives the host its turn although there is work: vink_run()
 * returns, with the present time as the deadline, and goes on from here when it
 * is called next. For fibers that may be busy for long. Result: 0, -EPERM.
 */
#define VINK_CALL_YIELD			(VINK_CALL_BASE + 20)
/*
 * On the control task. args: the name of one of the kernel's tracepoints (char
 * *, NUL-terminated), cookie, on (0/1). Until it is undone with the same
 * arguments, ops->probe is called with the cookie whenever the kernel passes
 * the tracepoint. Result: 0, -ESRCH (the kernel has none of this name), -ENOENT
 * (nothing to undo), -EOPNOTSUPP (there is no ops->probe), -ENOMEM.
 */
#define VINK_CALL_PROBE			(VINK_CALL_BASE + 21)
/*
 * On the control task. args: wire, const struct vink_share *, end (0: a new
 * one). Makes an end of the wire that leads to another process, whose line is
 * down; or has one lead to yet another process. The memory must stay until then,
 * or until the end is gone, with its wire or by VINK_CALL_WIRE_DETACH. Result:
 * the end's id (> 0), -ESRCH, -EBUSY (as VINK_CALL_WIRE_ATTACH), -EINVAL (the
 * size), -EOPNOTSUPP (there is no ops->bell), -ENOMEM.
 */
#define VINK_CALL_WIRE_SHARE		(VINK_CALL_BASE + 22)
/*
 * On the control task. args: end, up (0/1). The other process is there and has
 * made its end, or it is not: the carrier of the wire's other end, and frames
 * that wait are lost. Result: 0, -ESRCH (no such end).
 */
#define VINK_CALL_WIRE_CARRIER		(VINK_CALL_BASE + 23)
/*
 * On the control task. args: end. What ops->verdict holds there until it is told
 * otherwise goes on now, in order. Result: 0, -ESRCH.
 */
#define VINK_CALL_WIRE_RELEASE		(VINK_CALL_BASE + 24)
/*
 * On the control task. The host has frames (ops->put) although no packet was
 * taken: they go on now. Result: 0, -EOPNOTSUPP (there is no such op).
 */
#define VINK_CALL_WIRE_PUT		(VINK_CALL_BASE + 25)
/*
 * On the control task. args: const uint64_t *, how many, struct vink_end_counts *.
 * The counts of each of these ends; of one that is not there, zeroes. Result: 0.
 */
#define VINK_CALL_WIRE_COUNTS		(VINK_CALL_BASE + 26)
#define VINK_CALL_END			(VINK_CALL_BASE + 27)

/* VINK_CALL_WIRE_CREATE: an Ethernet segment of any number of ends. */
#define VINK_WIRE_BUS		1

/* struct vink_wire_settings, flags: */
#define VINK_WIRE_OVERTAKE	1	/* jitter may change the order */
#define VINK_WIRE_BURSTS	2	/* loss is Gilbert's and Elliott's */

#define VINK_CLONE_THREAD	1	/* same thread group and descriptors */
#define VINK_CLONE_FILES	2	/* shared descriptor table (CLONE_FILES) */

#define VINK_TEST_BUG		1	/* BUG() */
#define VINK_TEST_NULL		2	/* write through a null pointer */
#define VINK_TEST_STACK		3	/* endless recursion */

/* What a new task is. All pointers are the host's own memory. */
struct vink_task_params {
	uint64_t cookie;	/* given back in ops->gone */
	/*
	 * A fiber task's function and the highest address of the stack that it
	 * and the kernel below it use (at least 64 KiB, 16-byte aligned; the
	 * host frees it after ops->gone). Both 0: a remote task. What the
	 * function returns is the task's exit status.
	 */
	int (*entry)(void *arg);
	void *arg;
	void *stack_top;
	/*
	 * Capabilities that the task, and what is cloned from it, has not and
	 * can't get (bit n: capability n of capabilities(7)): it is as a process
	 * that lacks them in all its sets, the bounding one too. Without
	 * CAP_SYS_MODULE it starts no protocol on demand. 0: it has them all.
	 */
	uint64_t drop;
	/*
	 * Its user and group, in the kernel's own user namespace. What may be
	 * written below /proc/sys is decided by these, too: 0 is root.
	 */
	uint32_t uid;
	uint32_t gid;
};

/*
 * What a wire does to the packets that one end sends. All zeroes: an ideal wire,
 * which hands over packets as they are, unsegmented ones too. Anything else
 * makes them Ethernet frames of the interface's MTU, sent one at a time.
 *
 * A probability is p / 2^32, where 2^32 - 1 means always.
 */
struct vink_wire_settings {
	uint64_t rate;		/* bit/s, counting whole frames; 0: no limit */
	uint64_t delay;		/* ns, from a frame's last bit on */
	uint64_t jitter;	/* ns: delay - jitter to delay + jitter, evenly */
	uint32_t flags;		/* VINK_WIRE_OVERTAKE, VINK_WIRE_BURSTS */
	/*
	 * Of a packet to be lost. With VINK_WIRE_BURSTS: in the good state, in
	 * the bad state; to go from good to bad, from bad to good.
	 */
	uint32_t loss;
	uint32_t loss_bad;
	uint32_t to_bad;
	uint32_t to_good;
	uint32_t corrupt;	/* one bit of the frame is another */
	uint32_t duplicate;	/* it comes twice */
	uint32_t reorder;	/* every gap-th packet: it has no delay */
	uint32_t gap;		/* 0, 1: every packet */
	uint32_t limit;		/* packets under way; 0: while there is memory */
	uint32_t mtu;		/* bytes behind the Ethernet header; 0: any */
	uint32_t reserved;
};

/* Numbers of one end, of packets that it sent unless said otherwise. */
struct vink_wire_stats {
	uint64_t sent;		/* by the interface */
	uint64_t sent_bytes;
	uint64_t received;	/* of the other ends */
	uint64_t received_bytes;
	uint64_t lost_random;	/* VINK_LOST_* */
	uint64_t lost_limit;
	uint64_t lost_mtu;
	uint64_t lost_down;
	uint64_t corrupted;
	uint64_t duplicated;
	uint64_t reordered;
	uint64_t under_way;	/* now: being sent, or delayed */
};

/* What is asked of many ends often, of packets that each sent. */
struct vink_end_counts {
	uint64_t sent;		/* by the interface */
	uint64_t sent_bytes;
	uint64_t lost;		/* whatever for */
	uint32_t under_way;	/* now: being sent, or delayed */
	uint32_t queued;	/* now: in the interface's queueing discipline */
};

/* struct vink_packet, kind, and bits of VINK_CALL_WIRE_TRACE: */
#define VINK_PACKET_DEPARTURE	1	/* the interface sends it */
#define VINK_PACKET_ARRIVAL	2	/* the interface receives it */
#define VINK_PACKET_LOSS	4	/* the wire lost it; reason: VINK_LOST_* */
/*
 * The stack dropped it, on its way to the interface or after it came in by it;
 * reason: enum skb_drop_reason of the image's kernel.
 */
#define VINK_PACKET_DROP	8

/* Further bits of VINK_CALL_WIRE_TRACE: the host is asked (ops->verdict). */
#define VINK_ASK_DEPARTURE	(VINK_PACKET_DEPARTURE << 4)
#define VINK_ASK_ARRIVAL	(VINK_PACKET_ARRIVAL << 4)
#define VINK_ASK_LOSS		(VINK_PACKET_LOSS << 4)
#define VINK_ASK_DROP		(VINK_PACKET_DROP << 4)
/*
 * ... about Ethernet frames of the MTU that have their checksums: what was sent
 * in one piece is segmented before it is asked about.
 */
#define VINK_ASK_FRAMES		0x100
/* ... with a departing packet's mark in its reason. */
#define VINK_ASK_MARK		0x200

/*
 * One more bit of VINK_CALL_WIRE_TRACE: ops->flight tells of each packet that the
 * interface sends when it is known when it will arrive.
 */
#define VINK_PACKET_FLIGHT	0x400

#define VINK_LOST_RANDOM	1	/* by the loss that was set */
#define VINK_LOST_LIMIT		2	/* too many packets under way, or no memory */
#define VINK_LOST_MTU		3	/* larger than the wire's MTU */
#define VINK_LOST_DOWN		4	/* the wire or the far interface is down */
#define VINK_LOST_VERDICT		5	/* the host's will (VINK_VERDICT_DROP) */

/* An event of a traced end. Valid during ops->packet or ops->verdict only. */
struct vink_packet {
	uint64_t time;		/* on ops->clock, ns */
	uint64_t end;
	uint32_t kind;		/* VINK_PACKET_* */
	/*
	 * Of a loss or drop. With VINK_ASK_MARK, of a departing packet that
	 * ops->verdict is asked about: the mark that the stack has given it.
	 * Else 0.
	 */
	uint32_t reason;
	const char *name;	/* of the reason, NUL-terminated; else NULL */
	const void *bytes;	/* the first ones, from the Ethernet header on; */
	uint32_t captured;	/* so many of them, */
	uint32_t len;		/* of so many */
	/* A packet that was dropped before it had an Ethernet header: 1. */
	uint32_t headless;
	uint32_t put;		/* the host has put it here (ops->put): 1 */
	/*
	 * For ops->verdict only: the struct sock of the end's machine that has
	 * sent a TCP segment, or whose connection it comes for; else NULL.
	 */
	const void *sock;
};

#define VINK_FLIGHT_BYTES	256	/* of a packet, at most */

/* A packet under way; see VINK_PACKET_FLIGHT. Valid during ops->flight only. */
struct vink_flight {
	/*
	 * Names it. One that is lost after it was told is told again by the same
	 * id; one that is lost before has 0.
	 */
	uint64_t id;
	uint64_t end;		/* which sends it */
	/*
	 * On ops->clock, ns: when the interface sent it, and when it will
	 * arrive, or was lost. On a bus it may arrive at several ends.
	 */
	uint64_t sent;
	uint64_t arrives;
	uint32_t lost;		/* VINK_LOST_*, or 0 */
	uint32_t len;		/* bytes, from the Ethernet header on; */
	const void *bytes;	/* the first ones of them, */
	uint32_t captured;	/* so many */
	uint32_t reserved;
};

/*
 * What becomes of a packet, which the host says in ops->verdict. Zeroes: it goes on
 * as if the host had not been asked.
 */
struct vink_verdict {
	uint32_t flags;		/* VINK_VERDICT_* */
	uint32_t copies;	/* that go on with it, at most 64 */
	uint64_t delay;		/* ns; VINK_NEVER: until VINK_CALL_WIRE_RELEASE */
	/*
	 * It goes on right behind the one that is so many packets after it
	 * here (but see VINK_VERDICT_UNCOUNTED), not later than the delay
	 * says. 0: by the delay only.
	 */
	uint32_t behind;
	uint32_t bit;		/* VINK_VERDICT_CORRUPT: this one of the frame's */
};

#define VINK_VERDICT_DROP		1	/* the wire loses it */
#define VINK_VERDICT_CORRUPT	2	/* one bit is another */
/* It is held until VINK_CALL_WIRE_RELEASE, when it is asked about again. */
#define VINK_VERDICT_AGAIN		4
/*
 * The host has copied its bytes: it is gone. What comes in its place is asked for
 * (ops->put) by the vink_run() after the one that asked. Until then an interface
 * that has a rate sends nothing more.
 */
#define VINK_VERDICT_TAKE		8
/* Packets that go on behind others (vink_verdict.behind) do not count this one. */
#define VINK_VERDICT_UNCOUNTED	16

/* A frame of the host's; see ops->put. */
struct vink_put {
	uint64_t end;
	uint32_t kind;		/* VINK_PACKET_DEPARTURE or VINK_PACKET_ARRIVAL */
	uint32_t len;		/* from the Ethernet header on */
	const void *bytes;	/* until ops->put is called again */
};

/*
 * One direction of a wire between two processes: a page, mapped by both, in
 * front of a ring of frames. A counter is written by one side, which never reads
 * it back, and runs on over the ring's end. Zeroes at first.
 */
struct vink_pipe {
	uint64_t head;		/* bytes put in; the sender's */
	uint64_t pad0[15];
	uint64_t tail;		/* bytes taken out; the receiver's */
	uint64_t pad1[15];
	/*
	 * The receiver's host is about to sleep, and has seen that there is
	 * nothing for it since it wrote this: neither a frame in this ring, nor
	 * room for one that waits (starved) in half of the other. Cleared by
	 * its own image, which has found something; or by the other side's,
	 * which then calls ops->bell.
	 */
	uint32_t asleep;
	uint32_t pad2[31];
	uint32_t starved;	/* the sender has a frame that waits for room */
	uint32_t pad3[31];
	uint32_t most;		/* bytes of a frame that the receiver takes */
	uint32_t pad4[31];
};

/* A frame in a ring, at a multiple of 8. Its bytes follow. */
struct vink_frame {
	uint32_t len;		/* of the bytes */
	uint32_t reserved;
	uint8_t header[16];	/* a struct virtio_net_hdr, little-endian */
};

/* An end's two rings; see VINK_CALL_WIRE_SHARE. */
struct vink_share {
	struct vink_pipe *out;	/* of frames that the wire carries to the end */
	struct vink_pipe *inward;	/* of frames that the end sends */
	/* The rings' bytes: each is mapped twice, one behind the other. */
	void *out_bytes;
	void *in_bytes;
	uint64_t size;		/* of a ring, once; a power of two */
	uint64_t cookie;	/* for ops->bell */
};

#define VINK_SHARE_MIN		(1UL << 20)	/* of its size */

/* A piece of a packet socket's ring; see VINK_CALL_RING_MAP. */
struct vink_block {
	void *start;		/* in the arena, page-aligned */
	uint64_t len;		/* bytes */
};

#define VINK_CALL_IDLE		0	/* never started, or done and taken */
#define VINK_CALL_RUNNING	1	/* started; belongs to the image */
#define VINK_CALL_DONE		2	/* result and signals are valid */

/* call->flags, set by the host: */
#define VINK_FLAG_POLL		1	/* report poll_fd's mask in events */
/*
 * The thread that waits for this call will soon make another one on the same
 * task: when the call is done and nothing else can run, vink_run() returns with
 * the task in the place of the idle one, as if its program were running. The next
 * call then needs no switch between tasks. The deadline is that of the next
 * tick; a vink_run() without a call on the task ends it. Older images ignore it.
 */
#define VINK_FLAG_STAY		2
/*
 * A deferred send: its program has been told already that it succeeded. It has at
 * most so many bytes as the last call on the same TCP socket has reported as send
 * credit. If the connection has ended since, the bytes are lost as they would have
 * been; if there is no room for them after all, the connection is reset.
 */
#define VINK_FLAG_DEFERRED	4
#define VINK_FLAG_CREDIT	8	/* report poll_fd's send credit */
/* set by the image: */
#define VINK_FLAG_RESTART	0x100	/* -EINTR stands for -ERESTART* */

/* One system call of a remote task. Owned by the image while RUNNING. */
struct vink_call {
	uint32_t nr;
	uint32_t flags;
	uint64_t args[6];
	uint64_t space;		/* whose memory the pointers are in */
	uint64_t cookie;	/* the host's own; the image ignores it */
	int64_t result;		/* as from the system call instruction */
	/*
	 * Signals that the kernel sent to the task meanwhile (bit n-1: signal
	 * n): SIGPIPE, SIGIO, ... The host raises them in its program.
	 */
	uint64_t signals;
	int32_t poll_fd;	/* in, with VINK_FLAG_POLL */
	uint32_t events;	/* out, with VINK_FLAG_POLL: EPOLL* mask, or 0 */
	uint32_t state;		/* VINK_CALL_IDLE/RUNNING/DONE */
	/* Out, with VINK_FLAG_CREDIT: bytes that a send can't fail to take, or 0. */
	uint32_t credit;
};

/* What a panic leaves. Valid during ops->panic only. */
struct vink_panic {
	const char *message;	/* NUL-terminated, one line */
	const uint64_t *trace;	/* code addresses, innermost first */
	uint32_t depth;		/* of trace */
	uint32_t reserved;
};

/* Numbers for leak checks and dashboards; see vink_counters(). */
struct vink_counters {
	uint64_t tasks;		/* remote and fiber tasks alive */
	uint64_t machines;	/* not yet destroyed */
	uint64_t sockets;	/* struct socket in use, all machines */
	uint64_t files;		/* open descriptors of all processes */
	uint64_t arena_pages;	/* pages of 4 KiB under the allocator */
	uint64_t free_pages;	/* of them, free */
	uint64_t switches;	/* context switches since boot */
	uint64_t calls;		/* remote calls started since boot */
};

/*
 * What the host gives. Called by the thread that holds the token, from inside
 * one of the calls below, on a stack of the kernel's (16 KiB may be left): they
 * must be quick, must not block and must not call back into the image.
 */
struct vink_ops {
	/* The host's monotonic clock or a virtual one, in ns. Never goes back. */
	uint64_t (*clock)(void *host);
	/* Kernel log text as it is printed; whole lines, not NUL-terminated. */
	void (*console)(void *host, const char *text, uint64_t len);
	/* The kernel has panicked. Record and return; VINK_DEAD follows. */
	void (*panic)(void *host, const struct vink_panic *panic);
	/*
	 * Copy between the arena and another address space. Return the number
	 * of bytes copied, counted from the start; short means a bad address.
	 */
	uint64_t (*user_read)(void *host, uint64_t space, void *dst,
			      uint64_t src, uint64_t len);
	uint64_t (*user_write)(void *host, uint64_t space, uint64_t dst,
			       const void *src, uint64_t len);
	/* A remote call is DONE; the call is the host's again. */
	void (*done)(void *host, struct vink_call *call);
	/* A watched file has all these EPOLL* events now (VINK_CALL_WATCH). */
	void (*ready)(void *host, uint64_t cookie, uint32_t events);
	/* A task is gone, its descriptors closed, its id invalid. */
	void (*gone)(void *host, uint64_t task, uint64_t cookie, int status);
	/*
	 * Give these bytes of the arena back to the host (MADV_DONTNEED): they
	 * read as zeroes until written. May be NULL: keep.
	 */
	void (*release)(void *host, void *start, uint64_t len);
	/*
	 * Something happened to a packet (VINK_CALL_WIRE_TRACE). May be NULL;
	 * a host that never traces may be older than this member.
	 */
	void (*packet)(void *host, const struct vink_packet *packet);
	/*
	 * The kernel passes a tracepoint (VINK_CALL_PROBE). args: the first
	 * three of what its TP_PROTO says: addresses in this process, or
	 * numbers, whose unused high bits may be anything, as what is beyond
	 * the last one. May be NULL, or missing as ops->packet.
	 */
	void (*probe)(void *host, uint64_t cookie, const uint64_t *args);
	/*
	 * For an end that leads to another process (VINK_CALL_WIRE_SHARE): wake
	 * the other process's host, which sleeps; or, with spoiled, that one has
	 * written into the memory what can't be, and the end carries nothing any
	 * more. May be NULL, or missing as ops->packet.
	 */
	void (*bell)(void *host, uint64_t cookie, uint32_t spoiled);
	/*
	 * What is to become of a packet (VINK_CALL_WIRE_TRACE, VINK_ASK_*)? One
	 * that departs has been sent by its interface, and the wire does not
	 * have it yet; one that arrives has been carried by the wire, and its
	 * interface does not have it yet. What is said of one that was lost or
	 * dropped means nothing. May be NULL, or missing as ops->packet.
	 */
	void (*verdict)(void *host, const struct vink_packet *packet,
		     struct vink_verdict *verdict);
	/*
	 * The next frame that the host has, as if the interface had sent it, or
	 * the wire had carried it there. The host is asked about it as about
	 * others. 0: there are no more. Called after packets were taken, and by
	 * VINK_CALL_WIRE_PUT. May be NULL, or missing as ops->packet.
	 */
	int (*put)(void *host, struct vink_put *put);
	/*
	 * A packet is under way, or was lost (VINK_PACKET_FLIGHT). May be NULL,
	 * or missing as ops->packet.
	 */
	void (*flight)(void *host, const struct vink_flight *flight);
};

/* How to boot. Only read during vink_boot(), except ops and the arena. */
struct vink_boot {
	uint32_t abi_version;	/* VINK_ABI_VERSION */
	uint32_t size;		/* sizeof(struct vink_boot) */
	const struct vink_ops *ops;	/* stays valid for the kernel's life */
	void *host;		/* first argument of every op */
	void *arena;		/* zeroed memory, VINK_ARENA_ALIGN aligned */
	uint64_t arena_size;	/* bytes, a multiple of VINK_ARENA_ALIGN */
	const char *cmdline;	/* kernel parameters added to the image's own */
	uint8_t seed[32];	/* of the kernel's random numbers */
	uint64_t realtime;	/* CLOCK_REALTIME when the clock is at 0, ns since 1970 */
};

struct vink_info {
	uint32_t abi_version;
	uint32_t size;		/* sizeof(struct vink_info) */
	const char *release;	/* as uname -r */
	const char *version;	/* as uname -v */
	const void *text_start;	/* the image's code, */
	const void *text_end;	/* for symbolisers and fault handlers */
};

/*
 * A hardware fault met inside the image: filled from the signal's ucontext by
 * the host's SIGSEGV/SIGBUS/SIGILL/SIGFPE handler, and put back into it after
 * vink_fault() has returned 1.
 */
struct vink_fault {
	uint64_t rip, rsp, rbp;
	uint64_t rdi, rsi;
	uint64_t rcx, rax, rdx;
	uint64_t address;	/* si_addr */
	uint32_t signal;
	uint32_t reserved;
};

#define VINK_API __attribute__((visibility("default")))

/* Any thread, any time, before vink_boot() too. Never blocks. */
VINK_API const struct vink_info *vink_info(void);

/*
 * Once per loaded image, with the token. Boots until everything is idle.
 * 0; -EPROTO (ABI version), -EINVAL (alignment, missing op), -ENOMEM (arena
 * below VINK_ARENA_MIN), -EALREADY, VINK_DEAD (ops->panic was called).
 */
VINK_API int vink_boot(const struct vink_boot *boot);

/*
 * With the token; not from a fiber. Fires due timers and runs tasks until all
 * wait, then stores the next timer's time on ops->clock, or VINK_NEVER, in
 * *deadline. The host calls again at that time, or after vink_call_start() or
 * vink_call_cancel(). Does not block; takes as long as there is work.
 * 0, -EINVAL (not booted), -EBUSY (from a fiber), VINK_DEAD.
 */
VINK_API int vink_run(uint64_t *deadline);

/*
 * With the token; from a fiber too. Queues the call on its task; vink_run()
 * executes it. 0, -ESRCH (no such task), -EBUSY (the task has a call in
 * progress, or is a fiber), VINK_DEAD. The call's state tells the rest.
 */
VINK_API int vink_call_start(uint64_t task, struct vink_call *call);

/*
 * With the token; from a fiber too. Interrupts the task's call as a signal
 * would: one that waits ends with -EINTR, one that is finished stays as it is.
 * ops->done follows in a later vink_run() in any case. 0, -ESRCH, -ENOENT (no
 * call in progress).
 */
VINK_API int vink_call_cancel(uint64_t task);

/*
 * From a fiber task's own context only, which holds the token as long as it
 * runs. A system call or VINK_CALL_* of the calling task. May switch to other
 * tasks; returns when the call is done, or never after a panic. A fiber exits
 * by returning from its function: exit(2), fork(2), execve(2) are -ENOSYS.
 */
VINK_API int64_t vink_fiber_call(uint64_t nr, uint64_t a0, uint64_t a1,
				 uint64_t a2, uint64_t a3, uint64_t a4,
				 uint64_t a5);

/*
 * From a signal handler on an alternate stack, on the thread that met the
 * fault. 1: the frame has been changed so that execution can go on (a bad user
 * pointer becomes -EFAULT; anything else in the image becomes a panic with a
 * backtrace). 0: the fault is not the image's; nothing was changed.
 */
VINK_API int vink_fault(struct vink_fault *fault);

/* With the token. Fills the counters. 0, -EINVAL (not booted). */
VINK_API int vink_counters(struct vink_counters *counters);

#endif /* VINK_ABI_H */
