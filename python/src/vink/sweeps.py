"""Sweeps: a function, or a lab, over all combinations of parameters and seeds, as a table.

Runs are handed to any concurrent.futures.Executor. What is done is written down at once (FILE.part), so that a sweep
that was interrupted goes on where it was. Rows are in the order of parameters and seeds, whatever came first: a sweep
in virtual time has the same bytes each time, wherever it runs.
"""

from __future__ import annotations

import concurrent.futures
import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from copy import deepcopy
from pathlib import Path
from typing import Any, TypeAlias

from vink.errors import Error
from vink.lab import Lab, Span, settings
from vink.table import Table

# Runs that wait at the executor at a time.
WINDOW = 1000

Function: TypeAlias = "Callable[..., Any]"
"""Called with `seed` and the parameters by their names. Its result is a row (a mapping), or a number."""

Progress: TypeAlias = "Callable[[int, int], object]"
"""Called with how many runs are done, of how many."""


class SweepError(Error):
    """Runs have failed. Those that have not are written down, and are not run again by the same sweep."""

    def __init__(self, failures: Sequence[tuple[Mapping[str, Any], BaseException]], of: int, part: Path | None) -> None:
        values, error = failures[0]
        kept = f"; {part} has the others, and the same sweep goes on from there" if part else ""
        super().__init__(f"{len(failures)} of {of} runs failed, the first of them {dict(values)}: {error!r}{kept}")
        self.failures = list(failures)
        """Parameters and seed of each, and what it has raised."""


def sweep(
    what: Function | Lab,
    *,
    parameters: Mapping[str, Iterable[Any]] | None = None,
    seeds: Iterable[int] = range(1),
    until: Span | None = None,
    output: str | os.PathLike[str] | None = None,
    executor: Executor | None = None,
    progress: bool | Progress = True,
) -> Table:
    """Runs it with each combination of parameters and each seed.

    what: a function (importable, unless the executor takes others), or a lab. Of a lab, parameters are named
    `WIRE.SETTING`, each run lasts `until` by its clock, and its row has what became of its programs:
    `MACHINE.NAME.code` and numbers of the reports of virtualized processes.

    output: `.parquet`, `.csv` or `.jsonl`; executor: this machine's processors otherwise; progress: a line at the
    terminal, or a function.

    Raises SweepError when all others are done, if runs have failed.

    Examples:
        >>> import concurrent.futures
        >>> def area(seed, width, height):
        ...     return {"area": width * height}
        >>> with concurrent.futures.ThreadPoolExecutor() as threads:
        ...     table = sweep(area, parameters={"width": [1, 2], "height": [3]}, executor=threads, progress=False)
        >>> table.columns
        {'width': [1, 2], 'height': [3, 3], 'seed': [0, 0], 'area': [3, 6]}
    """
    function = _OfLab(what, until) if isinstance(what, Lab) else what
    names = list(parameters or {})
    grid = [list(values) for values in (parameters or {}).values()]
    numbers = [int(seed) for seed in seeds]
    runs = [
        {**dict(zip(names, values, strict=True)), "seed": seed}
        for values in itertools.product(*grid)
        for seed in numbers
    ]
    path = None if output is None else Path(output).absolute()
    if path and path.exists():
        raise Error(f"{path} is there already: remove it, or name another output")
    journal = _Journal(path and path.with_name(path.name + ".part"), {"runs": runs})
    tell = _told(progress, len(runs), len(journal.rows))
    try:
        if executor is None:
            with ProcessPoolExecutor(os.cpu_count()) as own:
                failures = _run_all(function, runs, journal, own, tell)
        else:
            failures = _run_all(function, runs, journal, executor, tell)
    finally:
        journal.close()
    if failures:
        raise SweepError(failures, len(runs), journal.path)
    table = Table.of_rows([{**runs[at], **journal.rows[at]} for at in range(len(runs))])
    if path:
        # All of it, or nothing.
        whole = path.with_name(f".{os.getpid()}.{path.name}")
        table.write(whole)
        whole.replace(path)
        journal.remove()
    return table


def _run_all(
    function: Function, runs: list[dict[str, Any]], journal: _Journal, executor: Executor, tell: Progress
) -> list[tuple[Mapping[str, Any], BaseException]]:
    """Runs what is not in the journal yet."""
    waiting = iter([at for at in range(len(runs)) if at not in journal.rows])
    under_way: dict[Future[str], int] = {}
    failures: list[tuple[int, BaseException]] = []
    try:
        while True:
            for at in itertools.islice(waiting, WINDOW - len(under_way)):
                under_way[executor.submit(_row, function, runs[at])] = at
            if not under_way:
                break
            done, _ = concurrent.futures.wait(under_way, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in done:
                at = under_way.pop(future)
                error = future.exception()
                if error is None:
                    journal.add(at, future.result())
                elif isinstance(error, concurrent.futures.BrokenExecutor | concurrent.futures.CancelledError):
                    # No other run will do better.
                    raise error
                else:
                    failures.append((at, error))
                tell(len(journal.rows) + len(failures), len(runs))
    finally:
        for future in under_way:
            future.cancel()
    return [(runs[at], error) for at, error in sorted(failures, key=lambda failure: failure[0])]


def _row(function: Function, values: Mapping[str, Any]) -> str:
    """A run, where the executor has it run: its row as JSON, which is the same for all executors."""
    result = function(**values)
    return json.dumps(dict(result) if isinstance(result, Mapping) else {"result": result})


class _OfLab:
    """A run of a lab, as a function."""

    def __init__(self, lab: Lab, until: Span | None) -> None:
        if until is None:
            raise Error(f"a sweep of lab {lab.name} needs to know how long a run lasts: until='60s'")
        self.spec = deepcopy(lab.spec)
        self.folder = lab.folder
        self.env = lab.env
        self.until = until

    def __call__(self, seed: int, **parameters: Any) -> dict[str, Any]:
        spec = deepcopy(self.spec)
        for name, value in parameters.items():
            wire, _, setting = name.rpartition(".")
            if wire not in spec.get("wires", {}):
                raise Error(f"parameter {name} is of no wire of lab {spec['name']}: write WIRE.SETTING")
            spec["wires"][wire].update(settings({setting: value}))  # type: ignore[typeddict-item]
        lab = Lab(spec, seed=seed, folder=self.folder, env=self.env)
        with lab:
            lab.until(self.until)
            row: dict[str, Any] = {}
            for program in lab.client.programs(lab.name):
                name = f"{program.machine}.{program.name or program.id}"
                row[f"{name}.code"] = program.code
                row.update(_numbers(name, program.report))
            return row


def _numbers(name: str, report: Any) -> dict[str, Any]:
    """A report's numbers, with their names."""
    if isinstance(report, dict):
        return {key: value for each in report for key, value in _numbers(f"{name}.{each}", report[each]).items()}
    return {name: report} if isinstance(report, int | float) else {}


class _Journal:
    """Rows that are done, in a file if there is to be one."""

    def __init__(self, path: Path | None, of: Mapping[str, Any]) -> None:
        self.path = path
        self.rows: dict[int, dict[str, Any]] = {}
        if path is None:
            self.file = None
            return
        head = json.dumps(of)
        good = self._read(path, head) if path.exists() else 0
        self.file = path.open("r+" if good else "w")
        # A line that was cut short is none.
        self.file.truncate(good)
        self.file.seek(good)
        if not good:
            self._write(head)

    def _read(self, path: Path, head: str) -> int:
        """Takes what is there, and tells how many characters of it are whole lines."""
        text = path.read_text()
        lines = text[: text.rfind("\n") + 1].splitlines()
        if not lines:
            return 0
        if lines[0] != head:
            raise Error(f"{path} is of a sweep with other parameters or seeds: remove it, or name another output")
        for line in lines[1:]:
            at, row = json.loads(line)
            self.rows[at] = row
        return text.rfind("\n") + 1

    def add(self, at: int, row: str) -> None:
        """A run is done: only its first row counts."""
        if at not in self.rows:
            self.rows[at] = json.loads(row)
            self._write(f"[{at}, {row}]")

    def _write(self, line: str) -> None:
        if self.file:
            self.file.write(line + "\n")
            self.file.flush()

    def close(self) -> None:
        """Leaves it to be gone on with."""
        if self.file:
            self.file.close()

    def remove(self) -> None:
        """All is done."""
        if self.path:
            self.path.unlink()


def _told(progress: bool | Progress, total: int, before: int) -> Progress:
    """What tells how far a sweep is."""
    if callable(progress):
        return progress
    if not progress or not sys.stderr.isatty():
        return lambda done, total: None
    began = time.monotonic()

    def line(done: int, total: int) -> None:
        left = (time.monotonic() - began) / max(done - before, 1) * (total - done)
        print(f"\r\x1b[K{done}/{total} runs, {left:.0f} s left", end="", file=sys.stderr, flush=True)
        if done == total:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    return line
