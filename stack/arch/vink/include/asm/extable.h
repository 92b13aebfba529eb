/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _ASM_VINK_EXTABLE_H
#define _ASM_VINK_EXTABLE_H

/* "A fault at insn continues at fixup", both relative to their own field. */
struct exception_table_entry {
	int insn;
	int fixup;
};

#define ARCH_HAS_RELATIVE_EXTABLE

/* One entry, from inline assembly. */
#define VINK_EXTABLE(insn, fixup)					\
	".pushsection __ex_table, \"aw\"\n"				\
	".balign 4\n"							\
	".long (" insn ") - .\n"					\
	".long (" fixup ") - .\n"					\
	".popsection\n"

#endif
