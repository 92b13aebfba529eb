/* SPDX-License-Identifier: MIT */
/*
 * Bytes of an MPEG audio stream (layer III) in, whole frames out, one unit each:
 * what a transcoder can shed without looking into it.
 *
 * Bytes before, between and behind frames are left out: tags, and what is left of
 * a frame whose beginning was lost. A frame counts if its header is one and where
 * it ends another one begins, or the stream ends.
 *
 * Counters: 0 frames, 1 bytes that were left out.
 */

#include <string.h>
#include <vink/pod.h>

POD();

/* 320 kbit/s at 32 kHz, with padding. */
#define MOST	1441
#define HEADER	4

/* Bytes that wait for the rest of their frame, and for the header behind it. */
static uint8_t held[MOST + HEADER + 65536];
static uint32_t have;

/* The length of the frame that begins here; 0: none does. */
static uint32_t frame_length(const uint8_t *at)
{
	static const uint16_t rates[2][16] = {
		{ 0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160, 0 },
		{ 0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 0 },
	};
	static const uint16_t samplings[4] = { 44100, 48000, 32000, 0 };
	/* 0: MPEG 2.5, 2: MPEG 2, 3: MPEG 1. */
	uint32_t version = at[1] >> 3 & 3, is_first = version == 3;
	uint32_t rate = rates[is_first][at[2] >> 4] * 1000, sampling = samplings[at[2] >> 2 & 3];

	if (at[0] != 0xff || (at[1] & 0xe6) != 0xe2 || version == 1 || !rate || !sampling)
		return 0;
	sampling >>= version == 3 ? 0 : version == 2 ? 1 : 2;
	return (is_first ? 144 : 72) * rate / sampling + (at[2] >> 1 & 1);
}

/* Two headers of one stream: version, layer and sampling are the same. */
static int alike(const uint8_t *one, const uint8_t *other)
{
	return frame_length(other) && (one[1] & 0xfe) == (other[1] & 0xfe) &&
	       (one[2] & 0xc) == (other[2] & 0xc);
}

static int take_frames(int is_end)
{
	uint32_t at = 0;

	while (at + HEADER <= have) {
		uint32_t len = frame_length(held + at);

		if (len && at + len + HEADER > have && !(is_end && at + len <= have)) {
			if (!is_end)
				break;
			len = 0;
		}
		if (!len || (at + len + HEADER <= have && !alike(held + at, held + at + len) &&
			     memcmp(held + at + len, "TAG", 3))) {
			vink_count(1, 1);
			at++;
			continue;
		}
		vink_count(0, 1);
		if (vink_emit(0, held + at, len))
			return 1;
		at += len;
	}
	have -= at;
	memmove(held, held + at, have);
	return 0;
}

int32_t pod_stream(const uint8_t *bytes, uint32_t len, uint32_t flags)
{
	while (len) {
		uint32_t some = sizeof(held) - have;

		if (some > len)
			some = len;
		memcpy(held + have, bytes, some);
		have += some;
		bytes += some;
		len -= some;
		if (take_frames(0))
			return 1;
	}
	return flags & POD_END ? take_frames(1) : 0;
}
