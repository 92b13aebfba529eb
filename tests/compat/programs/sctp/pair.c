/* SPDX-License-Identifier: GPL-2.0 */
/* SCTP: "serve" shows messages with their streams on a one-to-many socket; "send HOST" sends some. */
#include <arpa/inet.h>
#include <err.h>
#include <linux/sctp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void serve(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(7200) };
	struct sctp_event_subscribe events = { .sctp_data_io_event = 1, .sctp_association_event = 1 };
	int s = socket(AF_INET, SOCK_SEQPACKET, IPPROTO_SCTP);
	static char data[100000];
	char control[256];

	if (s < 0 || bind(s, (struct sockaddr *)&a, sizeof(a)) || listen(s, 5))
		err(1, "one-to-many socket");
	if (setsockopt(s, IPPROTO_SCTP, SCTP_EVENTS, &events, sizeof(events)))
		err(1, "SCTP_EVENTS");
	printf("listening\n");
	for (;;) {
		struct iovec v = { data, sizeof(data) };
		struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = control,
				    .msg_controllen = sizeof(control) };
		union sctp_notification *told = (void *)data;
		struct sctp_sndrcvinfo *info;
		ssize_t n = recvmsg(s, &m, 0);

		if (n < 0)
			err(1, "recvmsg");
		if (m.msg_flags & MSG_NOTIFICATION) {
			if (told->sn_assoc_change.sac_state == SCTP_COMM_UP)
				printf("association is up\n");
			else if (told->sn_assoc_change.sac_state == SCTP_SHUTDOWN_COMP)
				printf("association is down\n");
			continue;
		}
		info = (void *)CMSG_DATA(CMSG_FIRSTHDR(&m));
		printf("stream %u: %zd bytes, %c, %s\n", info->sinfo_stream, n, data[n - 1],
		       m.msg_flags & MSG_EOR ? "whole" : "part");
	}
}

/* A file's first line. */
static void show(const char *name)
{
	char line[200] = "";
	FILE *file = fopen(name, "r");

	if (!file || !fgets(line, sizeof(line), file))
		err(1, "%s", name);
	printf("%s", line);
	fclose(file);
}

static void send_some(const char *host)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(7200) };
	struct sctp_initmsg init = { .sinit_num_ostreams = 4 };
	int s = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
	static char data[50000];
	struct sctp_status status;
	socklen_t len = sizeof(status);
	int i;

	inet_pton(AF_INET, host, &a.sin_addr);
	setsockopt(s, IPPROTO_SCTP, SCTP_INITMSG, &init, sizeof(init));
	if (s < 0 || connect(s, (struct sockaddr *)&a, sizeof(a)))
		err(1, "one-to-one socket");
	for (i = 0; i < 8; i++) {
		char control[CMSG_SPACE(sizeof(struct sctp_sndrcvinfo))] = {};
		struct iovec v = { data, i == 5 ? sizeof(data) : 10 + i };
		struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = control,
				    .msg_controllen = sizeof(control) };
		struct cmsghdr *c = CMSG_FIRSTHDR(&m);
		struct sctp_sndrcvinfo *info = (void *)CMSG_DATA(c);

		c->cmsg_level = IPPROTO_SCTP;
		c->cmsg_type = SCTP_SNDRCV;
		c->cmsg_len = CMSG_LEN(sizeof(*info));
		info->sinfo_stream = i % 4;
		memset(data, 'a' + i, sizeof(data));
		printf("sent %zd\n", sendmsg(s, &m, 0));
	}
	if (getsockopt(s, IPPROTO_SCTP, SCTP_STATUS, &status, &len))
		err(1, "SCTP_STATUS");
	printf("streams out: %u\n", status.sstat_outstrms);
	show("/proc/net/sctp/eps");
	close(s);
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 3)
		send_some(argv[2]);
	else
		serve();
	return 0;
}
