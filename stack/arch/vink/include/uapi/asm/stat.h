/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/* struct stat as the host's programs know it. */
#include <../arch/x86/include/uapi/asm/stat.h>
