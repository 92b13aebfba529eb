#!/bin/sh
# First the radio of the lab, whose three tiers are kept. Then the same stream with less and less of a processor:
# 1 is what all tiers need, at 4 there is a quarter of it. What each tier gets is drawn, and so is one run by time.
# usage: measure.sh [FOLDER]     (the lab must be up)
set -eu
out=$(cd "${1:-.}" && pwd)
vink=${VINK:-vink}

listen() { # port folder
	"$vink" exec --lab transcoder listener -- sh -c "for tier in gold silver bronze; do
		curl -sS -o '$2/'\$tier.mp3 http://10.0.1.1:$1/\$tier &
	done; wait"
}

in_time() { # tier: in hundredths of what was offered
	sed -n "s/.*\"$1\":{\"offered\":\([0-9]*\),\"delivered\":\([0-9]*\),.*/\2 \1/p" "$out/run.txt" |
		awk '{ print 100 * $1 / $2 }'
}

listen 8000 "$out"
"$vink" lab logs --lab transcoder transcoder.radio | tee "$out/radio.txt"

# What all tiers need of a processor, of which 95 % are given away.
all=$(awk '/^(gold|silver|bronze): / { sum += $(NF - 3) } END { print sum / 26122.449 / 0.95 * 100 }' "$out/radio.txt")
echo "all tiers need $all % of a processor"

# What was spent on a tier, in hundredths of what the stream had.
spent() { # tier share
	seconds=$(sed -n 's/^seconds: //p' "$out/run.txt")
	sed -n "s/.*\"$1\":{[^}]*\"time\":\([^,]*\),.*/\1/p" "$out/run.txt" |
		awk "{ print 10000 * \$1 / ($2 * $seconds) }"
}

mkdir -p "$out/short"
echo overload,gold,silver,bronze,gold_spent >"$out/overload.csv"
for overload in 1 1.25 1.5 1.75 2 2.5 3 3.5 4; do
	share=$(awk "BEGIN { print $all / $overload }")
	"$vink" shell --lab transcoder -c "exec transcoder app stream -p 8001 -n 3 -c $share% \
http://10.0.0.1/music.mp3 gold silver bronze" >"$out/run.txt" &
	run=$!
	# One of them by time, too.
	[ $overload != 1.5 ] || "$vink" series add --lab transcoder --every 500ms -o "$out/tiers.csv" \
		gold='rate app transcoder stream tiers.gold.delivered' \
		silver='rate app transcoder stream tiers.silver.delivered' \
		bronze='rate app transcoder stream tiers.bronze.delivered' >"$out/log"
	until "$vink" exec --lab transcoder listener -- nc -z 10.0.1.1 8001; do :; done
	listen 8001 "$out/short"
	wait $run || {
		cat "$out/run.txt" >&2
		exit 1
	}
	[ $overload != 1.5 ] || "$vink" series rm --lab transcoder tiers >"$out/log"
	echo "$overload,$(in_time gold),$(in_time silver),$(in_time bronze),$(spent gold "$share")" >>"$out/overload.csv"
done
cat "$out/overload.csv"
"$vink" plot "$out/tiers.csv" --y gold --y silver --y bronze --unit /s \
	--title "Units a second that left in time, at 1.5" -o "$out/tiers.svg"
"$vink" plot "$out/overload.csv" --x overload --y gold --y silver --y bronze --unit % \
	--title "Units that left in time, by overload" -o "$out/overload.svg"
