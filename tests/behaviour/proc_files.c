/* The machine's files: read in pieces, at offsets, rewound, written, refused. */
#include "check.h"
#include <sys/stat.h>

int main(void)
{
	char text[64] = "", part[64] = "";
	struct stat st;

	begin();
	int f = FD(open("/proc/net/dev", O_RDONLY));
	TRY(read(f, part, 5));
	TEXT(part);
	TRY(read(f, part, 3));
	TRY(lseek(f, 0, SEEK_SET));
	TRY(read(f, text, 8));
	TEXT(text);
	memset(part, 0, sizeof(part));
	TRY(pread(f, part, 5, 1));
	TEXT(part);
	TRY(fstat(f, &st));
	VALUE(st.st_size);
	VALUE(S_ISREG(st.st_mode));
	TRY(write(f, "x", 1));
	TRY(close(f));

	title("a table, through stdio");
	FILE *tcp = fopen("/proc/net/tcp", "r");
	int l = bound(AF_INET, SOCK_STREAM), lines = 0;
	char line[256];
	MUST(listen(l, 1));
	while (fgets(line, sizeof(line), tcp))
		lines++;
	VALUE(lines);
	fclose(tcp);

	title("a sysctl");
	f = FD(open("/proc/sys/net/ipv4/ip_forward", O_RDWR));
	TRY(pread(f, text, 2, 0));
	VALUE(text[0] - '0');
	TRY(write(f, "1", 1));
	TRY(pread(f, text, 2, 0));
	VALUE(text[0] - '0');
	TRY(write(f, "0", 1)); /* ignored: not at the start */
	TRY(lseek(f, 0, SEEK_CUR));
	TRY(lseek(f, 0, SEEK_SET));
	TRY(read(f, text, 2));
	VALUE(text[0] - '0');
	TRY(lseek(f, 0, SEEK_SET));
	TRY(write(f, "nonsense", 8));
	TRY(close(f));
	TRY(open("/proc/sys/net/ipv4/no_such_thing", O_RDONLY));
	f = FD(open("/sys/class/net/lo/mtu", O_RDONLY));
	memset(text, 0, sizeof(text));
	TRY(read(f, text, sizeof(text)));
	TEXT(text);
	TRY(stat("/sys/class/net/lo", &st));
	TRY(stat("/proc/net/tcp", &st));
	return 0;
}
