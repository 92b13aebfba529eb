/* SPDX-License-Identifier: MIT */
/*
 * A frame of an MPEG audio stream in, its samples out: 16 bits, interleaved, by
 * Debian's libmpg123. Link with -lmpg123.
 *
 * Configuration: rate=44100 channels=2; a stream of another rate can't go on.
 * Counters: 0 frames, 1 samples of each channel.
 */

#include <mpg123.h>
#include <vink/pod.h>
#include "config.h"

POD();

static mpg123_handle *decoder;
static long rate, channels;

static void say(const char *text)
{
	vink_log(text, strlen(text));
}

int32_t pod_init(const char *config, uint32_t len)
{
	/* Each frame gives its own samples, the first one's too, and nothing is cut off. */
	long flags = MPG123_QUIET | MPG123_IGNORE_INFOFRAME | MPG123_NO_READAHEAD |
		     MPG123_NO_FRANKENSTEIN;

	rate = config_number(config, len, "rate", 44100);
	channels = config_number(config, len, "channels", 2);
	if (mpg123_init() != MPG123_OK)
		return 1;
	decoder = mpg123_new(NULL, NULL);
	if (!decoder)
		return 2;
	flags |= channels == 1 ? MPG123_MONO_MIX : MPG123_FORCE_STEREO;
	mpg123_param(decoder, MPG123_REMOVE_FLAGS, MPG123_GAPLESS, 0);
	mpg123_param(decoder, MPG123_ADD_FLAGS, flags, 0);
	mpg123_param(decoder, MPG123_RESYNC_LIMIT, -1, 0);
	mpg123_format_none(decoder);
	if (mpg123_format(decoder, rate, channels, MPG123_ENC_SIGNED_16) != MPG123_OK) {
		say("libmpg123 decodes to no such rate or number of channels");
		return 3;
	}
	return mpg123_open_feed(decoder) == MPG123_OK ? 0 : 4;
}

int32_t pod_stream(const uint8_t *bytes, uint32_t len, uint32_t flags)
{
	(void)flags;
	if (len && mpg123_feed(decoder, bytes, len) != MPG123_OK)
		return 1;
	for (;;) {
		unsigned char *samples = NULL;
		size_t size = 0;
		off_t number;
		int found = mpg123_decode_frame(decoder, &number, &samples, &size);

		if (found == MPG123_NEED_MORE)
			return 0;
		if (found == MPG123_NEW_FORMAT)
			continue;
		if (found != MPG123_OK) {
			say(mpg123_strerror(decoder));
			return 2;
		}
		vink_count(0, 1);
		vink_count(1, size / 2 / channels);
		if (vink_emit(0, samples, size))
			return 3;
	}
}
