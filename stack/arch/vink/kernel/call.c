// SPDX-License-Identifier: GPL-2.0
/*
 * Slots: the tasks that make system calls for the host's programs.
 *
 * A remote task sleeps until the host hands it a struct vink_call, serves it and
 * sleeps again. A fiber task runs a function of the host's, which calls
 * vink_fiber_call(). Either way the call is made by the task itself, so current,
 * its descriptors, credentials and namespaces are right without further ado.
 */

#include <linux/idr.h>
#include <linux/nsproxy.h>
#include <linux/resume_user_mode.h>
#include <linux/sched/signal.h>
#include <linux/sched/stat.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/syscalls.h>
#include <linux/task_work.h>

#include <asm/switch_to.h>
#include <asm/syscall.h>
#include <asm/versions.h>
#include <asm/vink.h>

static DEFINE_IDR(slots);
static u64 slot_count;		/* without the control task */
static u64 calls_started;
struct vink_slot *vink_staying;

/* Slots that the host has left a note on, for vink_take_notes(). */
static struct vink_slot *noted;

struct vink_slot *vink_slot_alloc(void)
{
	struct vink_slot *slot = kzalloc(sizeof(*slot), GFP_KERNEL);
	int id;

	if (!slot)
		return NULL;
	id = idr_alloc_cyclic(&slots, slot, VINK_TASK_CONTROL, 0, GFP_KERNEL);
	if (id < 0) {
		kfree(slot);
		return NULL;
	}
	slot->id = id;
	if (id != VINK_TASK_CONTROL)
		slot_count++;
	return slot;
}

void vink_slot_free(struct vink_slot *slot)
{
	struct vink_slot **link;

	for (link = &noted; *link; link = &(*link)->next_note) {
		if (*link == slot) {
			*link = slot->next_note;
			break;
		}
	}
	idr_remove(&slots, slot->id);
	slot_count--;
	if (slot->ns)
		put_nsproxy(slot->ns);
	kfree(slot);
}

u64 vink_slot_count(void)
{
	return slot_count;
}

u64 vink_calls_started(void)
{
	return calls_started;
}

/* In the idle task, or a fiber: act upon what the host has asked for. */
void vink_take_notes(void)
{
	while (noted) {
		struct vink_slot *slot = noted;

		noted = slot->next_note;
		slot->noted = false;
		if (!slot->task)
			continue;	/* not started; will look by itself */
		if (slot->cancelled)
			set_notify_signal(slot->task);
		if (slot->task != current)
			wake_up_process(slot->task);
	}
}

static struct vink_slot *find_slot(u64 task)
{
	return task <= INT_MAX ? idr_find(&slots, task) : NULL;
}

/* Have the kernel look at the slot: now if it runs, else when it next does. */
static void leave_note(struct vink_slot *slot)
{
	if (!slot->noted) {
		slot->noted = true;
		slot->next_note = noted;
		noted = slot;
	}
	if (vink_inside)
		vink_take_notes();
}

int vink_call_start(uint64_t task, struct vink_call *call)
{
	struct vink_slot *slot;

	if (vink_dead)
		return VINK_DEAD;
	slot = vink_staying;
	if (!slot || slot->id != task)
		slot = find_slot(task);
	if (!slot)
		return -ESRCH;
	if (slot->call || slot->params.entry)
		return -EBUSY;
	call->state = VINK_CALL_RUNNING;
	call->flags &= ~VINK_FLAG_RESTART;
	call->signals = 0;
	call->events = 0;
	call->credit = 0;
	slot->call = call;
	calls_started++;
	if (slot != vink_staying)
		leave_note(slot);
	return 0;
}

int vink_call_cancel(uint64_t task)
{
	struct vink_slot *slot;

	if (vink_dead)
		return VINK_DEAD;
	slot = find_slot(task);
	if (!slot)
		return -ESRCH;
	if (!slot->call)
		return -ENOENT;
	slot->cancelled = true;
	leave_note(slot);
	return 0;
}

/* Take the signals that are pending, for the host to raise. */
static u64 take_signals(void)
{
	u64 taken = 0;

	for (;;) {
		kernel_siginfo_t info;
		enum pid_type type;
		int sig;

		spin_lock_irq(&current->sighand->siglock);
		sig = dequeue_signal(&current->blocked, &info, &type);
		spin_unlock_irq(&current->sighand->siglock);
		if (!sig)
			return taken;
		if (sig == SIGKILL)
			do_group_exit(SIGKILL);
		taken |= BIT_ULL(sig - 1);
	}
}

/*
 * What other architectures do on the way back to user mode. Returns the signals
 * that the task was sent, as a mask.
 */
static u64 exit_work(void)
{
	u64 signals = 0;
	unsigned long work;

	while ((work = READ_ONCE(current_thread_info()->flags) &
		_TIF_WORK_MASK)) {
		if (work & _TIF_NEED_RESCHED)
			schedule();
		if (work & _TIF_NOTIFY_SIGNAL) {
			clear_notify_signal();
			task_work_run();
		}
		if (fatal_signal_pending(current))
			do_group_exit(SIGKILL);
		if (work & _TIF_SIGPENDING) {
			clear_thread_flag(TIF_SIGPENDING);
			signals |= take_signals();
		}
		restore_saved_sigmask();
		if (work & _TIF_NOTIFY_RESUME)
			resume_user_mode_work(NULL);
	}
	return signals;
}

static bool restarts(long result)
{
	return result == -ERESTARTSYS || result == -ERESTARTNOINTR ||
	       result == -ERESTARTNOHAND || result == -ERESTART_RESTARTBLOCK;
}

static void serve(struct vink_slot *slot, struct vink_call *call)
{
	long result;
	int mask;

	if (call->nr == VINK_CALL_TASK_EXIT) {
		/* The answer is ops->gone. */
		slot->call = NULL;
		call->state = VINK_CALL_IDLE;
		if (call->args[1])
			do_group_exit(call->args[0]);
		do_exit(call->args[0]);
	}

	/* Cancelled before the task first ran, there was no task to notify. */
	if (slot->cancelled)
		set_notify_signal(current);
	current->thread.space = call->space;
	if (unlikely(call->flags & VINK_FLAG_DEFERRED && call->nr == __NR_sendto))
		result = vink_deferred_send(call->args);
	else if (call->nr < NR_syscalls)
		result = sys_call_table[call->nr](call->args[0], call->args[1],
						  call->args[2], call->args[3],
						  call->args[4], call->args[5]);
	else
		result = vink_control_call(slot, call->nr, call->args);
	slot->cancelled = false;
	if (READ_ONCE(current_thread_info()->flags) & _TIF_WORK_MASK)
		call->signals = exit_work();
	/*
	 * Last of all: other tasks run during the exit work, and if the watch had
	 * something to tell by then, this would tell the host something older.
	 */
	if (call->flags & VINK_FLAG_POLL) {
		mask = vink_poll(call->poll_fd);
		call->events = mask < 0 ? 0 : mask;
		if (call->flags & VINK_FLAG_CREDIT)
			call->credit = vink_send_credit(call->poll_fd);
	}
	current->thread.space = VINK_SPACE_SELF;

	if (restarts(result)) {
		result = -EINTR;
		call->flags |= VINK_FLAG_RESTART;
	}
	call->result = result;
	call->state = VINK_CALL_DONE;
	slot->call = NULL;
	slot->stays = call->flags & VINK_FLAG_STAY;
	vink_ops->done(vink_host, call);
}

/*
 * VINK_FLAG_STAY: leave the kernel as other architectures return to user mode,
 * with this task the running one. Of what the host comes back with, a call of
 * the task is served at once, by vink_serve_staying(); anything else is not for
 * this task, or is the timer's.
 */
static void stay(struct vink_slot *slot)
{
	vink_staying = slot;
	vink_leave();
	if (!vink_staying)
		return;		/* a call was served; see below */
	vink_staying = NULL;
	slot->stays = false;
	vink_take_notes();
	vink_poll_interrupts();
}

/*
 * In the place of stay(), on its stack, but called by the host, which waits on
 * its own. False: it does so no longer, or others are to run first; the task
 * goes on in stay().
 */
bool vink_serve_staying(void)
{
	struct vink_slot *slot = vink_staying;
	u64 entry = vink_entries;

	vink_staying = NULL;
	if (noted)
		vink_take_notes();
	vink_poll_budget -= VINK_POLL_INTERVAL / 16;
	if (vink_poll_budget < 0)
		vink_poll_interrupts();
	serve(slot, slot->call);
	if (entry != vink_entries || !slot->stays || !single_task_running())
		return false;
	vink_staying = slot;
	return true;
}

void __noreturn vink_serve_calls(struct vink_slot *slot)
{
	for (;;) {
		/* Not counted in the load average, but killed with its group. */
		set_current_state(TASK_KILLABLE | TASK_NOLOAD);
		if (slot->call) {
			__set_current_state(TASK_RUNNING);
			serve(slot, slot->call);
			continue;
		}
		if (slot->stays && single_task_running()) {
			__set_current_state(TASK_RUNNING);
			stay(slot);
			continue;
		}
		schedule();
		if (fatal_signal_pending(current))
			do_group_exit(SIGKILL);
	}
}

/* The first function of a slot's task; user_mode_thread() starts it. */
int vink_task_main(void *arg)
{
	struct vink_slot *slot = arg;
	int status;

	current->thread.slot = slot;
	slot->task = current;
	if (slot->ns) {
		switch_task_namespaces(current, slot->ns);
		slot->ns = NULL;
	}
	if (!slot->params.entry)
		vink_serve_calls(slot);

	status = vink_call_on_stack(slot->params.entry, slot->params.arg,
				    slot->params.stack_top);
	do_group_exit((status & 0xff) << 8);
}

/* From do_exit(), when descriptors are closed and namespaces left. */
void exit_thread(struct task_struct *task)
{
	struct vink_slot *slot = task->thread.slot;
	struct vink_call *call;

	if (!slot || task != slot->task)
		return;
	task->thread.slot = NULL;
	call = slot->call;
	if (call) {
		call->result = -EINTR;
		call->state = VINK_CALL_DONE;
		vink_ops->done(vink_host, call);
	}
	vink_ops->gone(vink_host, slot->id, slot->params.cookie,
		       task->exit_code);
	vink_slot_free(slot);
}

int64_t vink_fiber_call(uint64_t nr, uint64_t a0, uint64_t a1, uint64_t a2,
			uint64_t a3, uint64_t a4, uint64_t a5)
{
	long result;

	if (likely(nr < NR_syscalls)) {
		result = sys_call_table[nr](a0, a1, a2, a3, a4, a5);
	} else {
		const u64 args[6] = { a0, a1, a2, a3, a4, a5 };

		result = vink_control_call(current->thread.slot, nr, args);
	}
	if (unlikely(READ_ONCE(current_thread_info()->flags) & _TIF_WORK_MASK)) {
		exit_work();
		if (restarts(result))
			result = -EINTR;
	}
	if (unlikely(--vink_poll_budget < 0))
		vink_poll_interrupts();
	return result;
}
