/* SPDX-License-Identifier: MIT */
/*
 * Samples in (16 bits, interleaved), an MP3 stream out, by Debian's libmp3lame.
 * Link with -lmp3lame.
 *
 * The bit reservoir is off: no frame has bytes of another one, so that one that is
 * left out spoils no other.
 *
 * Configuration: bitrate=128 (kbit/s) quality=5 (0 best, 9 fastest) rate=44100
 * channels=2. Counters: 0 samples of each channel, 1 bytes out.
 */

#include <lame/lame.h>
#include <vink/pod.h>
#include "config.h"

POD();

/* Of each channel, in one call of LAME. */
#define SAMPLES	1152

static lame_global_flags *encoder;
static long channels;

static void silent(const char *format, va_list arguments)
{
	(void)format, (void)arguments;
}

int32_t pod_init(const char *config, uint32_t len)
{
	encoder = lame_init();
	if (!encoder)
		return 1;
	channels = config_number(config, len, "channels", 2);
	lame_set_errorf(encoder, silent);
	lame_set_debugf(encoder, silent);
	lame_set_msgf(encoder, silent);
	lame_set_num_channels(encoder, channels);
	lame_set_mode(encoder, channels == 1 ? MONO : JOINT_STEREO);
	lame_set_in_samplerate(encoder, config_number(config, len, "rate", 44100));
	/* As it comes: a tier with fewer bits has the same frames. */
	lame_set_out_samplerate(encoder, config_number(config, len, "rate", 44100));
	lame_set_brate(encoder, config_number(config, len, "bitrate", 128));
	lame_set_quality(encoder, config_number(config, len, "quality", 5));
	lame_set_disable_reservoir(encoder, 1);
	lame_set_bWriteVbrTag(encoder, 0);
	lame_set_write_id3tag_automatic(encoder, 0);
	return lame_init_params(encoder) < 0 ? 2 : 0;
}

static int32_t put(const uint8_t *bytes, int len)
{
	if (len < 0)
		return 1;
	if (!len)
		return 0;
	vink_count(1, len);
	return vink_emit(0, bytes, len) ? 2 : 0;
}

int32_t pod_stream(const uint8_t *bytes, uint32_t len, uint32_t flags)
{
	/* What lame.h wants for so many samples, and what it holds back. */
	static uint8_t out[SAMPLES * 5 / 4 + 7200];
	uint32_t each = 2 * channels, left = len / each;
	short *samples = (short *)bytes;

	while (left) {
		int some = left < SAMPLES ? left : SAMPLES;
		int size = channels == 1 ?
			lame_encode_buffer(encoder, samples, samples, some, out, sizeof(out)) :
			lame_encode_buffer_interleaved(encoder, samples, some, out, sizeof(out));
		int32_t wrong = put(out, size);

		if (wrong)
			return wrong;
		vink_count(0, some);
		samples += some * channels;
		left -= some;
	}
	return flags & POD_END ? put(out, lame_encode_flush(encoder, out, sizeof(out))) : 0;
}
