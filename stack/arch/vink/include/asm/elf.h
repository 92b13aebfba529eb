/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _ASM_VINK_ELF_H
#define _ASM_VINK_ELF_H

#include <uapi/asm/elf.h>

#define ELF_CLASS	ELFCLASS64
#define ELF_DATA	ELFDATA2LSB
#define ELF_ARCH	EM_X86_64
#define ELF_EXEC_PAGESIZE	4096
#define ELF_ET_DYN_BASE	0
#define ELF_HWCAP	0
#define ELF_PLATFORM	NULL
#define elf_check_arch(x)	((x)->e_machine == ELF_ARCH)

#endif
