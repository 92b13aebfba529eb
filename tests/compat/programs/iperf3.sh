# iperf3: TCP over IPv4 and IPv6, backwards, with sendfile; UDP at a rate; bytes counted at both ends.
# packages: iperf3 python3
# listens: tcp/5201
# short

server() {
	exec iperf3 -s
}

client() {
	# The server may not be back from the test before.
	tested() { iperf3 -J -c "$@" >report.json && ! grep '"error":' report.json >/dev/null; }
	measure() {
		echo "iperf3 $*"
		eventually tested "$@"
		python3 - <<-'END'
			import json
			end = json.load(open("report.json"))["end"]
			total = end.get("sum") or end["sum_sent"]
			print("sent", total["bytes"] >> 22, "times 4 MB, 4000 packets or more:", total.get("packets", 0) > 4000)
			if "sum_received" in end:
			    print("half of them received or more:", end["sum_received"]["bytes"] * 2 >= total["bytes"])
		END
	}
	measure "$SERVER" -n 64M
	measure "$SERVER6" -n 64M -P 1 -Z
	measure "$SERVER" -n 16M -R
	measure "$SERVER" -u -b 100M -n 4M -l 1000
	measure "$SERVER6" -u -b 100M -n 4M -l 1000 -R
}
