// SPDX-License-Identifier: GPL-2.0
/* From what the host gave to what start_kernel() wants: memory, parameters. */

#include <linux/cpu.h>
#include <linux/init.h>
#include <linux/memblock.h>
#include <linux/mm.h>
#include <linux/random.h>
#include <linux/seq_file.h>
#include <linux/siphash.h>

#include <asm/setup.h>
#include <asm/vink.h>

/*
 * Before anything that the host adds:
 *  - namespaces without fallback tunnel devices take half the memory and time;
 *  - legacy devices that a driver would make by itself are made when asked for;
 *  - how many threads there may be is for the host to say, and for the arena:
 *    by default their stacks could have an eighth of it.
 */
#define BUILT_IN_CMDLINE						\
	"fb_tunnels=none "						\
	"bonding.max_bonds=0 dummy.numdummies=0 ifb.numifbs=0 "		\
	"sysctl.kernel.threads-max=1000000 "				\
	"sysctl.kernel.pid_max=4194304"

unsigned long vink_arena_start;
unsigned long vink_arena_end;
void *vink_zero_page;

static char cmdline[COMMAND_LINE_SIZE];
static u8 seed[sizeof(((struct vink_boot *)NULL)->seed)];
static siphash_key_t seed_key;	/* of what is kept of the seed */

void vink_setup_boot(const struct vink_boot *boot)
{
	int i;

	vink_epoch = boot->realtime;
	vink_panic_setup();
	vink_arena_start = (unsigned long)boot->arena;
	vink_arena_end = vink_arena_start + boot->arena_size;
	memcpy(seed, boot->seed, sizeof(seed));
	for (i = 0; i < ARRAY_SIZE(seed_key.key); i++) {
		const siphash_key_t key = { { i } };

		seed_key.key[i] = siphash(seed, sizeof(seed), &key);
	}
	snprintf(cmdline, sizeof(cmdline), "%s %s", BUILT_IN_CMDLINE,
		 boot->cmdline ?: "");
}

u64 vink_seed(u64 a, u64 b)
{
	return siphash_2u64(a, b, &seed_key);
}

void __init setup_arch(char **cmdline_p)
{
	unsigned long zones[MAX_NR_ZONES] = { };

	strscpy(boot_command_line, cmdline, COMMAND_LINE_SIZE);
	*cmdline_p = cmdline;
	parse_early_param();

	memblock_add(0, __pa(vink_arena_end));
	/* Physical address 0 would read as "no memory". */
	memblock_reserve(0, PAGE_SIZE);
	high_memory = (void *)vink_arena_end;
	min_low_pfn = 0;
	max_low_pfn = PFN_DOWN(__pa(vink_arena_end));
	max_pfn = max_low_pfn;
	set_max_mapnr(max_pfn);

	zones[ZONE_NORMAL] = max_low_pfn;
	free_area_init(zones);
	vink_zero_page = memblock_alloc(PAGE_SIZE, PAGE_SIZE);
	if (!vink_zero_page)
		panic("no memory for the zero page");

	add_bootloader_randomness(seed, sizeof(seed));
	memzero_explicit(seed, sizeof(seed));
}

void __init mem_init(void)
{
	memblock_free_all();
}

/* The image's memory is not the arena's: nothing to give back. */
void free_initmem(void)
{
}

static int show_cpuinfo(struct seq_file *m, void *v)
{
	seq_puts(m, "processor\t: 0\nmodel name\t: Vink\n");
	return 0;
}

static void *cpuinfo_start(struct seq_file *m, loff_t *pos)
{
	return *pos ? NULL : SEQ_START_TOKEN;
}

static void *cpuinfo_next(struct seq_file *m, void *v, loff_t *pos)
{
	++*pos;
	return NULL;
}

static void cpuinfo_stop(struct seq_file *m, void *v)
{
}

const struct seq_operations cpuinfo_op = {
	.start	= cpuinfo_start,
	.next	= cpuinfo_next,
	.stop	= cpuinfo_stop,
	.show	= show_cpuinfo,
};
