// SPDX-License-Identifier: GPL-2.0
/* Native asynchronous I/O on Vink's sockets is refused, and nothing of what was submitted with it is carried out. */
#include "check.h"
#include <linux/aio_abi.h>
#include <sys/mman.h>

static char data[] = "some bytes";
static aio_context_t context;

static long submit(int op, int fd, int first)
{
	struct iocb requests[2] = {
		{ .aio_lio_opcode = IOCB_CMD_PWRITE, .aio_fildes = first },
		{ .aio_lio_opcode = op, .aio_fildes = fd },
	};
	struct iocb *list[2] = { &requests[0], &requests[1] };

	for (int i = 0; i < 2; i++) {
		requests[i].aio_buf = (uintptr_t)data;
		requests[i].aio_nbytes = sizeof(data);
	}
	if (first < 0)
		return syscall(SYS_io_submit, context, 1, &list[1]);
	return syscall(SYS_io_submit, context, 2, list);
}

int main(void)
{
	union address self = { .v4 = { .sin_family = AF_INET } };
	socklen_t len = sizeof(self.v4);
	int udp, copy, file;
	char in[16];

	begin();
	TRY(syscall(SYS_io_setup, 16, &context));
	file = FD(memfd_create("file", 0));
	udp = FD(socket(AF_INET, SOCK_DGRAM, 0));
	TRY(submit(IOCB_CMD_PWRITE, udp, -1));
	self.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	TRY(bind(udp, &self.any, sizeof(self.v4)));
	TRY(getsockname(udp, &self.any, &len));
	TRY(connect(udp, &self.any, sizeof(self.v4)));
	TRY(submit(IOCB_CMD_PWRITE, udp, -1));
	TRY(submit(IOCB_CMD_PREAD, udp, -1));
	copy = FD(dup(udp));
	TRY(submit(IOCB_CMD_PWRITE, copy, file));
	TRY(lseek(file, 0, SEEK_END));
	TRY(recv(udp, in, sizeof(in), MSG_DONTWAIT));
	TRY(send(udp, data, sizeof(data), 0));
	TRY(recv(udp, in, sizeof(in), 0));
	return 0;
}
