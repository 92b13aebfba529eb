// SPDX-License-Identifier: GPL-2.0
/*
 * What a wire that is not ideal does to the packets of one end.
 *
 * First comes the transmitter, if there is a rate: it sends one packet at a time
 * and has room for the next, so that it is never idle because it learns late
 * that it is; the queue before it, which is the interface's own, stands still
 * meanwhile. When a packet's last bit is sent the wire may lose it, make it two
 * or change a bit. Then it is under way for as long as the delay says.
 *
 * All times are those of the plan, not those at which a timer was found to have
 * expired: a packet that follows another begins when that one's last bit was
 * sent, and is delayed from its own last bit on. With a virtual clock the two are
 * the same. With a real one the interface hears of its turn later than it was,
 * and what it then sends began in the past, by that much at most.
 */

#include <linux/etherdevice.h>
#include <linux/if_vlan.h>
#include <linux/mm.h>
#include <linux/vmstat.h>

#include "vx.h"

struct vx_cb {
	u64 arrival;
	u64 departed;			/* from the interface */
	u64 flight;			/* its id, or 0: it was not told */
};

static struct vx_cb *vx_cb(struct sk_buff *skb)
{
	BUILD_BUG_ON(sizeof(struct vx_cb) > sizeof(skb->cb));
	return (struct vx_cb *)skb->cb;
}

/* Steele, Lea and Flood's SplitMix: 64 bits of state, and any seed will do. */
static u64 draw(struct vx_end *end)
{
	u64 z = end->random += 0x9e3779b97f4a7c15;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

static bool chance(struct vx_end *end, u32 probability)
{
	return probability && (u32)(draw(end) >> 32) <= probability;
}

static u64 below(struct vx_end *end, u64 bound)
{
	return mul_u64_u64_shr(draw(end), bound, 64);
}

/* The state that a packet finds decides; then the line may change its state. */
static bool is_lost(struct vx_end *end)
{
	const struct vink_wire_settings *s = &end->settings;
	bool lost;

	if (!(s->flags & VINK_WIRE_BURSTS))
		return chance(end, s->loss);
	lost = chance(end, end->bad ? s->loss_bad : s->loss);
	if (chance(end, end->bad ? s->to_good : s->to_bad))
		end->bad = !end->bad;
	return lost;
}

/* Another machine's copy of the same bytes is not ours to change. */
bool vx_link_flip(struct sk_buff *skb, u64 bit)
{
	if (skb_ensure_writable(skb, skb->len))
		return false;
	skb->data[bit / BITS_PER_BYTE] ^= 1 << bit % BITS_PER_BYTE;
	skb->ip_summed = CHECKSUM_NONE;
	return true;
}

static bool corrupt(struct vx_end *end, struct sk_buff *skb)
{
	if (!vx_link_flip(skb, below(end, (u64)skb->len * BITS_PER_BYTE)))
		return false;
	end->stats.corrupted++;
	return true;
}

static bool memory_is_short(void)
{
	return global_zone_page_state(NR_FREE_PAGES) < totalram_pages() / 8;
}

/* The one that arrives next, or NULL. */
static struct sk_buff *first(struct vx_end *end)
{
	return rb_to_skb(rb_first_cached(&end->in_flight));
}

/* Behind those that arrive at the same time. */
static void insert(struct vx_end *end, struct sk_buff *skb, u64 arrival)
{
	struct rb_node **link = &end->in_flight.rb_root.rb_node, *parent = NULL;
	bool is_first = true;

	vx_cb(skb)->arrival = arrival;
	while (*link) {
		parent = *link;
		if (arrival < vx_cb(rb_to_skb(parent))->arrival) {
			link = &parent->rb_left;
		} else {
			link = &parent->rb_right;
			is_first = false;
		}
	}
	rb_link_node(&skb->rbnode, parent, link);
	rb_insert_color_cached(&skb->rbnode, &end->in_flight, is_first);
	end->under_way++;
	if (is_first)
		hrtimer_start(&end->arrival, ns_to_ktime(arrival),
			      HRTIMER_MODE_ABS_SOFT);
}

static struct sk_buff *take_first(struct vx_end *end)
{
	struct sk_buff *skb = first(end);

	rb_erase_cached(&skb->rbnode, &end->in_flight);
	RB_CLEAR_NODE(&skb->rbnode);
	skb->next = NULL;
	skb->prev = NULL;
	skb->dev = end->dev;
	end->under_way--;
	return skb;
}

/* The flight that may be lost now, which names it then. */
static void begin(struct vx_end *end, struct sk_buff *skb, u64 flight)
{
	end->departed = vx_cb(skb)->departed;
	end->flight = flight;
}

static void carry(struct vx_end *end, struct sk_buff *skb, u64 flight)
{
	begin(end, skb, flight);
	vx_carry(end, skb);
	vx_flight_over(end);
}

static void lose(struct vx_end *end, struct sk_buff *skb, u32 cause, u64 flight)
{
	begin(end, skb, flight);
	vx_lose(end, skb, cause);
	vx_flight_over(end);
}

/* How long a packet is under way, or 0 if it is one that overtakes the others. */
static u64 delay(struct vx_end *end, bool *overtakes)
{
	const struct vink_wire_settings *s = &end->settings;
	u64 least, most;

	if (s->reorder && ++end->in_order >= s->gap &&
	    chance(end, s->reorder)) {
		end->in_order = 0;
		end->stats.reordered++;
		*overtakes = true;
		return 0;
	}
	*overtakes = s->flags & VINK_WIRE_OVERTAKE;
	if (!s->jitter)
		return s->delay;
	least = s->delay - min(s->delay, s->jitter);
	most = s->delay + s->jitter;
	return least + below(end, most - least + 1);
}

static void travel(struct vx_end *end, struct sk_buff *skb, u64 sent)
{
	const struct vink_wire_settings *s = &end->settings;
	u64 departed = vx_cb(skb)->departed;
	u64 now = ktime_get_ns();
	bool overtakes;
	u64 arrival;

	if (chance(end, s->corrupt) && !corrupt(end, skb)) {
		lose(end, skb, VINK_LOST_LIMIT, 0);
		return;
	}
	arrival = sent + delay(end, &overtakes);
	if (!overtakes) {
		arrival = max(arrival, end->last);
		/* One that joins is ahead of its time: others are not. */
		if (sent <= now)
			end->last = arrival;
	}
	if (arrival <= now &&
	    (!end->under_way || arrival < vx_cb(first(end))->arrival)) {
		carry(end, skb, vx_flight(end, skb, departed, arrival));
		return;
	}
	if ((s->limit && end->under_way >= s->limit) || memory_is_short()) {
		lose(end, skb, VINK_LOST_LIMIT, 0);
		return;
	}
	/*
	 * It is no longer the sender's: neither may its socket wait for it,
	 * nor its machine, to end, for what else it refers to.
	 */
	skb_orphan(skb);
	skb_scrub_packet(skb, true);
	vx_cb(skb)->flight = vx_flight(end, skb, departed, arrival);
	insert(end, skb, arrival);
}

/* The packet's last bit was sent at this time. */
static void leave(struct vx_end *end, struct sk_buff *skb, u64 sent)
{
	const struct vink_wire_settings *s = &end->settings;
	struct sk_buff *copy;

	skb_reset_mac_header(skb);
	if (s->mtu && skb->len - ETH_HLEN > s->mtu) {
		lose(end, skb, VINK_LOST_MTU, 0);
		return;
	}
	if (is_lost(end)) {
		lose(end, skb, VINK_LOST_RANDOM, 0);
		return;
	}
	if (chance(end, s->duplicate)) {
		copy = skb_clone(skb, GFP_ATOMIC);
		if (copy) {
			end->stats.duplicated++;
			travel(end, copy, sent);
		}
	}
	travel(end, skb, sent);
}

/* How long it takes to send, with what was left over from the last one. */
static u64 duration(struct vx_end *end, struct sk_buff *skb)
{
	u64 rate = end->settings.rate;
	u64 total = (u64)skb->len * BITS_PER_BYTE * NSEC_PER_SEC;

	if (!rate)
		return 0;
	total += end->fraction;
	end->fraction = total % rate;
	return total / rate;
}

/* Sends a packet from this time on. */
static void transmit(struct vx_end *end, struct sk_buff *skb, u64 start)
{
	end->free_at = start + duration(end, skb);
	if (end->free_at <= ktime_get_ns()) {
		leave(end, skb, end->free_at);
		return;
	}
	end->sending = skb;
	hrtimer_start(&end->transmitted, ns_to_ktime(end->free_at),
		      HRTIMER_MODE_ABS_SOFT);
}

/*
 * A packet that was held goes on: it takes as long to send as any other one, but
 * beside the queue, behind what the transmitter has and what joined before.
 */
void vx_link_join(struct vx_end *end, struct sk_buff *skb, u64 *joined)
{
	u64 start = ktime_get_ns();

	if (!end->busy) {
		vx_carry_at_once(end, skb);
		return;
	}
	vx_cb(skb)->departed = start;
	if (end->sending)
		start = end->free_at;
	if (end->next)
		start += duration(end, end->next);
	*joined = max(start, *joined) + duration(end, skb);
	leave(end, skb, *joined);
}

static void update_busy(struct vx_end *end)
{
	end->busy = end->sending || !vx_ideal(&end->settings);
}

netdev_tx_t vx_link_send(struct vx_end *end, struct sk_buff *skb)
{
	u64 now = ktime_get_ns();

	vx_cb(skb)->departed = now;
	if (end->sending) {
		end->next = skb;
		netif_stop_queue(end->dev);
	} else {
		/* The queue's answer to the last one, or a packet by itself. */
		if (now <= end->free_at + end->late)
			now = end->free_at;
		transmit(end, skb, now);
	}
	return NETDEV_TX_OK;
}

/* The packet is sent. What waits for that learns it now. */
static enum hrtimer_restart transmitted(struct hrtimer *timer)
{
	struct vx_end *end = container_of(timer, struct vx_end, transmitted);
	struct sk_buff *sent = end->sending, *next = end->next;
	u64 now = ktime_get_ns();

	end->sending = NULL;
	end->next = NULL;
	/* It takes the queue about as long again to answer. */
	end->late = 2 * (now - end->free_at);
	leave(end, sent, end->free_at);
	if (next) {
		transmit(end, next, end->free_at);
		netif_wake_queue(end->dev);
	}
	update_busy(end);
	return HRTIMER_NORESTART;
}

static enum hrtimer_restart arrival(struct hrtimer *timer)
{
	struct vx_end *end = container_of(timer, struct vx_end, arrival);
	u64 now = ktime_get_ns();
	struct sk_buff *skb;

	while ((skb = first(end))) {
		if (vx_cb(skb)->arrival > now) {
			hrtimer_set_expires(timer,
					    ns_to_ktime(vx_cb(skb)->arrival));
			return HRTIMER_RESTART;
		}
		carry(end, take_first(end), vx_cb(skb)->flight);
	}
	return HRTIMER_NORESTART;
}

/*
 * The settings are others now. What is under way keeps its time, and what comes
 * may overtake it; what is being sent goes on, but no longer than it would take
 * from now on at the new rate.
 */
void vx_link_changed(struct vx_end *end)
{
	u64 now = ktime_get_ns();
	u64 at_most;

	end->last = 0;
	end->fraction = 0;
	end->late = 0;
	if (end->sending) {
		at_most = now + duration(end, end->sending);
		if (at_most < end->free_at) {
			end->free_at = at_most;
			hrtimer_start(&end->transmitted, ns_to_ktime(at_most),
				      HRTIMER_MODE_ABS_SOFT);
		}
	}
	update_busy(end);
}

void vx_link_purge(struct vx_end *end)
{
	struct sk_buff *skb;

	hrtimer_cancel(&end->transmitted);
	hrtimer_cancel(&end->arrival);
	while (end->under_way) {
		skb = take_first(end);
		lose(end, skb, VINK_LOST_DOWN, vx_cb(skb)->flight);
	}
	if (end->sending)
		lose(end, end->sending, VINK_LOST_DOWN, 0);
	if (end->next) {
		lose(end, end->next, VINK_LOST_DOWN, 0);
		netif_wake_queue(end->dev);
	}
	end->sending = NULL;
	end->next = NULL;
	end->free_at = 0;
	end->last = 0;
	update_busy(end);
}

void vx_link_init(struct vx_end *end)
{
	hrtimer_init(&end->transmitted, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	end->transmitted.function = transmitted;
	hrtimer_init(&end->arrival, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	end->arrival.function = arrival;
	end->in_flight = RB_ROOT_CACHED;
}
