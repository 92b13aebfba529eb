/* rtnetlink: links, addresses and routes of lo, made, shown and removed. */
#include "check.h"
#include <linux/if_addr.h>
#include <linux/if_arp.h>
#include <linux/rtnetlink.h>

static int nl;
static unsigned sequence;

static struct {
	struct nlmsghdr h;
	char body[512];
} request;

static void begin_request(int type, int flags, const void *head, size_t len)
{
	memset(&request, 0, sizeof(request));
	request.h.nlmsg_len = NLMSG_LENGTH(len);
	request.h.nlmsg_type = type;
	request.h.nlmsg_flags = NLM_F_REQUEST | flags;
	request.h.nlmsg_seq = ++sequence;
	memcpy(NLMSG_DATA(&request.h), head, len);
}

static void attribute(int type, const void *data, size_t len)
{
	struct rtattr *a =
		(void *)((char *)&request + NLMSG_ALIGN(request.h.nlmsg_len));

	a->rta_type = type;
	a->rta_len = RTA_LENGTH(len);
	memcpy(RTA_DATA(a), data, len);
	request.h.nlmsg_len = NLMSG_ALIGN(request.h.nlmsg_len) +
			      RTA_ALIGN(a->rta_len);
}

static const void *find(struct nlmsghdr *h, size_t head, int type, size_t *len)
{
	struct rtattr *a = (void *)((char *)NLMSG_DATA(h) + NLMSG_ALIGN(head));
	int left = NLMSG_PAYLOAD(h, head);

	for (; RTA_OK(a, left); a = RTA_NEXT(a, left)) {
		if (a->rta_type != type)
			continue;
		if (len)
			*len = RTA_PAYLOAD(a);
		return RTA_DATA(a);
	}
	return NULL;
}

static void show_link(struct nlmsghdr *h)
{
	struct ifinfomsg *i = NLMSG_DATA(h);
	const unsigned *mtu = find(h, sizeof(*i), IFLA_MTU, NULL);
	const char *name = find(h, sizeof(*i), IFLA_IFNAME, NULL);
	size_t len = 0;

	if (i->ifi_index != 1)
		return;
	find(h, sizeof(*i), IFLA_ADDRESS, &len);
	printf("link %d %s type %d mtu %u address %zu bytes flags %#x\n",
	       i->ifi_index, name, i->ifi_type, *mtu, len,
	       i->ifi_flags & (IFF_UP | IFF_LOOPBACK | IFF_RUNNING));
}

static void show_address(struct nlmsghdr *h)
{
	struct ifaddrmsg *i = NLMSG_DATA(h);
	const void *at = find(h, sizeof(*i), IFA_ADDRESS, NULL);
	const char *label = find(h, sizeof(*i), IFA_LABEL, NULL);
	char text[INET6_ADDRSTRLEN];

	if (i->ifa_index != 1)
		return;
	printf("address %s/%d scope %d label %s\n",
	       inet_ntop(i->ifa_family, at, text, sizeof(text)),
	       i->ifa_prefixlen, i->ifa_scope, label ? label : "none");
}

static void show_route(struct nlmsghdr *h)
{
	struct rtmsg *r = NLMSG_DATA(h);
	const void *to = find(h, sizeof(*r), RTA_DST, NULL);
	const int *oif = find(h, sizeof(*r), RTA_OIF, NULL);
	char text[INET6_ADDRSTRLEN] = "default";

	if (r->rtm_family == AF_INET6)
		return; /* the ones made by themselves vary with the version */
	if (to)
		inet_ntop(r->rtm_family, to, text, sizeof(text));
	printf("route %s/%d type %d table %d protocol %d scope %d by %d\n", text,
	       r->rtm_dst_len, r->rtm_type, r->rtm_table, r->rtm_protocol,
	       r->rtm_scope, oif ? *oif : 0);
}

/* Sends the request and prints everything up to its end. */
static void talk(const char *what)
{
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	static char answer[32768];

	printf("%s\n", what);
	MUST(sendto(nl, &request, request.h.nlmsg_len, 0, (void *)&kernel,
		    sizeof(kernel)));
	for (int more = 1; more;) {
		int len = MUST(recv(nl, answer, sizeof(answer), 0));
		struct nlmsghdr *h = (void *)answer;

		for (; NLMSG_OK(h, len); h = NLMSG_NEXT(h, len)) {
			struct nlmsgerr *e = NLMSG_DATA(h);

			if (h->nlmsg_seq != sequence)
				printf("an unexpected sequence number\n");
			if (!(h->nlmsg_flags & NLM_F_MULTI))
				more = 0;
			if (h->nlmsg_type == NLMSG_DONE) {
				more = 0;
				printf("done\n");
			} else if (h->nlmsg_type == NLMSG_ERROR) {
				printf("  %s\n", e->error ?
				       strerrorname_np(-e->error) : "ok");
			} else if (h->nlmsg_type == RTM_NEWLINK) {
				show_link(h);
			} else if (h->nlmsg_type == RTM_NEWADDR) {
				show_address(h);
			} else if (h->nlmsg_type == RTM_NEWROUTE) {
				show_route(h);
			}
		}
	}
}

static void address(int type, int flags, int family, const char *text, int bits,
		    int index)
{
	struct ifaddrmsg i = { .ifa_family = family, .ifa_prefixlen = bits,
			       .ifa_index = index };
	uint8_t to[16];
	int len = family == AF_INET ? 4 : 16;

	inet_pton(family, text, to);
	begin_request(type, NLM_F_ACK | flags, &i, sizeof(i));
	attribute(IFA_LOCAL, to, len);
	attribute(IFA_ADDRESS, to, len);
	talk(text);
}

static void route(int type, int flags, const char *text, int bits, int index)
{
	struct rtmsg r = { .rtm_family = AF_INET, .rtm_dst_len = bits,
			   .rtm_table = RT_TABLE_MAIN, .rtm_type = RTN_UNICAST,
			   .rtm_protocol = RTPROT_STATIC,
			   .rtm_scope = RT_SCOPE_LINK };
	uint8_t to[4];

	inet_pton(AF_INET, text, to);
	begin_request(type, NLM_F_ACK | flags, &r, sizeof(r));
	attribute(RTA_DST, to, 4);
	attribute(RTA_OIF, &index, 4);
	talk(text);
}

int main(void)
{
	struct sockaddr_nl self = { .nl_family = AF_NETLINK };
	socklen_t len = sizeof(self);

	begin();
	nl = FD(socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE));
	TRY(bind(nl, (void *)&self, sizeof(self)));
	TRY(getsockname(nl, (void *)&self, &len));
	VALUE(len);
	VALUE(self.nl_pid != 0);
	TRY(bind(nl, (void *)&self, sizeof(self)));

	title("links");
	struct ifinfomsg link = { .ifi_family = AF_UNSPEC };
	begin_request(RTM_GETLINK, NLM_F_DUMP, &link, sizeof(link));
	talk("dump");
	link.ifi_index = 1;
	begin_request(RTM_GETLINK, 0, &link, sizeof(link));
	talk("by index");
	link.ifi_index = 77;
	begin_request(RTM_GETLINK, 0, &link, sizeof(link));
	talk("no such index");
	link.ifi_index = 0;
	begin_request(RTM_GETLINK, 0, &link, sizeof(link));
	attribute(IFLA_IFNAME, "lo", 3);
	talk("by name");
	begin_request(RTM_GETLINK, 0, &link, sizeof(link));
	attribute(IFLA_IFNAME, "none", 5);
	talk("no such name");
	link.ifi_index = 1;
	unsigned mtu = 9000;
	begin_request(RTM_SETLINK, NLM_F_ACK, &link, sizeof(link));
	attribute(IFLA_MTU, &mtu, 4);
	talk("another mtu");
	begin_request(RTM_GETLINK, 0, &link, sizeof(link));
	talk("by index");
	begin_request(RTM_DELLINK, NLM_F_ACK, &link, sizeof(link));
	talk("lo can't be removed");

	title("addresses");
	struct ifaddrmsg any = { .ifa_family = AF_UNSPEC };
	begin_request(RTM_GETADDR, NLM_F_DUMP, &any, sizeof(any));
	talk("dump");
	int new = NLM_F_CREATE | NLM_F_EXCL;
	address(RTM_NEWADDR, new, AF_INET, "10.9.8.7", 24, 1);
	address(RTM_NEWADDR, new, AF_INET, "10.9.8.7", 24, 1);
	address(RTM_NEWADDR, new, AF_INET, "10.9.8.8", 24, 77);
	address(RTM_NEWADDR, new, AF_INET, "10.9.8.8", 40, 1);
	address(RTM_NEWADDR, new, AF_INET6, "2001:db8::7", 64, 1);
	address(RTM_NEWADDR, new, AF_INET6, "2001:db8::7", 64, 1);
	address(RTM_NEWADDR, new, AF_INET6, "ff02::1", 64, 1);
	begin_request(RTM_GETADDR, NLM_F_DUMP, &any, sizeof(any));
	talk("dump");
	address(RTM_DELADDR, 0, AF_INET6, "2001:db8::7", 64, 1);
	address(RTM_DELADDR, 0, AF_INET, "10.9.8.9", 24, 1);

	title("routes");
	route(RTM_NEWROUTE, new, "192.0.2.0", 24, 1);
	route(RTM_NEWROUTE, new, "192.0.2.0", 24, 1);
	route(RTM_NEWROUTE, new, "192.0.2.1", 24, 1);
	route(RTM_NEWROUTE, new, "198.51.100.0", 24, 77);
	route(RTM_NEWROUTE, 0, "198.51.100.0", 24, 1);
	struct rtmsg routes = { .rtm_family = AF_INET };
	begin_request(RTM_GETROUTE, NLM_F_DUMP, &routes, sizeof(routes));
	talk("dump");
	route(RTM_DELROUTE, 0, "192.0.2.0", 24, 1);
	route(RTM_DELROUTE, 0, "192.0.2.0", 24, 1);
	uint8_t to[4] = { 10, 9, 8, 200 };
	routes.rtm_dst_len = 32;
	begin_request(RTM_GETROUTE, 0, &routes, sizeof(routes));
	attribute(RTA_DST, to, 4);
	talk("which way to 10.9.8.200");
	to[0] = 11;
	begin_request(RTM_GETROUTE, 0, &routes, sizeof(routes));
	attribute(RTA_DST, to, 4);
	talk("which way to 11.9.8.200");
	address(RTM_DELADDR, 0, AF_INET, "10.9.8.7", 24, 1);

	title("requests that make no sense");
	begin_request(RTM_GETLINK, 0, &link, 4);
	talk("a short head");
	begin_request(1000, NLM_F_ACK, &link, sizeof(link));
	talk("an unknown type");
	struct ndmsg neighbour = { .ndm_family = AF_INET, .ndm_ifindex = 1 };
	begin_request(RTM_NEWNEIGH, NLM_F_ACK, &neighbour, sizeof(neighbour));
	talk("a neighbour without an address");
	TRY(send(nl, "short", 5, 0));
	TRY(recv(nl, to, 4, MSG_DONTWAIT));
	TRY(send(nl, "", 0, 0));
	TRY(connect(nl, (void *)&self, 3));
	TRY(listen(nl, 1));
	return 0;
}
