"""Sweeps: over threads, processes and a cluster, interrupted, with failures."""

from __future__ import annotations

import json
import os
import select
import signal
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import distributed
import pytest

import vink
from vink import control

LOSSES = ["0%", "10%", "20%", "40%"]


def pings(seed: int, loss: str) -> Mapping[str, Any]:
    """Twenty pings over a lossy wire."""
    lab = vink.Lab(time="virtual", seed=seed)
    lab.wire(lab.machine("a"), lab.machine("b"), delay="50ms", loss=loss)
    with lab:
        said = lab["a"].run(["ping", "-c", "20", "-i", "0.2", "-q", "b"]).stdout
        return {"received": int(said.split(" received")[0].split()[-1]), "seconds": lab.clock.seconds}


def product(seed: int, factor: int) -> int:
    """No lab at all."""
    return seed * factor


def of_three(seed: int) -> int:
    """Fails with a seed."""
    if seed == 3:
        raise ValueError("three")
    return seed


def daemons() -> tuple[int, list[int]]:
    """This process, and its control processes."""
    return os.getpid(), [each.process.pid for each in control.pool.all]


def test_a_cluster_loses_a_worker(tmp_path: Path) -> None:
    there, here = tmp_path / "there.parquet", tmp_path / "here.parquet"
    killed: list[int] = []
    with (
        distributed.LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):

        def tell(done: int, total: int) -> None:
            assert total == 200
            if done == 60:
                worker, its_own = next(found for found in client.run(daemons).values() if found[1])
                killed.extend(os.pidfd_open(pid) for pid in its_own)
                os.kill(worker, signal.SIGKILL)

        table = vink.sweep(
            pings,
            parameters={"loss": LOSSES},
            seeds=range(50),
            output=there,
            executor=client.get_executor(),
            progress=tell,
        )
    # The labs of the worker that was killed have gone with it.
    assert killed
    for daemon in killed:
        assert select.select([daemon], [], [], 60)[0]
        os.close(daemon)
    assert len(table) == 200
    assert [(row["loss"], row["seed"]) for row in table.rows()] == [
        (loss, seed) for loss in LOSSES for seed in range(50)
    ]
    assert set(table["received"][:50]) == {20}
    assert 0 < sum(table["received"][150:]) < 50 * 15
    with ThreadPoolExecutor(1) as one:
        vink.sweep(pings, parameters={"loss": LOSSES}, seeds=range(50), output=here, executor=one)
    assert here.read_bytes() == there.read_bytes()
    assert vink.Table.read(here) == table


def test_on_this_machine() -> None:
    table = vink.sweep(product, parameters={"factor": [1, 10]}, seeds=range(3), progress=False)
    assert table.columns == {
        "factor": [1, 1, 1, 10, 10, 10],
        "seed": [0, 1, 2, 0, 1, 2],
        "result": [0, 1, 2, 0, 10, 20],
    }
    assert vink.sweep(pings, parameters={"loss": ["0%"]}, seeds=range(4))["received"] == [20] * 4


def test_it_goes_on(tmp_path: Path) -> None:
    output, part = tmp_path / "out.jsonl", tmp_path / "out.jsonl.part"
    calls: list[int] = []

    def counted(seed: int) -> int:
        calls.append(seed)
        return seed * seed

    def interrupts(done: int, total: int) -> None:
        if done == 5:
            raise KeyboardInterrupt

    with ThreadPoolExecutor(1) as one:
        with pytest.raises(KeyboardInterrupt):
            vink.sweep(counted, seeds=range(1000, 1020), output=output, executor=one, progress=interrupts)
        # The one that was under way may be done after that, which is not known any more.
        one.submit(len, "").result()
        assert len(part.read_text().splitlines()) == 1 + 5
        calls.clear()
        # As if the machine had failed while a line was written.
        with part.open("a") as file:
            file.write("[7, {")
        with pytest.raises(vink.Error, match="of a sweep with other parameters"):
            vink.sweep(counted, seeds=range(10), output=output, executor=one)
        seen: list[int] = []
        table = vink.sweep(
            counted, seeds=range(1000, 1020), output=output, executor=one, progress=lambda done, _: seen.append(done)
        )
    assert len(calls) == 15
    assert seen == list(range(6, 21))
    assert table["result"] == [seed * seed for seed in range(1000, 1020)]
    assert [json.loads(line)["seed"] for line in output.read_text().splitlines()] == list(range(1000, 1020))
    assert not part.exists()
    with pytest.raises(vink.Error, match="is there already"):
        vink.sweep(counted, output=output)


def test_failures_come_last(tmp_path: Path) -> None:
    output = tmp_path / "out.csv"
    with ThreadPoolExecutor(1) as one:
        with pytest.raises(vink.SweepError, match=r"1 of 6 runs failed, .*'seed': 3.*ValueError.*three") as raised:
            vink.sweep(of_three, seeds=range(6), output=output, executor=one)
        assert [values for values, _ in raised.value.failures] == [{"seed": 3}]
        assert not output.exists()
        assert len((tmp_path / "out.csv.part").read_text().splitlines()) == 1 + 5


def test_a_lab(tmp_path: Path) -> None:
    lab = vink.Lab(time="virtual", folder=tmp_path)
    lab.wire(lab.machine("a"), lab.machine("b"))
    lab["a"].program("ping", app="ping -c 10 10.0.0.2")
    table = vink.sweep(lab, parameters={"w1.loss": ["0%", "50%"]}, seeds=range(3), until="1min")
    assert table["w1.loss"] == ["0%"] * 3 + ["50%"] * 3
    assert table["a.ping.code"][:3] == [0] * 3
    received = table["a.ping.received"]
    assert received[:3] == [10] * 3
    assert all(count < 10 for count in received[3:])
    with pytest.raises(vink.Error, match="how long a run lasts"):
        vink.sweep(lab)
