/* MSG_ZEROCOPY: what is sent, and the completions. */
#include "check.h"
#include <linux/errqueue.h>

#define LEN 20000
#define SENDS 3

static char sent[LEN], got[SENDS * LEN];

/* The completions there are, up to this send. */
static void completions(int fd, unsigned last)
{
	unsigned next = 0, copied = 1;

	while (next <= last) {
		struct pollfd p = { .fd = fd };
		char control[256];
		struct msghdr m = { .msg_control = control,
				    .msg_controllen = sizeof(control) };
		struct sock_extended_err e;

		if (poll(&p, 1, 10000) != 1 ||
		    recvmsg(fd, &m, MSG_ERRQUEUE) < 0)
			break;
		memcpy(&e, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(e));
		if (e.ee_origin != SO_EE_ORIGIN_ZEROCOPY || e.ee_errno ||
		    e.ee_info != next)
			break;
		copied &= e.ee_code == SO_EE_CODE_ZEROCOPY_COPIED;
		next = e.ee_data + 1;
	}
	VALUE(next);
	VALUE(copied);
}

static void stream(int family)
{
	int p[2];
	size_t done = 0;

	stream_pair(family, p);
	TRY(send(p[0], sent, 1, MSG_ZEROCOPY));
	TRY(recv(p[1], got, 1, 0));
	ROUND_TRIP(p[0], SOL_SOCKET, SO_ZEROCOPY, 1);
	for (int i = 0; i < SENDS; i++)
		TRY(send(p[0], sent, LEN, MSG_ZEROCOPY));
	while (done < SENDS * LEN)
		done += MUST(recv(p[1], got + done, SENDS * LEN - done, 0));
	for (int i = 0; i < SENDS; i++)
		VALUE(memcmp(got + i * LEN, sent, LEN));
	completions(p[0], SENDS - 1);
	TRY(send(p[0], NOWHERE, LEN, MSG_ZEROCOPY));
	close(p[0]);
	close(p[1]);
}

static void datagrams(int family)
{
	int p[2];

	datagram_pair(family, p);
	ROUND_TRIP(p[0], SOL_SOCKET, SO_ZEROCOPY, 1);
	TRY(send(p[0], sent + 100, 5000, MSG_ZEROCOPY));
	TRY(recv(p[1], got, sizeof(got), 0));
	VALUE(memcmp(got, sent + 100, 5000));
	completions(p[0], 0);
	close(p[0]);
	close(p[1]);
}

int main(void)
{
	begin();
	for (int i = 0; i < LEN; i++)
		sent[i] = i * 7 + i / 251;
	EACH_FAMILY(family) {
		title(family_name(family));
		stream(family);
		title("datagrams");
		datagrams(family);
	}
	return 0;
}
