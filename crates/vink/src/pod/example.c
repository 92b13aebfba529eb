/* A pod: pings of more bytes than its configuration says are lost. */

#include "pod.h"

POD();

static uint32_t most = 500;

int32_t pod_init(const char *config, uint32_t len)
{
	uint32_t i, number = 0;

	for (i = 0; i < len; i++) {
		if (config[i] < '0' || config[i] > '9')
			return 1;	/* the pod can't be used */
		number = number * 10 + config[i] - '0';
	}
	if (len)
		most = number;
	return 0;
}

int32_t pod_packet(uint8_t *frame, uint32_t len, uint32_t room, uint32_t direction)
{
	vink_count(0, 1);
	if (len <= most)
		return POD_PASS;
	vink_count(1, 1);
	vink_log("too large", 9);
	return POD_DROP;
}
