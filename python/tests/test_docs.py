"""Every Python block of docs/python.md runs, each by itself."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs/python.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


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
