// SPDX-License-Identifier: GPL-2.0
/*
 * pid 1: the control task.
 *
 * The kernel starts its first program the way it always does, by executing
 * /init. The file is made here, in the root file system, and its format is one
 * that only this file's binary handler knows: "run" it and you get a task with
 * an empty mm whose user mode is vink_init_main().
 */

#include <linux/binfmts.h>
#include <linux/fs.h>
#include <linux/fdtable.h>
#include <linux/file.h>
#include <linux/init_syscalls.h>
#include <linux/namei.h>
#include <linux/oom.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/task_work.h>
#include <linux/user_namespace.h>

#include <asm/vink.h>

#define INIT_MAGIC "\177vink\n"

/* Neither SIG_DFL nor SIG_IGN: signals stay pending until taken. */
#define HANDLED_BY_HOST ((__force __sighandler_t)2)

static int load_init(struct linux_binprm *bprm)
{
	int err;

	if (memcmp(bprm->buf, INIT_MAGIC, sizeof(INIT_MAGIC) - 1))
		return -ENOEXEC;
	err = begin_new_exec(bprm);
	if (err)
		return err;
	setup_new_exec(bprm);
	finalize_exec(bprm);
	return 0;
}

static struct linux_binfmt init_format = {
	.load_binary	= load_init,
};

static int __init make_init(void)
{
	struct file *file;
	loff_t pos = 0;
	ssize_t n;

	register_binfmt(&init_format);
	file = filp_open("/init", O_CREAT | O_WRONLY, 0700);
	if (IS_ERR(file))
		return PTR_ERR(file);
	n = kernel_write(file, INIT_MAGIC, sizeof(INIT_MAGIC) - 1, &pos);
	filp_close(file, NULL);
	/* Until the last fput() has been done the file is busy for exec. */
	task_work_run();
	flush_delayed_fput();
	return n < 0 ? n : 0;
}
late_initcall(make_init);

/*
 * What user mode is to pid 1. Signals are for the host to raise; its children
 * need no parent that waits; their descriptors are as many as the host's own
 * limits let a program have.
 */
void __noreturn __ref vink_init_main(void)
{
	struct vink_slot *slot;
	int sig, i;

	for (sig = 1; sig <= _NSIG; sig++)
		current->sighand->action[sig - 1].sa.sa_handler =
			sig == SIGCHLD ? SIG_IGN : HANDLED_BY_HOST;
	current->signal->rlim[RLIMIT_NOFILE].rlim_cur = 1 << 20;
	current->signal->rlim[RLIMIT_NOFILE].rlim_max = 1 << 20;
	current->signal->rlim[RLIMIT_NPROC].rlim_cur = RLIM_INFINITY;
	current->signal->rlim[RLIMIT_NPROC].rlim_max = RLIM_INFINITY;
	current->signal->rlim[RLIMIT_MEMLOCK].rlim_cur = RLIM_INFINITY;
	current->signal->rlim[RLIMIT_MEMLOCK].rlim_max = RLIM_INFINITY;
	/* How many machines and tasks there are is for the arena to say. */
	for (i = 0; i < UCOUNT_COUNTS; i++)
		init_user_ns.ucount_max[i] = INT_MAX;
	close_fd(0);
	close_fd(1);
	close_fd(2);

	init_mkdir("/proc", 0755);
	init_mount("proc", "/proc", "proc", 0, NULL);
	init_mkdir("/sys", 0755);
	init_mount("sysfs", "/sys", "sysfs", 0, NULL);

	if (vink_watch_init())
		panic("no memory for the watching task");

	/*
	 * A full arena is an error for whoever asked for memory, not a reason
	 * to kill a program that the host has to answer for.
	 */
	oom_killer_disable(HZ);

	slot = vink_slot_alloc();
	if (!slot)
		panic("no memory for the control task");
	slot->task = current;
	current->thread.slot = slot;
	vink_booted = true;
	vink_serve_calls(slot);
}
