"""Labs, machines and programs as Python objects."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from conftest import two

import vink
from vink import control

# A process that has a lab, tells its control process, and waits.
WAITS = """
import os, sys, time, vink
with vink.Lab(time="virtual") as lab:
    lab.client
    print(lab.runtime, lab.client.version().pid, flush=True)
    {what}
"""


def test_run_is_as_subprocess(lab: vink.Lab) -> None:
    done = lab["a"].run(["sh", "-c", "echo out; echo error >&2; exit 3"])
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "error\n")
    assert lab["a"].run("hostname").stdout == "a\n"
    assert lab["b"].run(["cat"], input="text").stdout == "text"
    assert lab["b"].run(["cat"], input=b"\xff" * 300_000, text=False).stdout == b"\xff" * 300_000
    assert lab["a"].run(["sh", "-c", "kill -9 $$"]).returncode == -signal.SIGKILL
    assert lab["a"].run(["printenv", "KEY"], env={"KEY": "value"}).stdout == "value\n"
    assert lab["a"].run(["pwd"], cwd="/usr").stdout == "/usr\n"
    with pytest.raises(subprocess.CalledProcessError, match="status 3"):
        lab["a"].run(["sh", "-c", "exit 3"], check=True)
    with pytest.raises(vink.Error, match="no-such-program"):
        lab["a"].run(["no-such-program"])
    with pytest.raises(KeyError, match="no machine c; it has a, b"):
        lab["c"]


def test_timeouts_end_programs(lab: vink.Lab) -> None:
    with pytest.raises(subprocess.TimeoutExpired) as expired:
        lab["a"].run(["sh", "-c", "echo begun; while :; do :; done"], timeout=0.5)
    assert expired.value.stdout == b"begun\n"
    program = lab["a"].popen(["sh", "-c", "while :; do :; done"])
    with pytest.raises(subprocess.TimeoutExpired):
        program.wait(timeout=0.1)
    program.kill()
    assert program.wait() == -signal.SIGKILL


def test_programs_in_the_background(lab: vink.Lab) -> None:
    server = lab["b"].popen(["sh", "-c", "echo before; read line; echo $line | tr a-z A-Z; exec sleep 1000"])
    assert server.poll() is None
    server.terminate()
    assert server.wait() == -signal.SIGTERM
    fast = lab["b"].popen(["sh", "-c", "sleep 3600; echo done; exit 4"])
    assert fast.wait() == 4
    assert fast.output == "done\n"
    assert lab.clock.seconds >= 3600
    assert b"".join(lab["b"].popen("echo followed").follow()) == b"followed\n"


def test_time_is_virtual(lab: vink.Lab) -> None:
    done = lab["a"].run(["ping", "-c", "3", "-q", "b"], check=True)
    assert "min/avg/max/mdev = 200.000/" in done.stdout
    assert lab.until("1h").seconds == 3600
    assert lab.step(0.5).nanoseconds == 3600_500_000_000
    sleeper = lab["a"].popen(["sleep", "10"])
    assert lab.until(ended=sleeper).nanoseconds == 3610_500_000_000
    assert lab.pause().state == "paused"
    assert lab.resume().state == "standing"


def test_the_hosts_clock() -> None:
    with vink.Lab({"machines": {"a": {}}}) as lab:
        program = lab["a"].popen(["sh", "-c", "exit 5"])
        assert program.wait(timeout=30) == 5
        server = lab["a"].popen([sys.executable, "-m", "http.server", "80"])
        lab["a"].wait_for_port(80)
        assert lab["a"].run(["curl", "-sSf", "http://127.0.0.1/"]).returncode == 0
        server.send_signal(signal.SIGINT)
        server.wait(timeout=30)


def test_lab_files(tmp_path: Path) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text(
        "machines:\n  a: {interfaces: {eth0: {wire: w1, addresses: [10.0.0.1/24]}}}\n"
        "  b: {interfaces: {eth0: {wire: w1, addresses: [10.0.0.2/24]}}}\nwires: {w1: {delay: 5ms}}\n"
    )
    with vink.Lab(file, time="virtual", seed=3) as lab:
        assert lab.name == "lab"
        assert lab.folder == tmp_path
        assert "time=10.0 ms" in lab["a"].run(["ping", "-c", "2", "b"]).stdout
        assert lab.client.spec("lab")["seed"] == 3
    file.write_text("machines:\n  a: {interfaces: {eth0: {wire: w1, adresses: [10.0.0.1/24]}}}\n")
    with pytest.raises(vink.LabFileError, match=r"lab.yaml:2:\d+: .*adresses"):
        vink.Lab(file)
    with pytest.raises(vink.LabFileError, match=r"none\.yaml"):
        vink.Lab(tmp_path / "none.yaml")


def test_described_in_python() -> None:
    lab = vink.Lab(time="virtual", seed=1)
    a, r, b = lab.machine("a"), lab.machine("r", forward=True), lab.machine("b")
    first = lab.wire(a, r, delay=0.01)
    lab.wire(r, b, delay="20ms", rate="10mbit")
    lab.wire("b:lan", network="192.168.7.0/24", name="lan", up=False)
    a.route("default", via="10.0.0.2")
    b.route("default", via="10.0.1.1")
    b.program("web", ["python3", "-m", "http.server", "80"], ready={"port": 80})
    with lab:
        assert a.run(["curl", "-sSf", "http://10.0.1.2/"], check=True).stdout
        assert [each.name for each in b.status().interfaces] == ["eth0", "lan"]
        assert b.status().interfaces[1].addresses == ["192.168.7.1/24"]
        first.set(delay="50ms")
        first.set(from_="a:eth0", loss=0.5)
        assert first.status().settings == {"delay": "50ms"}
        first.plug(False)
        assert not first.status().up
        lab.machine("late")
        lab.wire("late", a)
        assert "machine late" in [change.object for change in lab.apply()]
        assert lab["late"].run(["ping", "-c", "1", "a-eth1"]).returncode == 0


def test_notebooks_show_it() -> None:
    lab = vink.Lab(name="shown")
    lab.wire(lab.machine("a"), lab.machine("b"), loss="1%", name="<w>")
    shown = lab._repr_html_()
    assert "vink.Lab shown: not up" in shown
    assert "<td>a</td><td>eth0 10.0.0.1/24</td>" in shown
    assert "<td>&lt;w&gt;</td><td>a:eth0, b:eth0</td><td>loss 1%</td>" in shown
    many = vink.Table({"x": range(100)})._repr_html_()
    assert many.count("<td>") == 20
    assert "100 rows" in many


def test_an_empty_lab_grows() -> None:
    with vink.Lab(time="virtual") as lab:
        lab.machine("a")
        lab.apply()
        assert lab["a"].run(["sleep", "100"]).returncode == 0
        assert lab.clock.seconds >= 100


def test_mistakes_leave_nothing() -> None:
    lab = vink.Lab(time="virtual")
    lab.wire(lab.machine("a"), lab.machine("b"), loss="much")
    with pytest.raises(vink.RefusedError) as refused:
        lab.up()
    assert refused.value.paths
    assert not lab.is_up
    with pytest.raises(vink.NotFoundError, match="lab lab is not up"):
        lab.clock  # noqa: B018


def test_labs_of_one_name_at_once() -> None:
    with two() as one, two() as other:
        assert one.name == other.name
        assert one.runtime != other.runtime
        one["a"].run(["ip", "link", "set", "eth0", "down"], check=True)
        assert other["a"].run(["ping", "-c", "1", "b"]).returncode == 0
    results: list[str] = []
    threads = [threading.Thread(target=lambda: results.append(pinged())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    assert len(set(results)) == 1


def pinged() -> str:
    with two() as lab:
        return lab["a"].run(["ping", "-c", "5", "b"]).stdout


def test_the_users_own_labs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VINK_RUNTIME", str(tmp_path / "run"))
    subprocess.run([vink.executable(), "lab", "up", "--name", "mine"], cwd=tmp_path, check=True)
    try:
        with vink.Lab.of("mine") as lab:
            lab.client.add_machine("mine", vink.api.NewMachine(name="m1"))
        assert [each.name for each in vink.client().labs()] == ["mine"]
        with vink.Lab.of("mine") as lab:
            assert lab["m1"].run("hostname").stdout == "m1\n"
        with pytest.raises(vink.NotFoundError, match="no lab other"):
            vink.Lab.of("other")
    finally:
        subprocess.run([vink.executable(), "lab", "down", "mine"], check=True)
    with pytest.raises(vink.NotFoundError):
        vink.Lab.of("mine")


@pytest.mark.parametrize(
    ("what", "number", "code"),
    [
        ("time.sleep(1000)", signal.SIGINT, -signal.SIGINT),
        ('lab.machine("a"); lab.apply(); lab["a"].run("while :; do :; done")', signal.SIGINT, -signal.SIGINT),
        ("time.sleep(1000)", signal.SIGKILL, -signal.SIGKILL),
        ("time.sleep(1000)", signal.SIGTERM, -signal.SIGTERM),
        ("raise ValueError", None, 1),
        ("os._exit(0)", None, 0),
    ],
    ids=["interrupted", "interrupted-in-run", "killed", "terminated", "raises", "exits"],
)
def test_nothing_is_left_behind(what: str, number: int | None, code: int, tmp_path: Path) -> None:
    with subprocess.Popen(
        ["env", "--default-signal", sys.executable, "-c", WAITS.format(what=what)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as process:
        assert process.stdout
        folder, pid = process.stdout.readline().split()
        daemon = os.pidfd_open(int(pid))
        if number is not None:
            process.send_signal(number)
        assert process.wait(60) == code
    # It is readable when the process has gone, which may be after its owner.
    assert select.select([daemon], [], [], 60)[0] == [daemon]
    os.close(daemon)
    assert not Path(folder).exists()


def test_forks_have_control_processes_of_their_own() -> None:
    with two() as lab:
        child = os.fork()
        if child == 0:
            # The parent's is not ended by this process's end, and not used by it.
            try:
                with two() as other:
                    good = other.runtime != lab.runtime and other["a"].run("hostname").stdout == "a\n"
                control.pool.end()
                os._exit(0 if good else 1)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert lab["a"].run("hostname").stdout == "a\n"
