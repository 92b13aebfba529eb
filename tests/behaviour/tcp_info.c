/* TCP_INFO: the connection's states and the figures that can be foreseen. */
#include "check.h"
#include <linux/types.h>

static struct tcp_info info(int fd)
{
	struct tcp_info i = { 0 };
	socklen_t len = sizeof(i);

	MUST(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &i, &len));
	return i;
}

static void state(const char *what, int fd)
{
	static const char *const names[] = {
		"none", "ESTABLISHED", "SYN_SENT", "SYN_RECV", "FIN_WAIT1",
		"FIN_WAIT2", "TIME_WAIT", "CLOSE", "CLOSE_WAIT", "LAST_ACK",
		"LISTEN", "CLOSING",
	};

	printf("%s: %s\n", what, names[info(fd).tcpi_state]);
}

int main(void)
{
	begin();
	EACH_FAMILY(family) {
		struct tcp_info i;
		char buffer[1000];
		socklen_t len;
		int p[2];

		title(family_name(family));
		int s = socket(family, SOCK_STREAM, 0);
		state("fresh", s);
		close(s);
		s = listener(family);
		state("listener", s);
		VALUE(info(s).tcpi_sacked == 16); /* the backlog */
		VALUE(info(s).tcpi_unacked);	  /* the queue's length */
		int c = connect_to(family, SOCK_STREAM, port_of(s));
		WAIT(s, POLLIN);
		VALUE(info(s).tcpi_unacked);
		close(c);
		close(s);

		stream_pair(family, p);
		memset(buffer, 'x', sizeof(buffer));
		TRY(send(p[0], buffer, 1000, 0));
		TRY(recv(p[1], buffer, 1000, MSG_WAITALL));
		i = info(p[0]);
		state("connected", p[0]);
		VALUE(i.tcpi_ca_state);
		VALUE(i.tcpi_retransmits);
		VALUE(i.tcpi_total_retrans);
		VALUE(i.tcpi_lost);
		VALUE(!!(i.tcpi_options & 1)); /* timestamps */
		VALUE(!!(i.tcpi_options & 2)); /* SACK */
		VALUE(!!(i.tcpi_options & 4)); /* window scaling */
		VALUE(i.tcpi_pmtu);
		VALUE(i.tcpi_advmss);
		VALUE(i.tcpi_snd_cwnd > 0);
		VALUE(i.tcpi_rtt > 0);
		VALUE(i.tcpi_rtt < 1000000);
		VALUE(i.tcpi_rto >= 200000);

		title("closing");
		shutdown(p[0], SHUT_WR);
		WAIT(p[1], POLLRDHUP);
		/* FIN_WAIT1 until the delayed acknowledgement, then FIN_WAIT2. */
		i = info(p[0]);
		VALUE(i.tcpi_state == 4 || i.tcpi_state == 5);
		state("the other", p[1]);
		shutdown(p[1], SHUT_WR);
		WAIT(p[0], POLLHUP);
		state("the one that began", p[0]);
		state("the other", p[1]);
		close(p[0]);
		close(p[1]);

		title("lengths");
		stream_pair(family, p);
		len = 0;
		TRY(getsockopt(p[0], IPPROTO_TCP, TCP_INFO, &i, &len));
		VALUE(len);
		len = 1;
		TRY(getsockopt(p[0], IPPROTO_TCP, TCP_INFO, &i, &len));
		VALUE(len);
		len = -1;
		TRY(getsockopt(p[0], IPPROTO_TCP, TCP_INFO, &i, &len));
		len = 100;
		TRY(getsockopt(p[0], IPPROTO_TCP, TCP_INFO, NOWHERE, &len));
		TRY(getsockopt(p[0], IPPROTO_TCP, TCP_INFO, &i, NOWHERE));
		TRY(setsockopt(p[0], IPPROTO_TCP, TCP_INFO, &i, sizeof(i)));
		close(p[0]);
		close(p[1]);
	}
	return 0;
}
