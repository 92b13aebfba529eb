#!/bin/sh
# Sends with CUBIC over one wire and with BBR over the other for SECONDS, and draws both.
# usage: measure.sh [SECONDS [FOLDER]]     (the lab must be up)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
seconds=${1:-10}
out=${2:-.}
vink=${VINK:-vink}

one() { # congestion-control server
	"$vink" exec --lab lossy-wan east -- python3 "$here/../sample.py" --seconds "$seconds" \
		--congestion "$1" --server "$2" >"$out/$1.csv" 2>"$out/$1.rate"
}

one cubic 10.1.0.2 &
one bbr 10.2.0.2 &
wait
"$vink" plot "$out/cubic.csv" "$out/bbr.csv" --y acked --unit bytes \
	--title "Delivered over 50 Mbit/s, 40 ms, 1 % loss" -o "$out/delivered.svg"
"$vink" plot "$out/cubic.csv" "$out/bbr.csv" --y cwnd --unit segments \
	--title "Congestion window" -o "$out/cwnd.svg"
for name in cubic bbr; do
	printf '%-6s %s\n' "$name" "$(tail -n 1 "$out/$name.rate")"
done
