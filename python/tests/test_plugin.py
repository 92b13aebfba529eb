"""The pytest plugin, run as users run it."""

from __future__ import annotations

import re
import shlex
import subprocess

import pytest

from vink import executable

# As docs/python.md has it.
FILE = """
import pytest


@pytest.mark.vink(time="virtual", delay="100ms", loss="1%")
def test_download(vink_lab):
    server, client = vink_lab["server"], vink_lab["client"]
    server.run("head -c 300000 /dev/urandom >file", cwd="{folder}", check=True)
    server.popen(["python3", "-m", "http.server", "80"], cwd="{folder}")
    done = client.run(["curl", "-sSf", "http://server/file"], text=False, check=True)

    assert len(done.stdout) == 300_000
    assert vink_lab.clock.seconds > 0.4
"""

pytestmark = pytest.mark.filterwarnings("error")


def run(pytester: pytest.Pytester, source: str, *arguments: str) -> pytest.RunResult:
    """Pytest in a process of its own."""
    pytester.makepyfile(source)
    return pytester.runpytest_subprocess("-p", "vink.pytest_plugin", "--strict-markers", *arguments)


def test_a_client_and_a_server(pytester: pytest.Pytester) -> None:
    result = run(pytester, FILE.format(folder=pytester.path))
    result.assert_outcomes(passed=1)
    assert not (pytester.path / ".vink").exists()


def test_seeds(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import pytest

        @pytest.fixture(scope="module")
        def seen():
            return []

        @pytest.mark.vink(loss="30%", delay="10ms", seeds=range(5))
        def test_it(vink_lab, vink_seed, seen):
            assert vink_lab.spec["seed"] == vink_seed
            seen.append(vink_lab["client"].run(["ping", "-c", "20", "-i", "0.2", "server"]).stdout)

        def test_they_differ(seen):
            assert len(set(seen)) == 5

        @pytest.mark.vink(machines=["a", "b", "c"], time="real")
        def test_others(vink_lab):
            assert vink_lab["a"].run(["ping", "-c", "1", "c"]).returncode == 0
        """,
        "-v",
    )
    result.assert_outcomes(passed=7)
    result.stdout.fnmatch_lines(["*::test_it[[]seed=0[]] PASSED*", "*::test_it[[]seed=4[]] PASSED*"])


def test_lab_files(pytester: pytest.Pytester) -> None:
    (pytester.path / "lab.yaml").write_text(
        "machines:\n  a: {interfaces: {eth0: {wire: w1, addresses: [10.0.0.1/24]}}}\n"
        "  b: {interfaces: {eth0: {wire: w1, addresses: [10.0.0.2/24]}}}\nwires: {w1: {}}\n"
    )
    result = run(
        pytester,
        """
        import pytest

        pytestmark = pytest.mark.vink(lab="lab.yaml", delay="1s")

        def test_it(vink_lab):
            assert "time=2000 ms" in vink_lab["a"].run(["ping", "-c", "4", "b"]).stdout

        @pytest.mark.vink(delay="5ms")
        def test_nearer_mark(vink_lab):
            assert "time=10.0 ms" in vink_lab["a"].run(["ping", "-c", "2", "b"]).stdout

        @pytest.mark.vink(dealy="5ms")
        def test_mistake(vink_lab):
            pass
        """,
    )
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*Error: a wire has no setting dealy; it has *"])


def test_a_failure_is_repeated(pytester: pytest.Pytester) -> None:
    source = """
        import pytest

        @pytest.mark.vink(delay="10ms", loss="10%", seeds=[7])
        def test_it(vink_lab):
            vink_lab["server"].popen(["sleep", "1000"])
            lost = vink_lab["client"].run(["ping", "-c", "20", "server"]).stdout
            vink_lab.until("60s")
            assert "received, 0% packet loss" in lost, "it is lossy"
        """
    result = run(pytester, source)
    result.assert_outcomes(failed=1)
    said = result.stdout.str()
    command = re.search(r"^the run is recorded, and repeats: (.*)$", said, re.MULTILINE)
    assert command, said
    words = shlex.split(command[1])
    assert words[0] in ("vink", executable())
    assert words[2].endswith("/.vink/test_a_failure_is_repeated.py-test_it-seed=7")
    repeated = subprocess.run([executable(), *words[1:]], capture_output=True, text=True, check=False)
    assert repeated.returncode == 0, repeated
    assert "the run repeats" in repeated.stdout
    # What is kept is of the last run.
    run(pytester, source).assert_outcomes(failed=1)
    repeated = subprocess.run([executable(), *words[1:]], capture_output=True, text=True, check=False)
    assert repeated.returncode == 0, repeated


def test_a_failure_by_the_hosts_clock(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import pytest

        @pytest.mark.vink(time="real")
        def test_it(vink_lab):
            vink_lab["client"].run("true")
            assert False

        @pytest.mark.vink(record=False)
        def test_other(vink_lab):
            assert False
        """,
    )
    result.assert_outcomes(failed=2)
    found = re.findall(r"^what happened is recorded: (.*)$", result.stdout.str(), re.MULTILINE)
    assert len(found) == 1
    text = subprocess.run(shlex.split(found[0]), capture_output=True, text=True, check=True).stdout
    assert 'execve("/usr/bin/true"' in text or "true" in text
