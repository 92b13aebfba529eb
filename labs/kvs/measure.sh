#!/bin/sh
# Requests a second of one instance and of four, with 1 and 16 requests at a time; then the same with rules that are
# replaced meanwhile.
# usage: measure.sh [SECONDS [FOLDER]]     (the lab must be up)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
seconds=${1:-2}
out=${2:-.}
vink=${VINK:-vink}

rate() { # address, requests at a time, requests
	"$vink" exec --lab kvs client -- redis-benchmark -h "$1" -t get -P "$2" -n "$3" --csv |
		sed -n 's/^"GET","\([0-9]*\).*/\1/p'
}

# Two versions of the rules: as the lab has them, and with 1,000 addresses that are refused.
awk '/type filter hook input/ {
	print
	for (i = 0; i < 1000; i++) printf "\t\tip saddr 198.18.%d.%d drop\n", i / 250, i % 250
	next
} { print }' "$here/redis.nft" >"$out/thousand.nft"

for address in 10.0.0.3 10.0.0.4; do
	for pipeline in 1 16; do
		# How many requests that is.
		some=$(rate $address $pipeline $((5000 * pipeline)))
		echo "$address, $pipeline at a time: $(rate $address $pipeline $((some * seconds))) a second"
	done
done

rate 10.0.0.4 16 $((some * seconds)) >"$out/changed" &
load=$!
changes=0
while kill -0 $load 2>/dev/null; do
	for rules in "$out/thousand.nft" "$here/redis.nft"; do
		for machine in kv1 kv2 kv3 kv4; do
			"$vink" filter set --lab kvs $machine "$rules" >"$out/log"
			changes=$((changes + 1))
		done
	done
done
wait $load
echo "10.0.0.4, 16 at a time, $changes changes of rules: $(cat "$out/changed") a second"
