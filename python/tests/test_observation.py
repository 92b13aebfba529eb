"""Breakpoints with handlers, series as tables, captures as files."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pyarrow
import pytest
from conftest import two

import vink


def test_breakpoint_without_handler(lab: vink.Lab) -> None:
    with lab.breakpoint("b", on="arrival", filter="icmp", drop=True, times=1) as dropped:
        done = lab["a"].run(["ping", "-c", "3", "b"])
        assert "3 packets transmitted, 2 received" in done.stdout
        assert dropped.hits == 1
    assert lab.client.breakpoints(lab.name).breakpoints == []
    assert "0% packet loss" in lab["a"].run(["ping", "-c", "3", "b"]).stdout


def test_handlers_are_called_while_the_lab_stands(lab: vink.Lab) -> None:
    seen: list[tuple[str, int, str, int]] = []

    def slower(hit: vink.Hit) -> None:
        seen.append((hit.name, hit.number, hit.packet.end, hit.lab.clock.kernel_nanoseconds - hit.packet.nanoseconds))
        hit.lab.client.change_wire(hit.lab.name, "w1", vink.api.ChangeWire(settings={"delay": "300ms"}))

    lab.breakpoint("a:eth0", slower, name="slow", filter="icmp[0] == 8", times=2)
    done = lab["a"].run(["ping", "-c", "3", "b"], check=True)
    # Reached by name at first, so the address is known: each way has the delay that the handler sets.
    assert "rtt min/avg/max/mdev = 600.000/" in done.stdout
    assert seen == [("slow", 1, "a:eth0", 0), ("slow", 2, "a:eth0", 0)]


def test_the_clock_goes_on_behind_handlers(lab: vink.Lab) -> None:
    met: list[int] = []
    lab.breakpoint("a:eth0", lambda hit: met.append(hit.number), filter="icmp[0] == 8")
    pings = lab["a"].popen(["ping", "-c", "20", "b"])
    assert lab.until("5s").nanoseconds == 5_000_000_000
    assert len(met) >= 4
    before = lab.clock.nanoseconds
    assert lab.step(3).nanoseconds == before + 3_000_000_000
    lab.until(ended=pings)
    assert pings.poll() == 0
    assert met == list(range(1, 21))


def test_a_stop_without_handler_ends_until(lab: vink.Lab) -> None:
    lab.breakpoint("a:eth0", lambda hit: None, filter="icmp[0] == 8")
    stop = lab.breakpoint("b:eth0", on="arrival", filter="icmp", after=1, times=1)
    lab["a"].popen(["ping", "-c", "5", "b"])
    assert lab.until("60s").state == "stopped"
    assert 1 < lab.clock.seconds < 2
    assert stop.hits == 1
    lab.resume()
    assert lab.until("60s").seconds == 60


def test_what_a_handler_raises() -> None:
    def fails(hit: vink.Hit) -> None:
        raise ValueError(hit.packet.summary)

    with two() as lab:
        lab.breakpoint("a:eth0", fails, filter="icmp", times=1)
        with pytest.raises(ValueError, match="ICMP echo request"):
            lab["a"].run(["ping", "-c", "2", "b"])
        assert lab["a"].run(["ping", "-c", "2", "b"]).returncode == 0

    def unseen() -> None:
        with two() as lab:
            lab.breakpoint("a:eth0", fails, filter="icmp", times=1)
            lab["a"].popen(["ping", "-c", "1", "b"])
            # Not by `lab.until`, which would raise it.
            while lab.client.run_clock(lab.name, vink.api.RunClock(until="5s")).seconds < 5:
                pass

    with pytest.raises(ValueError, match="ICMP"):
        unseen()


def test_series(lab: vink.Lab) -> None:
    flow = lab.series("flow", every="100ms", values={"sent": "interface a:eth0 tx_packets", "none": "tcp a snd_cwnd"})
    lab["a"].run(["ping", "-c", "3", "b"], check=True)
    table = flow.table()
    assert set(table.columns) == {"time", "sent", "none"}
    assert len(table) == len(table["sent"]) > 20
    steps = {round(after - before, 9) for before, after in zip(table["time"], table["time"][1:], strict=False)}
    assert steps == {0.1}
    assert table["sent"] == sorted(table["sent"])
    assert set(table["none"]) == {None}
    assert flow.stop().rows >= len(table)
    frame = flow.table().pandas()
    assert list(frame.columns) == ["time", "sent", "none"]
    assert frame["sent"].iloc[-1] >= 4
    arrow = flow.table().arrow()
    assert arrow.schema.field("sent").type == pyarrow.float64()
    assert next(iter(table.rows()))["time"] == table["time"][0]
    with pytest.raises(KeyError, match="no series other"):
        lab.series("other")


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_tables_are_files(ending: str, tmp_path: Path) -> None:
    table = vink.Table({"x": [1.0, 2.0], "y": [None, 0.5]})
    file = tmp_path / f"table.{ending}"
    table.write(file)
    assert vink.Table.read(file) == table
    first = file.read_bytes()
    table.write(file)
    assert file.read_bytes() == first


def test_series_of_a_lab_file(tmp_path: Path) -> None:
    spec = {
        "machines": {"a": {}},
        "series": {
            "s": {"every": "1s", "values": {"n": "proc a /proc/net/sockstat sockets: used"}, "file": "s.parquet"}
        },
    }
    with vink.Lab(spec, time="virtual", folder=tmp_path) as lab:
        series = lab.series("s")
        lab.until("10s")
    assert len(series.table()) in (10, 11)


def test_captures(lab: vink.Lab, tmp_path: Path) -> None:
    file = tmp_path / "out.pcapng"
    with lab.capture(file, "a:eth0", filter="icmp") as capture:
        lab["a"].run(["ping", "-c", "3", "b"], check=True)
    listed = subprocess.run(["tcpdump", "-nr", file], check=True, capture_output=True, text=True)
    assert listed.stdout.count("ICMP echo request") == 3
    assert capture.status.written == len(listed.stdout.splitlines())
    with lab.capture(tmp_path / "all.pcapng") as everything:
        lab["a"].run(["ping", "-c", "1", "b"], check=True)
    assert everything.status.interfaces == ["a:eth0", "b:eth0"]


def test_events(lab: vink.Lab) -> None:
    events = lab.events("a:eth0")
    lab["a"].popen(["ping", "-c", "100", "b"])
    lab.client.change_clock(lab.name, vink.api.ChangeClock(free=True))
    # Some pings may have gone before the events began: the first packet may be an answer.
    packet = next(event for event in events if event.kind == "packet" and event.what == "departure")
    assert packet.end == "a:eth0"
    assert packet.summary
