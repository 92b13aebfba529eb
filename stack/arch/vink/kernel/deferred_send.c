// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred sends: the send credit of a TCP socket, and what is done when a program
 * has been told that its send succeeded and it does not.
 */

#include <linux/file.h>
#include <linux/net.h>
#include <linux/vmstat.h>
#include <net/sock.h>
#include <net/tcp.h>
#include <net/transp_v6.h>

#include <asm/syscall.h>
#include <asm/versions.h>
#include <asm/vink.h>

/* Bytes for the buffers' own heads, of one send. */
#define SPARE_ROOM	4096
/* With fewer free pages there is no credit. */
#define SPARE_PAGES	512

/* The TCP socket that @file is, whose sends only TCP sees, or NULL. */
static struct sock *plain_tcp(struct file *file)
{
	struct socket *sock = sock_from_file(file);
	struct sock *sk = sock ? sock->sk : NULL;

	if (!sk)
		return NULL;
	if (sk->sk_prot == &tcp_prot)
		return sk;
	if (IS_ENABLED(CONFIG_IPV6) && sk->sk_prot == &tcpv6_prot)
		return sk;
	return NULL;
}

static bool can_send(struct sock *sk)
{
	return (1 << sk->sk_state) & (TCPF_ESTABLISHED | TCPF_CLOSE_WAIT) &&
	       !sk->sk_err && !(sk->sk_shutdown & SEND_SHUTDOWN);
}

/* Whether it has no other sender, and no program that asks after each byte. */
static bool is_simple(struct sock *sk)
{
	return !sock_owned_by_user_nocheck(sk) && !sk->sk_write_pending &&
	       !tcp_sk(sk)->repair &&
	       tcp_notsent_lowat(tcp_sk(sk)) == UINT_MAX;
}

static bool has_memory(struct sock *sk)
{
	return !tcp_under_memory_pressure(sk) &&
	       atomic_long_read(sk->sk_prot->memory_allocated) <
		       READ_ONCE(sk->sk_prot->sysctl_mem[0]) &&
	       global_zone_page_state(NR_FREE_PAGES) > SPARE_PAGES;
}

/*
 * What is sent within a machine is there when the call returns, and its receiver
 * may know: only what goes out over a wire can be on its way.
 */
static bool leads_out(struct sock *sk)
{
	struct dst_entry *dst;
	bool out;

	rcu_read_lock();
	dst = __sk_dst_get(sk);
	out = dst && vink_is_wire(dst->dev);
	rcu_read_unlock();
	return out;
}

/* Send credit: bytes that @fd takes at once, after which it still is writable. */
u32 vink_send_credit(int fd)
{
	CLASS(fd, f)(fd);
	struct sock *sk = fd_empty(f) ? NULL : plain_tcp(fd_file(f));
	int credit;

	if (!sk || !can_send(sk) || !is_simple(sk) || !has_memory(sk) ||
	    !leads_out(sk))
		return 0;
	/* Two thirds full, and it is not (sk_stream_is_writeable()). */
	credit = sk->sk_sndbuf / 3 * 2 - sk->sk_wmem_queued - SPARE_ROOM;
	return max(credit, 0);
}

/* A send that its program takes for done; see VINK_FLAG_DEFERRED. */
long vink_deferred_send(const u64 args[6])
{
	CLASS(fd, f)(args[0]);
	struct sock *sk = fd_empty(f) ? NULL : plain_tcp(fd_file(f));
	int least, limit;
	long result;

	/* What had been sent before would be lost by now. */
	if (!sk || !can_send(sk))
		return args[2];
	/* Another thread's send may have taken the room meanwhile. */
	least = sk->sk_wmem_queued + (int)args[2] + SPARE_ROOM;
	limit = sk->sk_sndbuf;
	if (limit < least)
		WRITE_ONCE(sk->sk_sndbuf, least);
	result = sys_call_table[__NR_sendto](args[0], args[1], args[2], args[3],
					     args[4], args[5]);
	if (limit < least)
		WRITE_ONCE(sk->sk_sndbuf, limit);
	/* Bytes are missing: what follows must not be taken for them. */
	if (result != args[2])
		tcp_abort(sk, ENOBUFS);
	return result;
}
