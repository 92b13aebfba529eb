#!/bin/sh
# Fills the wire behind each queue for SECONDS, with a ping beside it, and draws what that does.
# usage: measure.sh [SECONDS [FOLDER]]     (the lab must be up)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
seconds=${1:-10}
out=${2:-.}
vink=${VINK:-vink}

one() { # queue server
	"$vink" exec --lab bufferbloat "client-$1" -- \
		python3 "$here/../sample.py" --seconds "$seconds" --server "$2" >"$out/$1.csv"
}

one pfifo 10.1.2.2 &
one codel 10.2.2.2 &
wait
"$vink" plot "$out/pfifo.csv" "$out/codel.csv" --y ping_ms --unit ms \
	--title "A ping beside a full wire of 10 Mbit/s" -o "$out/ping.svg"
"$vink" plot "$out/pfifo.csv" "$out/codel.csv" --y cwnd --unit segments \
	--title "CUBIC's congestion window" -o "$out/cwnd.svg"
for queue in pfifo codel; do
	awk -F, -v queue=$queue '
		NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
		$column["ping_ms"] != "" { ping[++n] = $column["ping_ms"]; }
		END {
			# by insertion: there are few
			for (i = 2; i <= n; i++)
				for (j = i; j > 1 && ping[j - 1] > ping[j]; j--) {
					t = ping[j]; ping[j] = ping[j - 1]; ping[j - 1] = t
				}
			printf "%-6s ping median %.1f ms, longest %.1f ms\n", queue, ping[int((n + 1) / 2)], ping[n]
		}' "$out/$queue.csv"
done
