"""The wheel works by itself: installed in a fresh environment, by an ordinary user, without a network.

So does the action that installs it in a workflow (docs/action.md).
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from workflow import Step

ROOT = Path(__file__).resolve().parents[2]
# Debian's own, which other users may execute.
PYTHON = "/usr/bin/python3"
NOBODY = 65534


class Place:
    """A folder of an ordinary user's: `nobody`, if the tests are root's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.as_user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        if os.geteuid() != 0:
            self.as_user = []
        else:
            os.chown(folder, NOBODY, NOBODY)

    def run(self, *words: str) -> str:
        """Runs a command there, with nothing of this environment's."""
        done = subprocess.run(
            [*self.as_user, *words],
            cwd=self.folder,
            env={"HOME": str(self.folder), "TMPDIR": str(self.folder), "PATH": f"{self.folder}/venv/bin:/usr/bin:/bin"},
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    """A place whose environment has the wheel, pytest, and nothing else."""
    # Of pytest's own folders, other users can't enter one.
    folder = Path(tempfile.mkdtemp(prefix="vink-wheel-"))
    try:
        built = Path(os.environ["VINK_EXECUTABLE"]).parent
        subprocess.run([ROOT / ".ci/wheel", built, folder / "wheels"], check=True, capture_output=True)
        # Of .ci/python, which runs this.
        cache = Path(os.environ["VINK_PYTHON"]) / "wheels"
        for name in "pytest", "pluggy", "iniconfig", "packaging", "pygments":
            for wheel in cache.glob(f"{name}-*.whl"):
                shutil.copy(wheel, folder / "wheels")
        folder.chmod(0o755)
        made = Place(folder)
        made.run(PYTHON, "-m", "venv", "venv")
        made.run("venv/bin/pip", "install", "-q", "--no-index", "--find-links", "wheels", "vink", "pytest")
        yield made
    finally:
        shutil.rmtree(folder)


def test_installed_alone(place: Place) -> None:
    assert place.run("venv/bin/python", "-c", "import vink; print(vink.executable())").strip() == str(
        place.folder / "venv/bin/vink"
    )
    version = place.run("vink", "version")
    image = re.search(r"\S*/libvink-linux-6\.12\.so", version)
    assert image, version
    assert os.path.realpath(image[0]) == str(place.folder / "venv/lib/vink/libvink-linux-6.12.so")
    for option in "--quick", "--in-process":
        assert "127.0.0.1/8" in place.run("vink", "run", "--uplink", "none", option, "--", "ip", "-br", "address")


def test_a_pod_of_ones_own(place: Place) -> None:
    """As docs/pods.md has it."""
    lines = [
        "vink pod new large",
        "cc -shared -fPIC -O2 -o large.so large.c",
        "trap 'vink lab down large' EXIT",
        "vink lab up large.yaml",
        "vink exec alice -- ping -c 1 10.0.0.2",
        "vink exec alice -- ping -c 1 -W 1 -s 1000 10.0.0.2 || vink pod ls",
    ]
    said = place.run("sh", "-ec", "\n".join(lines))
    assert " 1 received" in said
    assert " 0 received" in said
    assert re.search(r"^large +process ", said, re.MULTILINE), said


def test_an_ordinary_users_test(place: Place) -> None:
    """The file of docs/python.md."""
    page = (ROOT / "docs/python.md").read_text()
    (file,) = (
        block
        for block in re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
        if "pytest.mark" in block
    )
    assert len(file.splitlines()) <= 15
    (place.folder / "test_download.py").write_text(file)
    began = time.monotonic()
    said = place.run("venv/bin/pytest", "test_download.py")
    assert "1 passed" in said
    print(f"\nnote: a test of a client and a server took {time.monotonic() - began:.1f} s")
    # Nothing of it is left.
    assert not [name for name in place.folder.glob("vink-*") if name.is_dir()]


def test_the_tag_is_true(place: Place) -> None:
    (wheel,) = (place.folder / "wheels").glob("vink-*.whl")
    tag = wheel.stem.split("-", 2)[2]
    shown = subprocess.run(
        [Path(sys.executable).parent / "auditwheel", "show", wheel], check=True, capture_output=True, text=True
    ).stdout
    assert f'"{tag.rsplit("-", 1)[1]}"' in shown, shown


FAILING = """
def test_it(vink_lab):
    assert vink_lab["client"].run(["ping", "-c", "1", "server"]).returncode == 1
"""


def workspace(place: Place, name: str) -> Path:
    """A folder of a workflow's, with the action's script where the user may read it."""
    folder = place.folder / name
    (folder / "action/.ci").mkdir(parents=True)
    shutil.copy(ROOT / ".ci/action", folder / "action/.ci")
    shutil.copytree(ROOT / "labs/hello", folder / "labs/hello")
    (folder / "test_failing.py").write_text(FAILING)
    place.run("true")
    if os.geteuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
    return folder


def step(place: Place, folder: Path, **inputs: str) -> Step:
    """A use of the action there."""
    made = Step(folder, inputs, folder / "action")
    made.command = ["env", "-C", str(folder), *made.command]
    return made


def test_the_action_installs_and_runs(place: Place) -> None:
    folder = workspace(place, "installs")
    package = f"{place.folder}/wheels/vink-*.whl"
    lines = 'vink exec alice -- ping -q -c 1 bob\ncurl=$(vink exec alice -- curl -sS http://bob/)\ntest -n "$curl"'
    made = step(place, folder, package=package, lab="labs/hello/lab.yaml", run=lines)
    assert " 0% packet loss" in place.run(*made.command)
    assert made.outputs() == {"version": "0.1.0", "artifacts": ""}
    (added,) = made.path()
    # A later step has what was installed; nothing else is left.
    place.run(
        "env", f"PATH={added}:/usr/bin:/bin", "sh", "-c", f"test $(command -v vink) = {added}/vink && vink version"
    )
    assert [path.name for path in Path(added).parents[1].iterdir()] == ["venv"]
    assert not (folder / "vink-artifacts").exists()


def test_the_action_keeps_what_failed(place: Place) -> None:
    folder = workspace(place, "keeps")
    made = step(place, folder, lab="labs/hello/lab.yaml", run="vink exec alice -- ping -q -c 1 bob\nfalse\nexit 9")
    said = place.run(*made.failing())
    assert "::error title=Vink::" in said
    assert "status 1" in said
    assert made.outputs()["artifacts"] == "vink-artifacts"
    kept = folder / "vink-artifacts/lab"
    assert place.run("vink", "trace", "export", "--format", "text", str(kept / "manifest.json"))
    assert "vink-artifacts" in (folder / "GITHUB_STEP_SUMMARY").read_text()

    made = step(place, folder, pytest="-q test_failing.py", artifacts="tests")
    assert "1 failed" in place.run(*made.failing())
    assert made.outputs()["artifacts"] == "tests"
    (recording,) = (folder / "tests/pytest").iterdir()
    assert "the run repeats" in place.run("vink", "replay", str(recording))


def test_the_action_says_what_it_can_not_install(place: Place) -> None:
    folder = workspace(place, "refuses")
    for package, said in [("none-*.whl", "0 files"), ("test_failing.py", "neither a .deb nor a .whl")]:
        made = step(place, folder, package=package)
        assert said in place.run("sh", "-c", f"({shlex.join(made.failing())}) 2>&1")
