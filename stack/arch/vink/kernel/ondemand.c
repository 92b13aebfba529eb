// SPDX-License-Identifier: GPL-2.0
/*
 * Protocols that wait until they are asked for.
 *
 * The modules of asm/ondemand.h are built in, but their initcalls are not run at
 * boot: many of them take memory in every network namespace there is. Generic
 * code asks for what it misses as it always does, with request_module(), which
 * executes /sbin/modprobe. That is a program of init.c's, which comes here.
 *
 * Linux lets any program ask: socket(2) of SCTP starts SCTP. Here a task without
 * CAP_SYS_MODULE can't, lest it widen what it and others can attack. Whose the
 * request is shows only where it is made, so there it loses its name.
 */

#include <linux/capability.h>
#include <linux/init.h>
#include <linux/mutex.h>
#include <linux/printk.h>
#include <linux/string.h>
#include <linux/user_namespace.h>
#include <trace/events/module.h>

#include <asm/ondemand.h>
#include <asm/vink.h>

struct vink_group {
	const char *const *names;	/* how its modules' names begin */
	initcall_entry_t *next;		/* the first that has not been run */
	initcall_entry_t *end;
	struct mutex lock;
};

#define NAME(name)	#name,
#define GROUP(group)							\
	extern initcall_entry_t __vink_##group##_start[];		\
	extern initcall_entry_t __vink_##group##_end[];			\
	static struct vink_group group##_group = {			\
		.names	= (const char *const[]) {			\
			VINK_NAMES_##group(NAME) NULL			\
		},							\
		.next	= __vink_##group##_start,			\
		.end	= __vink_##group##_end,				\
		.lock	= __MUTEX_INITIALIZER(group##_group.lock),	\
	};
VINK_GROUPS(GROUP)
#undef GROUP

#define GROUP(group)	&group##_group,
static struct vink_group *const groups[] = { VINK_GROUPS(GROUP) };
#undef GROUP

/* What the modules say of themselves: "module.tag=value", one after another. */
extern const char __vink_modinfo_start[];
extern const char __vink_modinfo_end[];

/* Whether @name is @text, @len bytes of it; to modprobe - and _ are the same. */
static bool same(const char *name, const char *text, size_t len)
{
	for (; len && *name; name++, text++, len--) {
		if (*name != *text && !(*name == '-' && *text == '_') &&
		    !(*name == '_' && *text == '-'))
			return false;
	}
	return !len && !*name;
}

static struct vink_group *group_of(const char *module)
{
	const char *const *name;
	int i;

	for (i = 0; i < ARRAY_SIZE(groups); i++)
		for (name = groups[i]->names; *name; name++)
			if (str_has_prefix(module, *name))
				return groups[i];
	return NULL;
}

/*
 * Finds what a request is for: a module's name, or one of its aliases. True, and
 * the module's group, NULL if it was started at boot; or false: none.
 */
bool vink_ondemand_find(const char *request, struct vink_group **group)
{
	const char *info, *dot;

	for (info = __vink_modinfo_start; info < __vink_modinfo_end;
	     info += strlen(info) + 1) {
		dot = strchr(info, '.');
		if (!dot)
			continue;
		if (same(request, info, dot - info) ||
		    (str_has_prefix(dot, ".alias=") &&
		     same(request, dot + 7, strlen(dot + 7)))) {
			*group = group_of(info);
			return true;
		}
	}
	return false;
}

/*
 * Starts a group. Of tasks that ask at the same time one does and the others
 * wait. An error leaves the rest for the next that asks.
 */
int __ref vink_ondemand_start(struct vink_group *group)
{
	int err = 0;

	mutex_lock(&group->lock);
	while (!err && group->next < group->end) {
		err = do_one_initcall(initcall_from_entry(group->next));
		if (!err)
			group->next++;
	}
	mutex_unlock(&group->lock);
	return err;
}

/* In request_module(), which then executes modprobe with the name that is here. */
static void check_request(void *unused, char *name, bool wait, unsigned long ip)
{
	if (ns_capable_noaudit(&init_user_ns, CAP_SYS_MODULE))
		return;
	pr_notice_ratelimited("%s is not started for a task without CAP_SYS_MODULE\n",
			      name);
	*name = '\0';
}

static int __init check_requests(void)
{
	return register_trace_module_request(check_request, NULL);
}
early_initcall(check_requests);
