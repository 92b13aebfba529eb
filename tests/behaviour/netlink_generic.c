/* Generic netlink: the controller, found by name, and unused names. */
#include "check.h"
#include <linux/genetlink.h>
#include <linux/netlink.h>

static void ask(int fd, const char *name)
{
	struct {
		struct nlmsghdr h;
		struct genlmsghdr g;
		struct nlattr a;
		char name[GENL_NAMSIZ];
	} q = { 0 };
	union {
		char bytes[8192];
		struct nlmsghdr h;
	} r;
	size_t len = strlen(name) + 1;

	memcpy(q.name, name, len);
	q.g.cmd = CTRL_CMD_GETFAMILY;
	q.g.version = 1;
	q.a.nla_type = CTRL_ATTR_FAMILY_NAME;
	q.a.nla_len = NLA_HDRLEN + len;
	q.h.nlmsg_len = NLMSG_LENGTH(GENL_HDRLEN) + NLA_ALIGN(q.a.nla_len);
	q.h.nlmsg_type = GENL_ID_CTRL;
	q.h.nlmsg_flags = NLM_F_REQUEST;
	printf("%s\n", name);
	TRY(send(fd, &q, q.h.nlmsg_len, 0) == (long)q.h.nlmsg_len);
	long got = MUST(recv(fd, &r, sizeof(r), 0));
	if (r.h.nlmsg_type == NLMSG_ERROR) {
		struct nlmsgerr *e = NLMSG_DATA(&r.h);

		printf("%s\n", strerrorname_np(-e->error));
		return;
	}
	VALUE(r.h.nlmsg_type == GENL_ID_CTRL);
	for (long at = NLMSG_LENGTH(GENL_HDRLEN); at < got;) {
		struct nlattr *a = (void *)(r.bytes + at);

		if (a->nla_type == CTRL_ATTR_FAMILY_NAME)
			TEXT((char *)(a + 1));
		if (a->nla_type == CTRL_ATTR_FAMILY_ID) {
			uint16_t id;

			memcpy(&id, a + 1, 2);
			VALUE(id >= GENL_MIN_ID);
		}
		at += NLA_ALIGN(a->nla_len);
	}
}

int main(void)
{
	begin();
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	int fd = FD(socket(AF_NETLINK, SOCK_RAW, NETLINK_GENERIC));

	TRY(connect(fd, (void *)&kernel, sizeof(kernel)));
	ask(fd, "nlctrl");
	ask(fd, "tcp_metrics");
	ask(fd, "mptcp_pm");
	ask(fd, "unknown");
	return 0;
}
