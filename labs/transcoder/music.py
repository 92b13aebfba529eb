#!/usr/bin/env python3
"""So many seconds of chords, drums and noise, as a WAV file."""

import array
import math
import random
import sys
import wave

RATE = 44_100
CHORDS = [(220, 277, 330), (196, 247, 294), (175, 220, 262), (196, 247, 330)]

seconds = float(sys.argv[1])
random.seed(1)
samples = array.array("h")
for at in range(int(seconds * RATE)):
    time = at / RATE
    chord = CHORDS[int(time * 2) % len(CHORDS)]
    beat = math.exp(-12 * (time * 4 % 1))
    noise = random.uniform(-1, 1)
    left = sum(math.sin(2 * math.pi * tone * time) for tone in chord) / 3
    right = sum(math.sin(2 * math.pi * 1.003 * tone * time) for tone in chord) / 3
    for side in (left, right):
        samples.append(int(12_000 * side + 9_000 * beat * noise))
with wave.open(sys.stdout.buffer, "wb") as file:
    file.setparams((2, 2, RATE, len(samples) // 2, "NONE", ""))
    file.writeframes(samples.tobytes())
