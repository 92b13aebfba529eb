/* SPDX-License-Identifier: GPL-2.0 */
/* What the files of arch/vink/kernel/ know of each other. */
#ifndef _ASM_VINK_VINK_H
#define _ASM_VINK_VINK_H

#include <linux/init.h>
#include <linux/sched.h>
#include <linux/types.h>

#include <vink/abi.h>

struct nsproxy;
struct vink_group;

/* A task that makes system calls for the host. */
struct vink_slot {
	struct task_struct *task;	/* NULL until it first runs */
	struct vink_call *call;		/* in progress, or NULL */
	u64 id;
	struct vink_task_params params;
	struct nsproxy *ns;		/* to enter first, or NULL */
	struct vink_slot *next_note;
	bool noted;			/* on the list of notes */
	bool cancelled;			/* the call in progress is */
	bool stays;			/* VINK_FLAG_STAY of the last one */
};

/* abi.c */
extern const struct vink_ops *vink_ops;
extern void *vink_host;
extern bool vink_booted;
extern bool vink_dead;
extern bool vink_inside;	/* the kernel runs, not the host */
extern u64 vink_entries;	/* how often the host came in */
void vink_leave(void);		/* to the host, until it comes back */
void vink_yield(void);		/* the same in the middle of work */

/* call.c */
extern struct vink_slot *vink_staying;	/* whose task left last, or NULL */
bool vink_serve_staying(void);
struct vink_slot *vink_slot_alloc(void);
void vink_slot_free(struct vink_slot *slot);
u64 vink_slot_count(void);
u64 vink_calls_started(void);
void vink_take_notes(void);
void __noreturn vink_serve_calls(struct vink_slot *slot);
int vink_task_main(void *slot);

/* init.c; from switch.S */
void __noreturn vink_program_main(void);

/* deferred_send.c */
u32 vink_send_credit(int fd);
long vink_deferred_send(const u64 args[6]);

/* control.c */
long vink_control_call(struct vink_slot *slot, u64 nr, const u64 *args);

/* machine.c */
long vink_machine_create(const char *name, u64 len);
long vink_machine_destroy(u64 id);
long vink_machine_fd(u64 id);
struct nsproxy *vink_machine_ns(u64 id);	/* with a reference, or NULL */
u64 vink_machine_count(void);

/* ondemand.c */
bool vink_ondemand_find(const char *request, struct vink_group **group);
int vink_ondemand_start(struct vink_group *group);

/* panic.c */
void vink_panic_setup(void);
void __noreturn vink_fault_panic(void);	/* from switch.S */

/* probe.c */
long vink_probe(const char *name, u64 cookie, bool on);

/* ring.c */
long vink_ring_map(int fd, u64 cookie, struct vink_block *blocks, u64 room);
long vink_ring_unmap(u64 cookie);
long vink_ring_poll(u64 cookie);

/* setup.c */
u64 vink_seed(u64 a, u64 b);	/* a seed for what a and b number */
void vink_setup_boot(const struct vink_boot *boot);

/* time.c */
extern u64 vink_deadline;	/* on the host's clock, or VINK_NEVER */
extern u64 vink_epoch;		/* the date when the clock is at 0, ns */
void vink_interrupt(void);	/* the timer's */

static inline u64 vink_clock(void)
{
	return vink_ops->clock(vink_host);
}

/* ../drivers/shared.c */
bool vink_frames_pending(void);	/* of other processes, or the host's */
bool vink_frames_left(void);	/* more than the host waits for */
void vink_frames_interrupt(void);	/* theirs, as vink_interrupt() */

/* ../drivers/vx.c */
struct net_device;
bool vink_is_wire(const struct net_device *dev);	/* an end of one */

/* ../drivers/wire.c */
long vink_wire_call(u64 nr, const u64 *args);

/* watch.c */
long vink_watch(int fd, u64 cookie, u32 events);
long vink_poll(int fd);
int vink_watch_init(void);

#endif /* _ASM_VINK_VINK_H */
