// SPDX-License-Identifier: GPL-2.0
/*
 * Coverage: which steps from state to state TCP has made, for vink explore.
 *
 * Which lines have run is told by gcov's counters, which the compiler puts into
 * net/ipv4/tcp*.c (stack/build). The host reads those, and the steps below, in
 * its own memory, by their symbols: nothing of libgcov is needed.
 *
 * Of the states of a socket the kernel's own tracepoint tells. Two states of the
 * standard are no sockets: the rest of TIME-WAIT is a small structure, and so
 * is SYN-RECEIVED until the last packet of the handshake. The linker puts the
 * functions below in the way of what makes and drops these (see Makefile).
 */

#include <linux/init.h>
#include <linux/tcp.h>
#include <net/inet_connection_sock.h>
#include <net/inet_timewait_sock.h>
#include <net/tcp.h>
#include <trace/events/sock.h>

/* Why: no error, a reset, another error. */
enum cause { BY_ITSELF, BY_RESET, BY_ERROR, CAUSES };

/* From, to: numbers of net/tcp_states.h, with SYN-RECEIVED as one. */
unsigned long vink_tcp_steps[CAUSES][TCP_MAX_STATES][TCP_MAX_STATES];

/* A socket whose FIN was acknowledged by its segment of this number. */
static const struct sock *acknowledged;
static u32 segment;
/* A socket that TIME-WAIT takes the place of: that it ends is no step. */
static const struct sock *replaced;

static enum cause cause_of(const struct sock *sk)
{
	switch (sk->sk_err) {
	case 0:
		return BY_ITSELF;
	case ECONNRESET:
	case ECONNREFUSED:
	case EPIPE:
		return BY_RESET;
	default:
		return BY_ERROR;
	}
}

static void set_state(void *data, const struct sock *sk, const int from,
		      const int to)
{
	if (sk->sk_protocol != IPPROTO_TCP || from == to)
		return;
	if (to == TCP_CLOSE && sk == replaced) {
		replaced = NULL;
		return;
	}
	if (to == TCP_FIN_WAIT2) {
		acknowledged = sk;
		segment = tcp_sk(sk)->segs_in;
	}
	vink_tcp_steps[cause_of(sk)][from][to]++;
}

struct inet_timewait_sock *
__real_inet_twsk_alloc(const struct sock *sk,
		       struct inet_timewait_death_row *row, const int state);
struct inet_timewait_sock *
__wrap_inet_twsk_alloc(const struct sock *sk,
		       struct inet_timewait_death_row *row, const int state);

struct inet_timewait_sock *
__wrap_inet_twsk_alloc(const struct sock *sk,
		       struct inet_timewait_death_row *row, const int state)
{
	struct inet_timewait_sock *tw;
	int from = sk->sk_state;

	tw = __real_inet_twsk_alloc(sk, row, state);
	if (!tw)
		return NULL;
	replaced = sk;
	/* One segment has brought the acknowledgment and the peer's FIN. */
	if (state == TCP_TIME_WAIT && sk == acknowledged &&
	    segment == tcp_sk(sk)->segs_in)
		from = TCP_FIN_WAIT1;
	if (from != state)
		vink_tcp_steps[BY_ITSELF][from][state]++;
	return tw;
}

void __real_tcp_twsk_destructor(struct sock *sk);
void __wrap_tcp_twsk_destructor(struct sock *sk);

void __wrap_tcp_twsk_destructor(struct sock *sk)
{
	const struct inet_timewait_sock *tw = inet_twsk(sk);
	/* By a reset, or by the SYN of a new connection. */
	bool is_early = time_before(jiffies, tw->tw_timer.expires);

	vink_tcp_steps[is_early ? BY_RESET : BY_ITSELF]
		      [tw->tw_substate][TCP_CLOSE]++;
	__real_tcp_twsk_destructor(sk);
}

bool __real_inet_csk_reqsk_queue_drop(struct sock *sk,
				      struct request_sock *req);
bool __wrap_inet_csk_reqsk_queue_drop(struct sock *sk,
				      struct request_sock *req);

bool __wrap_inet_csk_reqsk_queue_drop(struct sock *sk, struct request_sock *req)
{
	bool is_dropped = __real_inet_csk_reqsk_queue_drop(sk, req);

	if (is_dropped)
		vink_tcp_steps[BY_RESET][TCP_SYN_RECV][TCP_LISTEN]++;
	return is_dropped;
}

/* What gcc's code refers to, and nothing calls. */
void __gcov_init(void *info);
void __gcov_exit(void);
void __gcov_merge_add(void *counters, unsigned int count);

void __gcov_init(void *info)
{
}

void __gcov_exit(void)
{
}

void __gcov_merge_add(void *counters, unsigned int count)
{
}

static int __init coverage_init(void)
{
	return register_trace_inet_sock_set_state(set_state, NULL);
}
early_initcall(coverage_init);
