/* sendmmsg() and recvmmsg(): several datagrams in one call. */
#include "check.h"

enum { COUNT = 4 };

int main(void)
{
	begin();
	EACH_FAMILY(family) {
		char text[COUNT][8] = { "one", "three", "", "seven" };
		char in[COUNT + 1][8];
		struct iovec iov[COUNT], in_iov[COUNT + 1];
		struct mmsghdr m[COUNT] = { 0 }, r[COUNT + 1] = { 0 };
		struct timespec soon = { 0, 50000000 };
		int p[2];

		title(family_name(family));
		datagram_pair(family, p);
		for (int i = 0; i < COUNT; i++) {
			iov[i] = (struct iovec){ text[i], strlen(text[i]) };
			m[i].msg_hdr.msg_iov = &iov[i];
			m[i].msg_hdr.msg_iovlen = 1;
		}
		for (int i = 0; i <= COUNT; i++) {
			in_iov[i] = (struct iovec){ in[i], sizeof(in[i]) };
			r[i].msg_hdr.msg_iov = &in_iov[i];
			r[i].msg_hdr.msg_iovlen = 1;
		}
		memset(in, 0, sizeof(in));
		TRY(recvmmsg(p[1], r, 2, MSG_DONTWAIT, NULL));
		TRY(sendmmsg(p[0], m, COUNT, 0));
		for (int i = 0; i < COUNT; i++)
			VALUE(m[i].msg_len);
		TRY(recvmmsg(p[1], r, 2, 0, NULL));
		for (int i = 0; i < 2; i++) {
			VALUE(r[i].msg_len);
			TEXT(in[i]);
		}
		TRY(recvmmsg(p[1], r, COUNT + 1, MSG_WAITFORONE, NULL));
		VALUE(r[0].msg_len);
		VALUE(r[1].msg_len);
		TEXT(in[1]);
		TRY(sendmmsg(p[0], m, 0, 0));
		TRY(recvmmsg(p[1], r, 0, MSG_DONTWAIT, NULL));
		MUST(send(p[0], "x", 1, 0));
		MUST(send(p[0], "y", 1, 0));
		TRY(recvmmsg(p[1], r, 2, 0, &soon));
		soon.tv_nsec = 2000000000;
		TRY(recvmmsg(p[1], r, 2, 0, &soon));

		title("an error in the middle");
		m[2].msg_hdr.msg_iov = NOWHERE;
		TRY(sendmmsg(p[0], m, COUNT, 0));
		TRY(recvmmsg(p[1], r, COUNT, MSG_WAITFORONE, NULL));
		m[0].msg_hdr.msg_iov = NOWHERE;
		TRY(sendmmsg(p[0], m, COUNT, 0));
		close(p[0]);
		close(p[1]);
	}
	return 0;
}
