/* The file calls that work on sockets: readv, writev, sendfile, fstat. */
#include "check.h"
#include <sys/sendfile.h>
#include <sys/stat.h>

int main(void)
{
	begin();
	EACH_FAMILY(family) {
		char a[4] = "", b[8] = "", path[] = "/tmp/vink-check-XXXXXX";
		struct iovec out[2] = { { "gather", 6 }, { "ed", 2 } };
		struct iovec in[2] = { { a, 3 }, { b, 7 } };
		struct stat st;
		int p[2];

		title(family_name(family));
		stream_pair(family, p);
		TRY(writev(p[0], out, 2));
		WAIT(p[1], POLLIN);
		TRY(readv(p[1], in, 2));
		TEXT(a);
		TEXT(b);
		TRY(fstat(p[0], &st));
		VALUE(S_ISSOCK(st.st_mode));
		VALUE(st.st_size);
		VALUE(isatty(p[0]));
		TEXT(strerrorname_np(errno));

		title("sendfile");
		int file = MUST(mkstemp(path));
		MUST(unlink(path));
		MUST(write(file, "0123456789", 10));
		off_t offset = 2;
		TRY(sendfile(p[0], file, &offset, 5));
		VALUE(offset);
		memset(b, 0, sizeof(b));
		TRY(recv(p[1], b, 8, 0));
		TEXT(b);
		TRY(lseek(file, 8, SEEK_SET));
		TRY(sendfile(p[0], file, NULL, 100));
		TRY(recv(p[1], b, 8, 0));
		TRY(sendfile(p[0], file, NULL, 100));
		TRY(sendfile(p[0], NO_FD, NULL, 1));
		TRY(sendfile(p[0], p[1], NULL, 1));

		title("stdio on a socket");
		FILE *f = fdopen(p[0], "r+");
		VALUE(fprintf(f, "a line\n"));
		VALUE(fflush(f));
		FILE *g = fdopen(p[1], "r+");
		char text[16] = "";
		VALUE(fgets(text, sizeof(text), g) == text);
		VALUE(strlen(text));
		fclose(f);
		VALUE(fgets(text, sizeof(text), g) == NULL);
		fclose(g);
		close(file);
	}
	return 0;
}
