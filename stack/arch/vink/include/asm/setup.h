/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _ASM_VINK_SETUP_H
#define _ASM_VINK_SETUP_H

#define COMMAND_LINE_SIZE	2048

#endif
