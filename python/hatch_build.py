"""What hatchling does besides: with VINK_WHEEL, a folder as `make install` makes one, all of that is in the wheel.

The wheel's tag is true: it names the newest version of glibc that a file needs, as PEP 600 wants it. Without VINK_WHEEL
the wheel has the Python package alone, which goes with the `vink` that is on the PATH.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# Libraries that every system with glibc has, or so PEP 600's policies say.
ALLOWED = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2", "libpthread.so.0", "libdl.so.2"}


class Carries(BuildHookInterface[Any]):
    """The hook."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Adds files and the tag; an editable installation has neither."""
        folder = os.environ.get("VINK_WHEEL")
        if not folder or version == "editable":
            return
        stage = Path(folder)
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform(stage)}"
        for path in sorted(stage.rglob("*")):
            if path.is_file():
                place = str(path.relative_to(stage))
                if place.startswith("bin/"):
                    build_data["shared_scripts"][str(path)] = place.removeprefix("bin/")
                else:
                    build_data["shared_data"][str(path)] = place


def platform(stage: Path) -> str:
    """The platform that all programs and libraries below a folder run on."""
    newest = (2, 17)
    for path in stage.rglob("*"):
        if not path.is_file() or path.open("rb").read(4) != b"\x7fELF":
            continue
        listed = subprocess.run(["objdump", "-p", path], check=True, capture_output=True, text=True).stdout
        needed = set(re.findall(r"^ +NEEDED +(\S+)$", listed, re.MULTILINE))
        if needed - ALLOWED:
            raise ValueError(f"{path.name} needs {', '.join(needed - ALLOWED)}, which not every system has")
        for found in re.findall(r" GLIBC_(\d+)\.(\d+)", listed):
            newest = max(newest, (int(found[0]), int(found[1])))
    return f"manylinux_{newest[0]}_{newest[1]}_x86_64"
