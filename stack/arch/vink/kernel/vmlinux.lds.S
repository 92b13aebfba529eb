/* SPDX-License-Identifier: GPL-2.0 */
/* A kernel laid out as a shared object that ld.so can map and protect. */

#define LOAD_OFFSET 0
/* Written to during boot: belongs among the data, not under RELRO. */
#define RO_AFTER_INIT_DATA

#include <asm/cache.h>
#include <asm/ondemand.h>
#include <asm/page.h>
#include <asm/thread_info.h>
#include <asm/vmlinux.lds.h>

/*
 * The generic script's, for names of sections as asm/initcall.h makes them, and
 * the groups of asm/ondemand.h, which have to come first.
 */
#undef INIT_CALLS_LEVEL
#define INIT_CALLS_LEVEL(level)						\
		__initcall##level##_start = .;				\
		KEEP(*(.initcall##level##.init.*))			\
		KEEP(*(.initcall##level##s.init.*))
#undef INIT_CALLS
#define INIT_CALLS							\
		__initcall_start = .;					\
		KEEP(*(.initcallearly.init.*))				\
		INIT_CALLS_LEVEL(0)					\
		INIT_CALLS_LEVEL(1)					\
		INIT_CALLS_LEVEL(2)					\
		INIT_CALLS_LEVEL(3)					\
		INIT_CALLS_LEVEL(4)					\
		INIT_CALLS_LEVEL(5)					\
		INIT_CALLS_LEVEL(rootfs)				\
		INIT_CALLS_LEVEL(6)					\
		INIT_CALLS_LEVEL(7)					\
		__initcall_end = .;
#undef CON_INITCALL
#define CON_INITCALL							\
		__con_initcall_start = .;				\
		KEEP(*(.con_initcall.init.*))				\
		__con_initcall_end = .;

#define ONDEMAND_NAME(name)	.initcall*.init.kmod_##name*
#define ONDEMAND_GROUP(group)						\
		__vink_##group##_start = .;				\
		KEEP(*(VINK_NAMES_##group(ONDEMAND_NAME)))		\
		__vink_##group##_end = .;

OUTPUT_FORMAT("elf64-x86-64")
OUTPUT_ARCH(i386:x86-64)

jiffies = jiffies_64;

PHDRS
{
	headers PT_LOAD FILEHDR PHDRS FLAGS(4);
	text PT_LOAD FLAGS(5);
	rodata PT_LOAD FLAGS(6);
	data PT_LOAD FLAGS(6);
	dynamic PT_DYNAMIC FLAGS(6);
	stack PT_GNU_STACK FLAGS(6);
	note PT_NOTE FLAGS(4);
}

SECTIONS
{
	. = SIZEOF_HEADERS;

	.note.gnu.build-id : { *(.note.gnu.build-id) } :headers :note
	.gnu.hash : { *(.gnu.hash) } :headers
	.dynsym : { *(.dynsym) }
	.dynstr : { *(.dynstr) }
	.gnu.version : { *(.gnu.version) }
	.gnu.version_d : { *(.gnu.version_d) }
	.gnu.version_r : { *(.gnu.version_r) }
	.rela.dyn : { *(.rela.*) }
	.relr.dyn : { *(.relr.dyn) }
	.modinfo : {
		__vink_modinfo_start = .;
		KEEP(*(.modinfo))
		__vink_modinfo_end = .;
	}
	/* How debuggers unwind; never touched otherwise. */
	.eh_frame : { KEEP(*(.eh_frame)) }

	. = ALIGN(PAGE_SIZE);
	.text : {
		_text = .;
		_stext = .;
		TEXT_TEXT
		SCHED_TEXT
		LOCK_TEXT
		KPROBES_TEXT
		IRQENTRY_TEXT
		SOFTIRQENTRY_TEXT
		ENTRY_TEXT
		STATIC_CALL_TEXT
#ifdef CPUIDLE_TEXT
		CPUIDLE_TEXT	/* 6.1's */
#endif
		*(.text.exit .exit.text)
		_etext = .;
	} :text
	__init_begin = .;
	.init.text : {
		_sinittext = .;
		INIT_TEXT
		_einittext = .;
	} :text
	__vink_text_end = .;

	. = ALIGN(PAGE_SIZE);
	/* What RO_DATA puts behind it follows it into the same segments. */
	.got : { QUAD(0) *(.got) *(.got.plt) } :rodata
	RO_DATA(64)
	.dynamic : { *(.dynamic) } :rodata :dynamic
	. = ALIGN(PAGE_SIZE);

	_sdata = .;
	.data : {
		INIT_TASK_DATA(PAGE_SIZE)
		NOSAVE_DATA
		PAGE_ALIGNED_DATA(PAGE_SIZE)
		CACHELINE_ALIGNED_DATA(L1_CACHE_BYTES)
		READ_MOSTLY_DATA(L1_CACHE_BYTES)
		__start_ro_after_init = .;
		*(.data..ro_after_init)
		JUMP_TABLE_DATA
		STATIC_CALL_DATA
		__end_ro_after_init = .;
		DATA_DATA
		*(.data.rel .data.rel.*)
		*(.data..percpu*)
	} :data
	BUG_TABLE
	EXCEPTION_TABLE(4)
	RUNTIME_CONST_VARIABLES
	.ondemand : ALIGN(8) { VINK_GROUPS(ONDEMAND_GROUP) }
	INIT_DATA_SECTION(16)
	.exit.data : { EXIT_DATA }
	__init_end = .;
	_edata = .;

	BSS_SECTION(0, 0, 0)
	_end = .;

	STABS_DEBUG
	DWARF_DEBUG
	ELF_DETAILS

	/DISCARD/ : {
		EXIT_CALL
		*(.discard .discard.*)
		*(.export_symbol)
		*(.interp)
		/* gcov's, which would register counters that are read as they are */
		*(.init_array .init_array.* .fini_array .fini_array.*)
	}
}
