/* SPDX-License-Identifier: GPL-2.0 */
/* Without an MMU there is nothing to allocate. */
