// SPDX-License-Identifier: GPL-2.0
/* Native asynchronous I/O on the host's files: sockets among the descriptors change nothing. */
#include "check.h"
#include <linux/aio_abi.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

static aio_context_t context;

static struct iocb request(int op, int fd, void *data, size_t len)
{
	return (struct iocb){
		.aio_lio_opcode = op,
		.aio_fildes = fd,
		.aio_buf = (uintptr_t)data,
		.aio_nbytes = len,
	};
}

static long submit(long n, struct iocb **requests)
{
	return syscall(SYS_io_submit, context, n, requests);
}

/* Waits for one request and prints what became of it. */
static void finish(void)
{
	struct io_event event = { 0 };

	TRY(syscall(SYS_io_getevents, context, 1, 1, &event, NULL));
	VALUE(event.res);
}

int main(void)
{
	char out[] = "some bytes", in[16] = "";
	struct iocb write, read, sync, bad, note;
	struct iocb *list[600];
	int file, ends[2], socket_, wake;
	eventfd_t count;

	begin();
	socket_ = FD(socket(AF_INET, SOCK_DGRAM, 0));
	file = FD(memfd_create("file", 0));
	wake = FD(eventfd(0, 0));
	TRY(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	TRY(syscall(SYS_io_setup, 1024, &context));

	write = request(IOCB_CMD_PWRITE, file, out, sizeof(out));
	list[0] = &write;
	TRY(submit(1, list));
	finish();
	read = request(IOCB_CMD_PREAD, file, in, sizeof(in));
	list[0] = &read;
	TRY(submit(1, list));
	finish();
	TEXT(in);
	sync = request(IOCB_CMD_FSYNC, file, NULL, 0);
	list[0] = &sync;
	TRY(submit(1, list));

	/* Many at once, and one that tells by an eventfd. */
	note = write;
	note.aio_flags = IOCB_FLAG_RESFD;
	note.aio_resfd = wake;
	for (int i = 0; i < 600; i++)
		list[i] = i == 599 ? &note : &write;
	VALUE(submit(600, list) == 600);
	TRY(eventfd_read(wake, &count));

	/* A unix socket is the host's. */
	write = request(IOCB_CMD_PWRITE, ends[0], out, sizeof(out));
	list[0] = &write;
	TRY(submit(1, list));
	TRY(recv(ends[1], in, sizeof(in), MSG_DONTWAIT));

	bad = request(IOCB_CMD_PWRITE, NO_FD, out, sizeof(out));
	list[0] = &bad;
	TRY(submit(1, list));
	list[0] = &write;
	list[1] = &bad;
	TRY(submit(2, list));
	list[0] = NOWHERE;
	TRY(submit(1, list));
	TRY(submit(1, NOWHERE));
	TRY(submit(0, NOWHERE));
	TRY(submit(-1, list));
	TRY(close(socket_));
	TRY(syscall(SYS_io_destroy, context));
	return 0;
}
