// SPDX-License-Identifier: GPL-2.0
/* The kernel's log, to the host. */

#include <linux/console.h>
#include <linux/init.h>

#include <asm/vink.h>

static void write(struct console *con, const char *text, unsigned int len)
{
	vink_ops->console(vink_host, text, len);
}

static struct console console = {
	.name	= "vink",
	.write	= write,
	.flags	= CON_PRINTBUFFER | CON_ANYTIME | CON_ENABLED,
	.index	= -1,
};

static int __init console_setup(void)
{
	register_console(&console);
	return 0;
}
console_initcall(console_setup);
