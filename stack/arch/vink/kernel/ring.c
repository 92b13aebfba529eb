// SPDX-License-Identifier: GPL-2.0
/*
 * Rings of packet sockets that the host maps for its programs.
 *
 * Without an MMU packet_mmap() can't map pages anywhere, so the host is told
 * where they are and does it. What is kept here stands for the mapping: it
 * holds the file, as a mapping does, and counts as one.
 */

#include <linux/file.h>
#include <linux/if_packet.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/net.h>
#include <linux/netdevice.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include <net/sock.h>
#include <net/packet/internal.h>

#include <asm/versions.h>
#include <asm/vink.h>

struct mapping {
	struct list_head list;
	u64 cookie;
	struct file *file;
};

static LIST_HEAD(mappings);

static struct mapping *find(u64 cookie)
{
	struct mapping *m;

	list_for_each_entry(m, &mappings, list) {
		if (m->cookie == cookie)
			return m;
	}
	return NULL;
}

static u64 fill_in(struct packet_sock *po, struct vink_block *blocks, u64 room)
{
	struct packet_ring_buffer *rb;
	unsigned int i;
	u64 n = 0;

	for (rb = &po->rx_ring; rb <= &po->tx_ring; rb++) {
		for (i = 0; rb->pg_vec && i < rb->pg_vec_len; i++, n++) {
			if (n >= room)
				continue;
			blocks[n].start = rb->pg_vec[i].buffer;
			blocks[n].len = (u64)rb->pg_vec_pages << PAGE_SHIFT;
		}
	}
	return n;
}

long vink_ring_map(int fd, u64 cookie, struct vink_block *blocks, u64 room)
{
	struct packet_sock *po;
	struct socket *sock;
	struct mapping *m;
	u64 n;

	CLASS(fd, f)(fd);

	if (fd_empty(f))
		return -EBADF;
	sock = sock_from_file(fd_file(f));
	if (!sock || sock->ops->family != PF_PACKET ||
	    sock->ops->mmap == sock_no_mmap)
		return -ENODEV;
	m = kmalloc(sizeof(*m), GFP_KERNEL);
	if (!m)
		return -ENOMEM;

	po = pkt_sk(sock->sk);
	mutex_lock(&po->pg_vec_lock);
	n = fill_in(po, blocks, room);
	if (n && n <= room) {
		atomic_long_inc(&po->mapped);
		m->cookie = cookie;
		m->file = get_file(fd_file(f));
		list_add(&m->list, &mappings);
		m = NULL;
	}
	mutex_unlock(&po->pg_vec_lock);
	kfree(m);
	return n ?: -EINVAL;
}

long vink_ring_unmap(u64 cookie)
{
	struct mapping *m = find(cookie);

	if (!m)
		return -ENOENT;
	list_del(&m->list);
	atomic_long_dec(&pkt_sk(sock_from_file(m->file)->sk)->mapped);
	fput(m->file);
	kfree(m);
	return 0;
}

long vink_ring_poll(u64 cookie)
{
	struct mapping *m = find(cookie);

	if (!m)
		return -ENOENT;
	return vfs_poll(m->file, NULL) & 0xffff;
}
