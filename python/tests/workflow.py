"""Runs the repository's action as a runner of GitHub's kind does: inputs, a step's shell, files for what it sets."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
FILES = ("GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_STEP_SUMMARY")


class Step:
    """One use of the action: what runs it, and what it has set."""

    def __init__(self, folder: Path, inputs: Mapping[str, str], action: Path = ROOT) -> None:
        unknown = set(inputs) - set(ACTION["inputs"])
        assert not unknown, unknown
        values = {name: str(inputs.get(name, each["default"])) for name, each in ACTION["inputs"].items()}
        (step,) = ACTION["runs"]["steps"]
        self.folder = folder
        script = folder / "step.sh"
        script.write_text(step["run"])
        environment = {name: str(folder / name) for name in FILES}
        for file in environment.values():
            Path(file).touch()
            Path(file).chmod(0o666)
        environment |= {"GITHUB_ACTION_PATH": str(action), "RUNNER_TEMP": str(folder)}
        for name, value in step["env"].items():
            environment[name] = re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda found: values[found[1]], value)
        words = [f"{name}={value}" for name, value in environment.items()]
        # That of `shell: bash`.
        self.command = ["env", *words, "bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)]

    def failing(self) -> list[str]:
        """A command that succeeds if the step fails."""
        return ["sh", "-c", f"! {shlex.join(self.command)}"]

    def outputs(self) -> dict[str, str]:
        """Those of the action."""
        lines = (self.folder / "GITHUB_OUTPUT").read_text().splitlines()
        set_by_step = dict(line.split("=", 1) for line in lines)
        return {
            name: set_by_step[each["value"].removeprefix("${{ steps.vink.outputs.").removesuffix(" }}")]
            for name, each in ACTION["outputs"].items()
        }

    def path(self) -> list[str]:
        """What it has added to the PATH of later steps."""
        return (self.folder / "GITHUB_PATH").read_text().splitlines()
