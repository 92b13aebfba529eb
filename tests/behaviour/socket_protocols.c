/* socket(): protocol numbers that do not go with the type. */
#include "check.h"

int main(void)
{
	begin();
	TRY(socket(AF_INET, SOCK_STREAM, IPPROTO_UDP));
	TRY(socket(AF_INET, SOCK_DGRAM, IPPROTO_TCP));
	TRY(socket(AF_INET, SOCK_DGRAM, 250));
	TRY(socket(AF_INET, SOCK_RAW, 0));
	TRY(socket(AF_INET, SOCK_RAW, 300));
	TRY(socket(AF_INET, SOCK_DGRAM, -1));
	TRY(socket(AF_INET, SOCK_DGRAM, IPPROTO_RAW));
	return 0;
}
