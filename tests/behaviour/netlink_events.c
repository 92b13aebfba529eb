/* Netlink groups: what a listener hears, truncation, options, socket errors. */
#include "check.h"
#include <linux/genetlink.h>
#include <linux/rtnetlink.h>

static void set_up(int up)
{
	struct ifreq ifr = { .ifr_name = "lo" };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	MUST(ioctl(fd, SIOCGIFFLAGS, &ifr));
	ifr.ifr_flags = up ? ifr.ifr_flags | IFF_UP : ifr.ifr_flags & ~IFF_UP;
	TRY(ioctl(fd, SIOCSIFFLAGS, &ifr));
	close(fd);
}

static void next(int fd)
{
	static char buffer[8192];
	struct sockaddr_nl from;
	struct iovec iov = { buffer, sizeof(buffer) };
	struct msghdr m = { .msg_name = &from, .msg_namelen = sizeof(from),
			    .msg_iov = &iov, .msg_iovlen = 1 };
	struct nlmsghdr *h = (void *)buffer;
	struct ifinfomsg *i = NLMSG_DATA(h);

	VALUE(recvmsg(fd, &m, 0) > 100);
	VALUE(m.msg_namelen);
	VALUE(from.nl_pid);
	VALUE(from.nl_groups);
	VALUE(h->nlmsg_type == RTM_NEWLINK);
	VALUE(i->ifi_index);
	VALUE(!!(i->ifi_flags & IFF_UP));
}

int main(void)
{
	begin();
	struct sockaddr_nl a = { .nl_family = AF_NETLINK,
				 .nl_groups = RTMGRP_LINK };
	char small[8];
	int s = FD(socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE));

	TRY(bind(s, (void *)&a, sizeof(a)));
	EVENTS(s);
	set_up(0);
	next(s);
	set_up(1);
	WAIT(s, POLLIN);
	TRY(recv(s, small, 8, MSG_PEEK));
	VALUE(recv(s, small, 8, MSG_PEEK | MSG_TRUNC) > 100);
	next(s);
	TRY(recv(s, small, 8, MSG_DONTWAIT));

	title("membership by option");
	int group = RTNLGRP_LINK;
	TRY(setsockopt(s, SOL_NETLINK, NETLINK_DROP_MEMBERSHIP, &group, 4));
	set_up(0);
	set_up(1);
	TRY(recv(s, small, 8, MSG_DONTWAIT));
	TRY(setsockopt(s, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, 4));
	set_up(0);
	next(s);
	group = 12345;
	TRY(setsockopt(s, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, 4));
	ROUND_TRIP(s, SOL_NETLINK, NETLINK_PKTINFO, 1);
	ROUND_TRIP(s, SOL_NETLINK, NETLINK_EXT_ACK, 1);
	ROUND_TRIP(s, SOL_NETLINK, NETLINK_CAP_ACK, 1);
	ROUND_TRIP(s, SOL_NETLINK, NETLINK_GET_STRICT_CHK, 1);
	ROUND_TRIP(s, SOL_NETLINK, 99, 1);

	title("addresses");
	int other = socket(AF_NETLINK, SOCK_DGRAM, NETLINK_ROUTE);
	a = (struct sockaddr_nl){ .nl_family = AF_NETLINK, .nl_pid = 4242 };
	TRY(bind(other, (void *)&a, sizeof(a)));
	int third = socket(AF_NETLINK, SOCK_DGRAM, NETLINK_ROUTE);
	TRY(bind(third, (void *)&a, sizeof(a)));
	TRY(bind(third, (void *)&a, 4));
	a.nl_family = AF_INET;
	TRY(bind(third, (void *)&a, sizeof(a)));
	a.nl_family = AF_NETLINK;
	a.nl_pid = 4343;
	TRY(connect(third, (void *)&a, sizeof(a)));
	TRY(send(third, "to no receiver, more", 20, 0));
	TRY(socket(AF_NETLINK, SOCK_STREAM, NETLINK_ROUTE));
	TRY(socket(AF_NETLINK, SOCK_RAW, 31));
	TRY(socket(AF_NETLINK, SOCK_RAW, 99));
	TRY(socket(AF_NETLINK, SOCK_RAW, -1));
	return 0;
}
