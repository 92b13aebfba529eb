"""The API's objects and clients are what the control process describes, and reach it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import vink
from vink import api

ROOT = Path(__file__).resolve().parent.parent


def test_generated_from_description(lab: vink.Lab) -> None:
    written = subprocess.run(
        [sys.executable, ROOT / "generate.py"],
        input=json.dumps(lab.client.openapi()),
        check=True,
        capture_output=True,
        text=True,
    )
    ruff: list[str | Path] = [
        Path(sys.executable).parent / "ruff",
        "format",
        "--stdin-filename",
        "src/vink/api.py",
        "-",
    ]
    formatted = subprocess.run(ruff, cwd=ROOT, input=written.stdout, check=True, capture_output=True, text=True)
    here = ROOT / "src/vink/api.py"
    if os.environ.get("VINK_GOLDEN") == "write":
        here.write_text(formatted.stdout)
    assert formatted.stdout == here.read_text(), "VINK_GOLDEN=write tests/run test_api.py writes it anew"


def test_objects_survive_json(lab: vink.Lab) -> None:
    machine = lab.client.machine(lab.name, "a")
    assert api.Machine.from_json(machine.to_json()) == machine
    assert machine.interfaces[0].name == "eth0"
    assert machine.interfaces[0].counters["rx-packets"] >= 0
    wire = lab.client.change_wire(lab.name, "w1", api.ChangeWire(settings={"delay": "5ms"}, from_="a:eth0"))
    assert wire.from_ == {"a:eth0": {"delay": "5ms"}}


def test_refusals_have_vinks_words(lab: vink.Lab) -> None:
    with pytest.raises(vink.RefusedError) as refused:
        lab.client.machine(lab.name, "c")
    assert refused.value.status == 404
    assert "no machine c" in str(refused.value)
    assert refused.value.hint
    assert refused.value.hint in str(refused.value)
    with pytest.raises(vink.RefusedError) as refused:
        lab.client.add_wire(lab.name, api.NewWire(name="w2", spec={"loss": "200%"}))
    assert refused.value.status == 422
    assert refused.value.paths == ["/spec/loss"]


def test_no_control_process(tmp_path: Path) -> None:
    with pytest.raises(vink.NotFoundError, match="no lab runs: no control process listens at"):
        api.Client(tmp_path / "control.sock").labs()


def test_async_client(lab: vink.Lab) -> None:
    async def work() -> tuple[list[str], str, int]:
        async with api.AsyncClient(lab.client.address) as client:
            # Many requests at once.
            answers = await asyncio.gather(*(client.machine(lab.name, name) for name in "ab" * 20))
            started = await client.start_program(
                lab.name, api.NewProgram(machine="a", words=["echo", "hello"], attach=True)
            )
            said, code = b"", -1
            async with await client.attach(lab.name, str(started.id)) as terminal:
                while (message := await terminal.receive()) is not None:
                    if isinstance(message, bytes):
                        said += message[1:]
                    else:
                        code = json.loads(message)["ended"]["code"]
            with pytest.raises(vink.RefusedError, match="no wire w9"):
                await client.wire(lab.name, "w9")
            return [machine.name for machine in answers], said.decode(), code

    assert asyncio.run(work()) == (list("ab" * 20), "hello\n", 0)


def test_async_events(lab: vink.Lab) -> None:
    async def work() -> set[str]:
        async with api.AsyncClient(lab.client.address) as client:
            events = client.events(lab=lab.name)
            both = asyncio.ensure_future(several(events))
            while not both.done():
                # Events count from when the WebSocket is open, of which the iterator does not tell.
                for loss in "1%", "2%":
                    await client.change_wire(lab.name, "w1", api.ChangeWire(settings={"loss": loss}))
            return await both

    async def several(events: AsyncIterator[api.Event]) -> set[str]:
        return {(await anext(events)).kind for _ in range(6)}

    assert asyncio.run(work()) >= {"changed", "wire"}
