/* SPDX-License-Identifier: MIT */
/* What a pod's configuration says, as in "bitrate=192 quality=5". */
#ifndef CONFIG_H
#define CONFIG_H

#include <stdint.h>
#include <string.h>

/* The whole number behind "name=", or what is to hold without one. */
static long config_number(const char *config, uint32_t len, const char *name, long otherwise)
{
	uint32_t size = strlen(name), at = 0;

	while (at < len) {
		uint32_t end = at;

		while (end < len && config[end] != ' ')
			end++;
		if (end - at > size + 1 && !memcmp(config + at, name, size) && config[at + size] == '=') {
			long number = 0;

			for (at += size + 1; at < end && config[at] >= '0' && config[at] <= '9'; at++)
				number = number * 10 + config[at] - '0';
			return number;
		}
		at = end + 1;
	}
	return otherwise;
}

#endif /* CONFIG_H */
