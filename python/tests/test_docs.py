"""Every Python block of docs/python.md runs, each by itself, and every example of the docstrings."""

from __future__ import annotations

import doctest
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import vink

PAGE = Path(__file__).resolve().parents[2] / "docs/python.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
MODULES = [f"vink.{file.stem}" for file in sorted(Path(vink.__file__).parent.glob("[a-z]*.py"))]
EXAMPLES = {
    each.name: each
    for name in MODULES
    for each in doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(name), name)
    if each.examples
}


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_block(number: int, tmp_path: Path) -> None:
    block = BLOCKS[number]
    file = tmp_path / "test_block.py"
    file.write_text(block)
    command = [sys.executable, str(file)]
    if "def test_" in block:
        command = [sys.executable, "-m", "pytest", "-p", "vink.pytest_plugin", f"--rootdir={tmp_path}", str(file)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_there_are_examples() -> None:
    assert {"vink.lab.Lab", "vink.lab.Machine.run", "vink.sweeps.sweep"} <= set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name: str) -> None:
    said: list[str] = []
    doctest.DocTestRunner(verbose=False).run(EXAMPLES[name], out=said.append)
    assert not said, "".join(said)
