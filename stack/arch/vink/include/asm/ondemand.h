/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The built-in modules that are not started at boot but when first asked for,
 * in groups that are started together: those that need one another. Each is
 * named by how its name begins, once for the linker script, which gathers a
 * group's initcalls, and once for kernel/ondemand.c, which runs them.
 *
 * Here belongs what takes a kilobyte or more of every network namespace and what
 * distributions build as a module that the kernel asks for by itself.
 */
#ifndef _ASM_VINK_ONDEMAND_H
#define _ASM_VINK_ONDEMAND_H

#define VINK_GROUPS(GROUP)						\
	GROUP(sctp)							\
	GROUP(netfilter)						\
	GROUP(ipip)							\
	GROUP(ip_gre)							\
	GROUP(sit)							\
	GROUP(ip6_tunnels)						\
	GROUP(vxlan)

#define VINK_NAMES_sctp(NAME)		NAME(sctp)
#define VINK_NAMES_netfilter(NAME)	NAME(nf) NAME(act_ct)
#define VINK_NAMES_ipip(NAME)		NAME(ipip)
#define VINK_NAMES_ip_gre(NAME)		NAME(ip_gre)
#define VINK_NAMES_sit(NAME)		NAME(sit)
#define VINK_NAMES_ip6_tunnels(NAME)	NAME(ip6_tunnel) NAME(ip6_gre)
#define VINK_NAMES_vxlan(NAME)		NAME(vxlan)

#endif /* _ASM_VINK_ONDEMAND_H */
