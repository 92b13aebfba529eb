#!/bin/sh
# Makes what the lab needs, in its folder or in OUT: the pods, and SECONDS of music as an MP3 of 256 kbit/s.
# usage: build.sh [SECONDS [OUT]]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
seconds=${1:-10}
out=${2:-$here}
tree=$here/../..

pod() { # name library...
	name=$1
	shift
	cc -O2 -shared -fPIC -I "$tree/include" -o "$out/$name.so" "$tree/pods/$name.c" "$@"
}
pod mp3-frames
pod mp3-decode -lmpg123
pod mp3-encode -lmp3lame

python3 "$here/music.py" "$seconds" | lame --quiet -b 256 - "$out/music.mp3"
