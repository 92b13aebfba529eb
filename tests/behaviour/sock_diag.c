/* sock_diag: sockets found by a dump, with their state and inode. */
#include "check.h"
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <sys/stat.h>

static void dump(int family, int protocol, int states)
{
	struct {
		struct nlmsghdr h;
		struct inet_diag_req_v2 r;
	} q = {
		.h = { sizeof(q), SOCK_DIAG_BY_FAMILY,
		       NLM_F_REQUEST | NLM_F_DUMP, 1, 0 },
		.r = { .sdiag_family = family, .sdiag_protocol = protocol,
		       .idiag_states = states },
	};
	static char answer[16384];
	int fd = MUST(socket(AF_NETLINK, SOCK_DGRAM, NETLINK_SOCK_DIAG));

	MUST(send(fd, &q, sizeof(q), 0));
	for (int more = 1; more;) {
		int len = MUST(recv(fd, answer, sizeof(answer), 0));

		for (struct nlmsghdr *h = (void *)answer; NLMSG_OK(h, len);
		     h = NLMSG_NEXT(h, len)) {
			struct inet_diag_msg *m = NLMSG_DATA(h);

			if (h->nlmsg_type == NLMSG_DONE) {
				more = 0;
				break;
			}
			if (h->nlmsg_type == NLMSG_ERROR) {
				struct nlmsgerr *e = NLMSG_DATA(h);

				printf("%s\n", strerrorname_np(-e->error));
				more = 0;
				break;
			}
			printf("family %d state %d port %d to %d, rqueue %u wqueue %u\n",
			       m->idiag_family, m->idiag_state,
			       ntohs(m->id.idiag_sport),
			       ntohs(m->id.idiag_dport) == 4100 ? 4100 : 0,
			       m->idiag_rqueue, m->idiag_wqueue);
		}
	}
	close(fd);
}

int main(void)
{
	begin();
	EACH_FAMILY(family) {
		union address a;
		int tcp = socket(family, SOCK_STREAM, 0);
		int udp = socket(family, SOCK_DGRAM, 0);
		socklen_t len = loopback(family, 4100, &a);

		title(family_name(family));
		TRY(bind(tcp, &a.any, len));
		TRY(listen(tcp, 5));
		TRY(bind(udp, &a.any, len));
		title("listening");
		dump(family, IPPROTO_TCP, 1 << 10);
		int c = connect_to(family, SOCK_STREAM, 4100);
		int s = accept(tcp, NULL, NULL);
		TRY(send(c, "waiting", 7, 0));
		WAIT(s, POLLIN);
		title("UDP");
		dump(family, IPPROTO_UDP, -1);
		title("nothing");
		dump(family, IPPROTO_TCP, 1 << 2);
		title("a protocol and a family that have no diag");
		dump(family, 250, -1);
		dump(200, IPPROTO_TCP, -1);
		close(c);
		close(s);
		close(tcp);
		close(udp);
	}
	TRY(socket(AF_NETLINK, SOCK_STREAM, NETLINK_SOCK_DIAG));
	return 0;
}
