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


def test_handlers_decide_about_packets(lab: vink.Lab) -> None:
    """Pings 1 to 4: lost, late, other bytes, refused bytes."""
    refused: list[str] = []

    def decide(hit: vink.Hit) -> None:
        frame = hit.frame
        assert frame is not None
        assert len(frame) == hit.packet.length
        if hit.number == 1:
            hit.drop()
        elif hit.number == 2:
            hit.delay(1.5)
        elif hit.number == 3:
            # ICMP's last byte.
            hit.replace(frame[:-1] + b"!")
        else:
            with pytest.raises(vink.RefusedError) as error:
                hit.replace(frame[:13], checksums=False)
            refused.append(error.value.error)

    seen = lab.breakpoint("b:eth0", on=["arrival"], filter="icmp[0] == 8 and icmp[63] == 0x21", log=True)
    lab.breakpoint("a:eth0", decide, filter="icmp[0] == 8")
    said = lab["a"].run(["ping", "-c", "4", "-i", "2", "-W", "4", "10.0.0.2"]).stdout
    assert "4 packets transmitted, 3 received" in said
    # 100 ms each way, and 1.5 s.
    assert "icmp_seq=2 ttl=64 time=1700 ms" in said
    assert "icmp_seq=3 ttl=64 time=200 ms\nwrong data byte #55 should be 0x37 but was 0x21" in said
    assert "icmp_seq=4 ttl=64 time=200 ms" in said
    assert seen.hits == 1
    assert refused
    assert "14 to 65535 bytes" in refused[0]


def test_a_stream_whose_bytes_a_handler_changes() -> None:
    """On an ideal wire segments are whole and have no checksum; a handler sees frames. None overtakes another one."""
    lab = vink.Lab(time="virtual", seed=1)
    lab.wire("a", "b")
    changed: list[int] = []

    def upper(hit: vink.Hit) -> None:
        frame = hit.frame or b""
        assert len(frame) <= 1514
        if b"x" in frame[66:]:
            changed.append(hit.number)
            hit.replace(frame[:66] + frame[66:].replace(b"x", b"X"))

    with lab:
        server = lab["b"].popen(["sh", "-c", "nc -l -N -p 80 </dev/null >got"], cwd=str(folder := lab.runtime))
        lab["b"].wait_for_port(80)
        lab.breakpoint("a:eth0", upper, filter="tcp dst port 80")
        lab["a"].run("head -c 20000 /dev/zero | tr '\\0' x | nc -N 10.0.0.2 80", check=True)
        assert server.wait() == 0
        got = (folder / "got").read_bytes()
    assert got == b"X" * 20000
    assert len(changed) >= 14


def test_no_decision_without_a_packet(lab: vink.Lab) -> None:
    hits: list[vink.Hit] = []
    lab.breakpoint("a:eth0", hits.append, filter="icmp", times=1, name="once")
    lab["a"].run(["ping", "-c", "1", "b"], check=True)
    with pytest.raises(vink.RefusedError, match="no packet waits for hit 1 of breakpoint once"):
        hits[0].drop()
    with pytest.raises(vink.RefusedError, match="hexadecimal"):
        lab.client.decide_packet(lab.name, "once", vink.api.PacketVerdict(number=1, frame="0g"))


def test_a_recording_has_what_was_decided(tmp_path: Path) -> None:
    lab = two(record=tmp_path / "recording")
    with lab:
        lab.breakpoint("a:eth0", lambda hit: hit.delay(0.5), filter="icmp[0] == 8", times=1)
        # 200 ms for ARP, 200 for the echo, and 500.
        assert "time=900 ms" in lab["a"].run(["ping", "-c", "1", "10.0.0.2"]).stdout
    replay: list[str | Path] = [vink.executable(), "replay", tmp_path / "recording"]
    done = subprocess.run(replay, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the run repeats" in done.stdout
