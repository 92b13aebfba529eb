/* A program that executes another one, and leaves it a socket. */
#include "../check.h"

int main(void)
{
	MUST(socket(AF_INET, SOCK_STREAM, 0));
	MUST(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
	execlp("echo", "echo", "the other one", NULL);
	return 1;
}
