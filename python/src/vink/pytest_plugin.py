"""The pytest plugin: a lab for a test, repeated over seeds, and how a failure is repeated.

    @pytest.mark.vink(delay="100ms", loss="1%", seeds=range(20))
    def test_it(vink_lab): ...

Keywords of the mark: `lab` (a lab file, relative to the test's) or `machines` (names; client and server otherwise,
joined by a wire), `time` (virtual otherwise), `seeds`, `record` (True otherwise); all others are settings of each wire.

A test runs while its lab is recorded. If it fails, the recording is kept, and the report says how it is repeated.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from vink import control
from vink.lab import Lab, settings

MACHINES = ("client", "server")
# Where recordings of failed tests are kept, below pytest's root folder.
KEPT = ".vink"

failed = pytest.StashKey[bool]()
recorded = pytest.StashKey[tuple[Path, Lab]]()


def pytest_configure(config: pytest.Config) -> None:
    """Makes the mark known."""
    about = "vink(lab=, machines=, time=, seeds=, record=, **wire settings): the lab of the fixture vink_lab"
    config.addinivalue_line("markers", about)


def options(node: Any) -> dict[str, Any]:
    """What the marks of a test say; the nearest one is right."""
    merged: dict[str, Any] = {}
    for mark in reversed(list(node.iter_markers("vink"))):
        merged.update(mark.kwargs)
    return merged


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test of each seed."""
    seeds = options(metafunc.definition).get("seeds")
    if seeds is not None and "vink_seed" in metafunc.fixturenames:
        metafunc.parametrize("vink_seed", [int(seed) for seed in seeds], ids=lambda seed: f"seed={seed}")


@pytest.fixture
def vink_seed() -> int:
    """The seed of the test's lab."""
    return 1


@pytest.fixture
def vink_lab(request: pytest.FixtureRequest, vink_seed: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab as the test's mark describes it, which runs."""
    said = options(request.node)
    said.pop("seeds", None)
    file = said.pop("lab", None)
    machines = said.pop("machines", MACHINES)
    time = said.pop("time", "virtual")
    record = said.pop("record", True)
    folder = tmp_path_factory.mktemp("vink") / "recording" if record else None
    source = None if file is None else request.path.parent / file
    lab = Lab(source, time=time, seed=vink_seed, record=folder, folder=source and source.parent)
    if file is None:
        lab.wire(*(lab.machine(name) for name in machines))
    for wire in lab.spec.setdefault("wires", {}).values():
        wire.update(settings(said))  # type: ignore[typeddict-item]
    if folder is not None:
        request.node.stash[recorded] = (folder, lab)
    with lab:
        yield lab
    if folder is not None:
        if request.node.stash.get(failed, False):
            keep(folder, kept(request.node))
        shutil.rmtree(folder, ignore_errors=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Tells how a failure is repeated. The recording is complete when the lab is down, which is after this."""
    report = yield
    if report.failed and call.when == "call":
        item.stash[failed] = True
        found = item.stash.get(recorded, None)
        if found:
            _, lab = found
            report.sections.append(("vink", advice(kept(item), lab)))
    return report


def kept(item: pytest.Item) -> Path:
    """Where a test's recording is kept."""
    return item.config.rootpath / KEPT / re.sub(r"[^\w.=-]+", "-", item.nodeid).strip("-")


def keep(folder: Path, to: Path) -> None:
    """Instead of what was kept of an earlier run."""
    shutil.rmtree(to, ignore_errors=True)
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(folder, to)


def advice(to: Path, lab: Lab) -> str:
    """What is to be done with a recording."""
    vink = control.executable()
    if shutil.which("vink") == vink:
        vink = "vink"
    if lab.spec.get("time", "real") == "real":
        command = [vink, "trace", "export", "--format", "text", str(to / "manifest.json")]
        return f"what happened is recorded: {shlex.join(command)}"
    return f"the run is recorded, and repeats: {shlex.join([vink, 'replay', str(to)])}"
