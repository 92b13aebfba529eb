// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel's own programs: pid 1, the control task, and modprobe; and the
 * one device file that programs open by its name.
 *
 * The kernel starts a program the way it always does, by executing a file. The
 * files are made here, in the root file system, and their format is one that
 * only this file's binary handler knows: "run" one and you get a task with an
 * empty mm whose user mode is vink_program_main().
 */

#include <linux/binfmts.h>
#include <linux/fs.h>
#include <linux/fdtable.h>
#include <linux/file.h>
#include <linux/init_syscalls.h>
#include <linux/kdev_t.h>
#include <linux/major.h>
#include <linux/miscdevice.h>
#include <linux/namei.h>
#include <linux/oom.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/task_work.h>
#include <linux/user_namespace.h>

#include <asm/vink.h>

#define MAGIC "\177vink\n"

/* Neither SIG_DFL nor SIG_IGN: signals stay pending until taken. */
#define HANDLED_BY_HOST ((__force __sighandler_t)2)

/* "modprobe -q -- NAME": the last argument, for which nothing may be found. */
static int load_modprobe(struct linux_binprm *bprm, struct vink_group **group)
{
	int err = 0;

	while (bprm->argc > 1 && !err)
		err = remove_arg_zero(bprm);
	if (err)
		return err;
	if (!vink_ondemand_find(page_address(bprm->page[bprm->p / PAGE_SIZE]) +
				offset_in_page(bprm->p), group))
		return -ENOENT;
	return 0;
}

static int load_program(struct linux_binprm *bprm)
{
	struct vink_group *group = NULL;
	int err;

	if (memcmp(bprm->buf, MAGIC, sizeof(MAGIC) - 1))
		return -ENOEXEC;
	if (!is_global_init(current)) {
		err = load_modprobe(bprm, &group);
		if (err)
			return err;
	}
	err = begin_new_exec(bprm);
	if (err)
		return err;
	setup_new_exec(bprm);
	finalize_exec(bprm);
	current->thread.group = group;
	return 0;
}

static struct linux_binfmt program_format = {
	.load_binary	= load_program,
};

static int __init make_program(const char *path)
{
	struct file *file;
	loff_t pos = 0;
	ssize_t n;

	file = filp_open(path, O_CREAT | O_WRONLY, 0700);
	if (IS_ERR(file))
		return PTR_ERR(file);
	n = kernel_write(file, MAGIC, sizeof(MAGIC) - 1, &pos);
	filp_close(file, NULL);
	return n < 0 ? n : 0;
}

static int __init make_programs(void)
{
	int err;

	register_binfmt(&program_format);
	err = make_program("/init") ?: init_mkdir("/sbin", 0755) ?:
	      make_program(CONFIG_MODPROBE_PATH);
	/* Until the last fput() has been done a file is busy for exec. */
	task_work_run();
	flush_delayed_fput();
	return err;
}
late_initcall(make_programs);

static int __init make_devices(void)
{
	dev_t tun = MKDEV(MISC_MAJOR, TUN_MINOR);
	int err;

	err = init_mkdir("/dev", 0755);
	if (err && err != -EEXIST)
		return err;
	return init_mkdir("/dev/net", 0755) ?:
	       init_mknod("/dev/net/tun", S_IFCHR | 0666, new_encode_dev(tun)) ?:
	       init_chmod("/dev/net/tun", 0666);	/* whatever the umask */
}
late_initcall(make_devices);

/*
 * What user mode is to pid 1. Signals are for the host to raise; its children
 * need no parent that waits; their descriptors are as many as the host's own
 * limits let a program have.
 */
static void __noreturn __ref init_main(void)
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
	/* But they are the host's: here a task would have all rights in its own. */
	init_user_ns.ucount_max[UCOUNT_USER_NAMESPACES] = 0;
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
	 * A full arena is an error for the task that asked for memory, not a reason
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

/* What user mode is to a program: where a fiber goes that has executed one. */
void __noreturn vink_program_main(void)
{
	if (is_global_init(current))
		init_main();
	if (current->thread.group && vink_ondemand_start(current->thread.group))
		do_exit(1 << 8);
	do_exit(0);
}
