"""What `make bench` measures of the package: bench.py call|sweep prints a line of figures for each line that it reads.

call: microseconds of a request. sweep: a sweep over processes beside a shell loop on each processor that does the same
by the command line: the ratio, and runs a second of each.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import vink

CALLS = 2000
RUNS = 40
LAB = """time: virtual
seed: SEED
machines:
  a: {interfaces: {eth0: {wire: w1, addresses: [10.0.0.1/24]}}}
  b: {interfaces: {eth0: {wire: w1, addresses: [10.0.0.2/24]}}}
wires: {w1: {delay: 50ms, loss: 10%}}
"""
PING = ["ping", "-c", "20", "-q", "b"]
# For a processor: every so many runs from one on; what ping says goes to a file.
LOOP = """
set -e
export VINK_RUNTIME=$PWD/run$1
for seed in $(seq "$1" "$3" "$2"); do
    sed "s/SEED/$seed/" lab.yaml >lab$1.yaml
    "$4" lab up lab$1.yaml >/dev/null
    "$4" exec a -- ping -c 20 -q b >out$seed
    "$4" lab down >/dev/null
done
"""


def run(seed: int) -> str:
    """The same as one round of the loop."""
    lab = vink.Lab(time="virtual", seed=seed)
    lab.wire(lab.machine("a"), lab.machine("b"), delay="50ms", loss="10%")
    with lab:
        return lab["a"].run(PING, check=True).stdout


def calls() -> Iterator[list[float]]:
    """A small request, again and again."""
    lab = vink.Lab(time="virtual")
    lab.machine("a")
    with lab:
        while True:
            began = time.perf_counter()
            for _ in range(CALLS):
                lab.client.machines(lab.name)
            yield [(time.perf_counter() - began) / CALLS * 1e6]


def sweeps() -> Iterator[list[float]]:
    """Both on all processors."""
    count = os.cpu_count() or 1
    with ProcessPoolExecutor(count) as executor, tempfile.TemporaryDirectory() as folder:
        # Processes are there before anything is measured; so are files that are executed.
        vink.sweep(run, seeds=range(count), executor=executor)
        while True:
            began = time.perf_counter()
            vink.sweep(run, seeds=range(RUNS), executor=executor)
            ours = RUNS / (time.perf_counter() - began)
            loops = by_shell(Path(folder), count)
            yield [ours / loops, ours, loops]


def by_shell(folder: Path, count: int) -> float:
    """Runs a second of the shell loops."""
    (folder / "lab.yaml").write_text(LAB)
    began = time.perf_counter()
    arguments = [str(RUNS - 1), str(count), vink.executable()]
    loops = [subprocess.Popen(["sh", "-c", LOOP, "loop", str(first), *arguments], cwd=folder) for first in range(count)]
    statuses = [loop.wait() for loop in loops]
    if any(statuses):
        raise RuntimeError("the shell loop failed")
    return RUNS / (time.perf_counter() - began)


def main() -> None:
    """A line for each."""
    figures = {"call": calls, "sweep": sweeps}[sys.argv[1]]()
    for _ in sys.stdin:
        print(*next(figures), flush=True)


if __name__ == "__main__":
    main()
