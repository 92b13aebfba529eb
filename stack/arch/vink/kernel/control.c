// SPDX-License-Identifier: GPL-2.0
/* The calls that have no Linux equivalent: VINK_CALL_*. */

#include <linux/cred.h>
#include <linux/nsproxy.h>
#include <linux/sched/task.h>
#include <linux/sched/task_stack.h>
#include <linux/sched/user.h>
#include <linux/slab.h>
#include <linux/user_namespace.h>

#include <asm/vink.h>

static void drop_caps(struct cred *cred, u64 drop)
{
	int cap;

	for (cap = 0; cap <= CAP_LAST_CAP; cap++) {
		if (!(drop & BIT_ULL(cap)))
			continue;
		cap_lower(cred->cap_bset, cap);
		cap_lower(cred->cap_permitted, cap);
		cap_lower(cred->cap_effective, cap);
		cap_lower(cred->cap_inheritable, cap);
		cap_lower(cred->cap_ambient, cap);
	}
}

/* What the parameters leave of the control task's own credentials, or an error. */
static struct cred *make_cred(const struct vink_task_params *params)
{
	kuid_t uid = make_kuid(&init_user_ns, params->uid);
	kgid_t gid = make_kgid(&init_user_ns, params->gid);
	struct user_struct *user;
	struct cred *new;
	int err;

	if (!uid_valid(uid) || !gid_valid(gid))
		return ERR_PTR(-EINVAL);
	user = alloc_uid(uid);
	if (!user)
		return ERR_PTR(-ENOMEM);
	new = prepare_creds();
	if (!new) {
		free_uid(user);
		return ERR_PTR(-ENOMEM);
	}
	free_uid(new->user);
	new->user = user;
	new->uid = uid;
	new->euid = uid;
	new->suid = uid;
	new->fsuid = uid;
	new->gid = gid;
	new->egid = gid;
	new->sgid = gid;
	new->fsgid = gid;
	drop_caps(new, params->drop);
	err = set_cred_ucounts(new);
	if (err) {
		abort_creds(new);
		return ERR_PTR(err);
	}
	return new;
}

static long create_task(u64 machine, const struct vink_task_params *params)
{
	const struct cred *own;
	struct vink_slot *slot;
	struct cred *cred;
	pid_t pid;
	long id;

	slot = vink_slot_alloc();
	if (!slot)
		return -ENOMEM;
	id = slot->id;
	slot->params = *params;
	if (machine) {
		slot->ns = vink_machine_ns(machine);
		if (!slot->ns) {
			vink_slot_free(slot);
			return -ESRCH;
		}
	}
	cred = make_cred(params);
	if (IS_ERR(cred)) {
		vink_slot_free(slot);
		return PTR_ERR(cred);
	}
	/* A child has its parent's credentials. */
	own = override_creds(cred);
	pid = user_mode_thread(vink_task_main, slot, SIGCHLD);
	revert_creds(own);
	put_cred(cred);
	if (pid < 0) {
		vink_slot_free(slot);
		return pid;
	}
	return id;
}

static long clone_task(u64 flags, u64 cookie)
{
	struct kernel_clone_args args = {
		.flags	= CLONE_VM,
		.fn	= vink_task_main,
	};
	struct vink_slot *slot;
	pid_t pid;
	long id;

	if (flags & ~(VINK_CLONE_THREAD | VINK_CLONE_FILES))
		return -EINVAL;
	if (flags & VINK_CLONE_THREAD)
		args.flags |= CLONE_THREAD | CLONE_SIGHAND | CLONE_FS |
			      CLONE_FILES;
	else
		/* pid 1 reaps it: the host has its own idea of parents. */
		args.flags |= CLONE_PARENT;
	if (flags & VINK_CLONE_FILES)
		args.flags |= CLONE_FILES;

	slot = vink_slot_alloc();
	if (!slot)
		return -ENOMEM;
	id = slot->id;
	slot->params.cookie = cookie;
	args.fn_arg = slot;
	pid = kernel_clone(&args);
	if (pid < 0) {
		vink_slot_free(slot);
		return pid;
	}
	return id;
}

/*
 * Use up the stack. A fiber's ends at a page that faults; a stack of the
 * kernel's own is checked when its task next gives up the processor.
 */
static noinline int test_recursion(int depth)
{
	unsigned long bottom = (unsigned long)task_stack_page(current);
	int here[32] = { depth };

	OPTIMIZER_HIDE_VAR(here[0]);
	if ((unsigned long)here - bottom < 256) {
		*end_of_stack(current) = 0;
		schedule();
	}
	if (!depth)
		return 0;
	return test_recursion(depth - 1) + here[0];
}

static long test_fault(u64 kind)
{
	switch (kind) {
	case VINK_TEST_BUG:
		BUG();
	case VINK_TEST_NULL:
		WRITE_ONCE(*(int *)ZERO_SIZE_PTR, 1);
		return -EINVAL;
	case VINK_TEST_STACK:
		return test_recursion(INT_MAX);
	}
	return -EINVAL;
}

long vink_control_call(struct vink_slot *slot, u64 nr, const u64 *args)
{
	bool control = slot->id == VINK_TASK_CONTROL;

	switch (nr) {
	case VINK_CALL_MACHINE_CREATE:
		if (!control)
			return -EPERM;
		return vink_machine_create((const char *)args[0], args[1]);
	case VINK_CALL_MACHINE_DESTROY:
		if (!control)
			return -EPERM;
		return vink_machine_destroy(args[0]);
	case VINK_CALL_MACHINE_FD:
		return vink_machine_fd(args[0]);
	case VINK_CALL_TASK_CREATE:
		if (!control)
			return -EPERM;
		return create_task(args[0], (const void *)args[1]);
	case VINK_CALL_TASK_CLONE:
		if (control || slot->params.entry)
			return -EPERM;
		return clone_task(args[0], args[1]);
	case VINK_CALL_WATCH:
		return vink_watch(args[0], args[1], args[2]);
	case VINK_CALL_POLL:
		return vink_poll(args[0]);
	case VINK_CALL_TEST:
		return test_fault(args[0]);
	case VINK_CALL_RING_MAP:
		return vink_ring_map(args[0], args[1], (void *)args[2], args[3]);
	case VINK_CALL_RING_UNMAP:
		return vink_ring_unmap(args[0]);
	case VINK_CALL_RING_POLL:
		return vink_ring_poll(args[0]);
	case VINK_CALL_WIRE_CREATE ... VINK_CALL_WIRE_TRACE:
	case VINK_CALL_WIRE_SHARE ... VINK_CALL_WIRE_COUNTS:
		if (!control)
			return -EPERM;
		return vink_wire_call(nr, args);
	case VINK_CALL_PROBE:
		if (!control)
			return -EPERM;
		return vink_probe((const char *)args[0], args[1], args[2]);
	case VINK_CALL_YIELD:
		if (!slot->params.entry)
			return -EPERM;
		vink_yield();
		return 0;
	}
	return -ENOSYS;
}
