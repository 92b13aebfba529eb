"""Executors for sweeps on engines that are there: a Ray cluster, or job arrays of Slurm.

Neither schedules anything itself. Dask has an executor of its own (`distributed.Client(...).get_executor()`).
"""

from __future__ import annotations

import itertools
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

from vink.errors import Error

try:
    # Takes functions of the main program, too.
    from cloudpickle import dumps
except ImportError:
    from pickle import dumps

# Tasks of an array: Slurm's own limit if none is set (MaxArraySize).
LARGEST_ARRAY = 1000
# Seconds between two looks at what has become of tasks.
POLL = 0.3
# How often a task is run again that has ended without a result, as Dask does.
RETRIES = 3


class RayExecutor(Executor):
    """Runs functions as tasks of Ray, which `ray.init()` has connected this program to.

    options: those of `ray.remote`, such as `num_cpus=1`. Ray runs a task again whose worker has died.
    """

    def __init__(self, **options: Any) -> None:
        import ray

        self._ray = ray
        self._task = ray.remote(**options)(_called) if options else ray.remote(_called)
        self._futures: set[Future[Any]] = set()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Makes a task."""
        reference = self._task.remote(fn, args, kwargs)
        future: Future[Any] = reference.future()
        self._futures.add(future)

        def ended(future: Future[Any]) -> None:
            self._futures.discard(future)
            if future.cancelled():
                self._ray.cancel(reference, force=True)

        future.add_done_callback(ended)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """The cluster stays."""
        for future in list(self._futures):
            if cancel_futures:
                future.cancel()
            if wait and not future.cancelled():
                future.exception()


def _called(fn: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    return fn(*args, **kwargs)


class SlurmExecutor(Executor):
    """Runs functions as tasks of Slurm's job arrays.

    folder: one that all nodes have at this path, for what is called and its results; options: those of sbatch(1), such
    as `["--partition=short", "--mem=1G"]`; python: what runs a task, which must have the package.

    Functions are importable, unless cloudpickle is installed. What is submitted within a moment is one array.
    """

    def __init__(
        self, folder: str | os.PathLike[str], options: Sequence[str] = (), *, python: str = sys.executable
    ) -> None:
        self._folder = Path(folder).absolute()
        self._folder.mkdir(parents=True, exist_ok=True)
        self._options = list(options)
        self._python = python
        self._lock = threading.Lock()
        self._waiting: list[_Task] = []
        self._arrays = itertools.count(1)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Has it run by the next array."""
        task = _Task(dumps((sys.path, dumps((fn, args, kwargs)))))
        with self._lock:
            if self._closing.is_set():
                raise RuntimeError("the executor was shut down")
            self._waiting.append(task)
        return task.future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Takes no more; the thread ends with the last task."""
        self._closing.set()
        if cancel_futures:
            with self._lock:
                for task in self._waiting:
                    task.future.cancel()
            self._cancelling = True
        if wait:
            self._thread.join()

    _cancelling = False

    def _serve(self) -> None:
        """The thread: makes arrays, and looks for results."""
        running: dict[str, _Task] = {}
        while True:
            closing = self._closing.wait(POLL)
            with self._lock:
                batch, self._waiting = self._waiting[:LARGEST_ARRAY], self._waiting[LARGEST_ARRAY:]
            try:
                running |= self._start([task for task in batch if not task.future.cancelled()])
                self._look(running)
            except Exception as error:
                # Of sbatch or squeue: no other task will do better.
                for task in [*batch, *running.values()]:
                    task.fail(error)
                running.clear()
            if closing and not running and not self._waiting:
                return

    def _start(self, tasks: list[_Task]) -> dict[str, _Task]:
        """Makes an array of them: by the names that Slurm gives its tasks."""
        if not tasks:
            return {}
        folder = self._folder / f"{os.getpid()}-{next(self._arrays)}"
        folder.mkdir()
        for at, task in enumerate(tasks):
            task.place = folder / str(at)
            task.place.with_suffix(".call").write_bytes(task.call)
        words = ["--parsable", f"--array=0-{len(tasks) - 1}", f"--output={folder}/%a.log", "--job-name=vink"]
        script = f"#!/bin/sh\nexec '{self._python}' -m vink.executors '{folder}'/$SLURM_ARRAY_TASK_ID\n"
        job = _slurm(["sbatch", *words, *self._options], script).strip().partition(";")[0]
        return {f"{job}_{at}": task for at, task in enumerate(tasks)}

    def _look(self, running: dict[str, _Task]) -> None:
        """What has become of tasks."""
        if not running:
            return
        # Before the results: what is not there any more has none to come.
        queue = set(_slurm(["squeue", "--me", "--noheader", "--array", "--format=%i"]).split())
        gone = []
        for name, task in list(running.items()):
            if self._cancelling:
                task.future.cancel()
            if task.future.cancelled():
                gone.append(name)
            elif task.ended():
                pass
            elif name in queue:
                continue
            elif task.retries:
                task.retries -= 1
                with self._lock:
                    self._waiting.append(task)
            else:
                task.fail(Error(f"task {name} of Slurm has ended without a result: {task.log()}"))
            del running[name]
        if alive := [name for name in gone if name in queue]:
            _slurm(["scancel", *alive])


class _Task:
    """A call, and where it is."""

    def __init__(self, call: bytes) -> None:
        self.call = call
        self.future: Future[Any] = Future()
        self.retries = RETRIES
        self.place = Path()

    def ended(self) -> bool:
        """Tells the future, if there is a result."""
        try:
            good, value = pickle.loads(self.place.with_suffix(".result").read_bytes())
        except FileNotFoundError:
            return False
        if self.future.set_running_or_notify_cancel():
            (self.future.set_result if good else self.future.set_exception)(value)
        for suffix in ".call", ".result", ".log":
            self.place.with_suffix(suffix).unlink(missing_ok=True)
        return True

    def fail(self, error: BaseException) -> None:
        if not self.future.done() and self.future.set_running_or_notify_cancel():
            self.future.set_exception(error)

    def log(self) -> str:
        """The end of what it has written."""
        log = self.place.with_suffix(".log")
        return log.read_text(errors="replace")[-1000:] if log.exists() else f"there is no {log}"


def _slurm(command: Sequence[str], text: str | None = None) -> str:
    """What a command of Slurm says."""
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Error(f"{command[0]} has failed: {done.stderr.strip()}")
    return done.stdout


def _run(place: Path) -> None:
    """A task, on its node."""
    paths, call = pickle.loads(place.with_suffix(".call").read_bytes())
    sys.path[:] = paths
    try:
        fn, args, kwargs = pickle.loads(call)
        result = dumps((True, fn(*args, **kwargs)))
    except BaseException as error:
        result = dumps((False, error))
    # All of it, or nothing.
    new = place.with_suffix(f".{os.getpid()}")
    new.write_bytes(result)
    new.replace(place.with_suffix(".result"))


if __name__ == "__main__":
    _run(Path(sys.argv[1]))
