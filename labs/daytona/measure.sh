#!/bin/sh
# Downloads a megabyte by each receiver from each sender, and draws how it went.
# usage: measure.sh [FOLDER]     (the lab must be up)
set -eu
out=${1:-.}
vink=${VINK:-vink}
senders="old today defended"
receivers="honest divider spoofer spoofer-sack optimist"

# One download of a capture: when, up to which byte data came, up to which it was acknowledged.
sequence() { # receiver sender's-address
	tcpdump -n -tt -r "$out/$1.pcapng" "host $2 and tcp" 2>/dev/null | awk '
		BEGIN { print "seconds,data,acked" }
		!begin { begin = $1 }
		{
			data = acked = ""
			if ($3 ~ /\.80$/ && match($0, /seq [0-9]+:[0-9]+/)) {
				split(substr($0, RSTART + 4, RLENGTH - 4), of, ":")
				data = of[2]
			} else if ($3 !~ /\.80$/ && match($0, /ack [0-9]+/)) {
				acked = substr($0, RSTART + 4, RLENGTH - 4)
			}
			if (data acked != "") printf "%.6f,%s,%s\n", $1 - begin, data, acked
		}'
}

printf '%-13s' ""
for sender in $senders; do
	mkdir -p "$out/$sender"
	printf '%10s' "$sender"
done
echo
for receiver in $receivers; do
	printf '%-13s' "$receiver"
	rm -f "$out/$receiver.pcapng"
	"$vink" capture --lab daytona -s 128 -w "$out/$receiver.pcapng" "$receiver" eth0 'tcp port 80' 2>"$out/$receiver.log" &
	capture=$!
	# It has begun when the file does.
	until [ -s "$out/$receiver.pcapng" ]; do
		kill -0 $capture 2>/dev/null || { cat "$out/$receiver.log" >&2; exit 1; }
		sleep 0.1
	done
	for sender in $senders; do
		# The same unmodified program each time. What was acknowledged before it was lost never comes.
		"$vink" exec --lab daytona "$receiver" -- curl -sS --max-time 60 -o /dev/null -w '%{size_download}\n' \
			"http://$sender/file" >"$out/$sender/$receiver.bytes" 2>"$out/$sender/$receiver.error" || true
	done
	kill -INT $capture
	wait $capture || true
	number=0
	for sender in $senders; do
		number=$((number + 1))
		csv=$out/$sender/$receiver.csv
		sequence "$receiver" "10.1.$number.1" >"$csv"
		if [ "$(cat "$out/$sender/$receiver.bytes")" = 1000000 ]; then
			# From the first packet until 99 % had come: a last small segment may wait for an ACK (Nagle).
			printf '%9.2fs' "$(awk -F, '$2 + 0 >= 990000 { print $1; exit }' "$csv")"
		else
			printf '%10s' refused
		fi
	done
	echo
done
for sender in $senders; do
	files=
	for receiver in $receivers; do files="$files $out/$sender/$receiver.csv"; done
	# shellcheck disable=SC2086 # several words
	"$vink" plot $files --y data --style points --unit bytes --title "Data received: sender $sender" -o "$out/$sender.svg"
done
# The three attacks where they work: data, and what was said about it.
for attack in old/divider today/spoofer today/optimist; do
	"$vink" plot "$out/$attack.csv" "$out/${attack%/*}/honest.csv" --y data --y acked --style points --unit bytes \
		--title "Received and acknowledged: ${attack#*/} against ${attack%/*}" -o "$out/${attack#*/}.svg"
done
