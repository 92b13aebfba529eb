#!/usr/bin/env python3
"""Sends with iperf3 for some seconds and writes a CSV line ten times a second: the connection's congestion window
and round trip as ss(8) shows them, what was delivered, and a ping's round trip beside it."""

import argparse
import json
import re
import subprocess
import sys
import threading
import time


def pings(server, interval, found, stop):
    """Each answer's round trip, as ping(8) prints them."""
    ping = subprocess.Popen(
        ["ping", "-n", "-i", str(interval), server], stdout=subprocess.PIPE, text=True
    )
    threading.Thread(target=lambda: (stop.wait(), ping.terminate()), daemon=True).start()
    for line in ping.stdout:
        match = re.search(r"time=([\d.]+)", line)
        if match:
            found.append(float(match[1]))


def socket_state(server):
    """cwnd, rtt and bytes acknowledged of the connection that has sent most."""
    text = subprocess.run(
        ["ss", "-tinHO", "dst", server], capture_output=True, text=True, check=True
    ).stdout
    best = None
    for line in text.splitlines():
        acked = re.search(r"bytes_acked:(\d+)", line)
        cwnd = re.search(r"\bcwnd:(\d+)", line)
        rtt = re.search(r"\brtt:([\d.]+)", line)
        if acked and cwnd and rtt and (best is None or int(acked[1]) > best[2]):
            best = (int(cwnd[1]), float(rtt[1]), int(acked[1]))
    return best


def main():
    """The command line is the lab's script's; see there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", required=True)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--congestion", help="TCP's congestion control")
    parser.add_argument("--interval", type=float, default=0.1)
    options = parser.parse_args()

    command = ["iperf3", "-J", "-c", options.server, "-t", str(int(options.seconds))]
    if options.congestion:
        command += ["-C", options.congestion]
    found, stop = [], threading.Event()
    pinging = threading.Thread(
        target=pings, args=(options.server, options.interval, found, stop)
    )
    pinging.start()
    iperf = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    report = []
    reading = threading.Thread(target=lambda: report.append(iperf.stdout.read()))
    reading.start()
    print("time,cwnd,rtt_ms,acked,ping_ms")
    begin = time.monotonic()
    seen = most = 0
    while iperf.poll() is None:
        state = socket_state(options.server)
        ping = found[-1] if len(found) > seen else ""
        seen = len(found)
        # At the end only iperf3's connection for control is left.
        if state and state[2] >= most:
            most = state[2]
            now = time.monotonic() - begin
            print(f"{now:.3f},{state[0]},{state[1]},{state[2]},{ping}", flush=True)
        time.sleep(options.interval)
    reading.join()
    stop.set()
    pinging.join()
    result = json.loads(report[0])
    if "error" in result:
        sys.exit(f"iperf3: {result['error']}")
    received = result["end"]["sum_received"]["bits_per_second"]
    print(f"{received / 1e6:.2f} Mbit/s", file=sys.stderr)


main()
