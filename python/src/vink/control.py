"""Control processes: the user's own, which the command line talks to, and those of a Python program.

A Python program has control processes for itself: its labs have no name in common with those of other programs, and
they end with the program, however it ends. Such a process holds one end of a socket whose other end is the program's.
"""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import subprocess
import sysconfig
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from vink.api import AsyncClient, Client
from vink.errors import NotFoundError, StartError

# How long (s) a control process may take to end with its labs.
END_TIMEOUT = 20.0
# The longest path of a unix socket, unix(7).
LONGEST_SOCKET = 107
SOCKET = "control.sock"


def executable() -> str:
    """Where `vink` is: $VINK_EXECUTABLE, beside this Python's own commands, where the package is, on the PATH."""
    for place in _places():
        if place and os.access(place, os.X_OK) and os.path.isfile(place):
            return os.fspath(place)
    raise NotFoundError(
        "there is no vink beside this Python, and none on the PATH: install a wheel that carries it (make wheel), "
        "or let VINK_EXECUTABLE name it"
    )


def _places() -> Iterator[str | Path | None]:
    named = os.environ.get("VINK_EXECUTABLE")
    yield named
    if named:
        raise NotFoundError(f"VINK_EXECUTABLE is {named}, which is no file that can be executed")
    yield Path(sysconfig.get_path("scripts")) / "vink"
    yield Path(sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user"))) / "vink"
    # pip install --target
    yield Path(__file__).parent.parent / "bin" / "vink"
    yield shutil.which("vink")


def runtime_folder() -> Path:
    """The folder of the user's control process, as `vink` finds it."""
    if folder := os.environ.get("VINK_RUNTIME"):
        return Path(folder)
    if folder := os.environ.get("XDG_RUNTIME_DIR"):
        return Path(folder) / "vink"
    return Path(f"/tmp/vink-{os.geteuid()}")


def client() -> Client:
    """A client of the user's control process, to which `vink lab up` and the like talk."""
    return Client(runtime_folder() / SOCKET)


def async_client() -> AsyncClient:
    """The same for asyncio."""
    return AsyncClient(runtime_folder() / SOCKET)


class ControlProcess:
    """A control process of this program."""

    def __init__(self) -> None:
        vink = executable()
        folder = tempfile.mkdtemp(prefix="vink-")
        if len(f"{folder}/{SOCKET}") > LONGEST_SOCKET:
            os.rmdir(folder)
            folder = tempfile.mkdtemp(prefix="vink-", dir="/tmp")
        self.folder = Path(folder)
        """Its runtime folder: `VINK_RUNTIME=FOLDER vink lab ps` shows what runs."""
        self.client = Client(self.folder / SOCKET)
        """A client of it."""
        self._socket, theirs = socket.socketpair()
        try:
            with open(self.folder / "log", "ab", opener=_private) as log, theirs:
                self.process = subprocess.Popen(
                    [vink, "daemon", "--owner", str(theirs.fileno())],
                    cwd="/",
                    env={**os.environ, "VINK_RUNTIME": folder},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=[theirs.fileno()],
                    # Ctrl-C is this program's.
                    start_new_session=True,
                )
            # An empty line when it listens, or why it does not.
            said = self._socket.recv(1 << 12)
            if said != b"\n":
                raise StartError(f"vink daemon: {self._last_words(said)}")
        except BaseException:
            self.end()
            raise

    def _last_words(self, said: bytes) -> str:
        log = (self.folder / "log").read_bytes()
        return (said + log).decode(errors="replace").strip() or "it ended before it listened"

    def is_there(self) -> bool:
        """Whether it still runs."""
        return self.process.poll() is None

    def forget(self) -> None:
        """It is another process's: that of which this one is a fork."""
        self._socket.close()

    def end(self) -> None:
        """Ends it with its labs, and returns when it has gone."""
        self.client.close()
        self._socket.close()
        process: subprocess.Popen[bytes] | None = getattr(self, "process", None)
        if process:
            try:
                process.wait(END_TIMEOUT)
            except subprocess.TimeoutExpired:
                # What it has started ends with it.
                process.kill()
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


class _Pool:
    """Control processes of this program: each has at most one lab, and waits for the next when it has none."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.idle: list[ControlProcess] = []
        self.all: list[ControlProcess] = []

    def take(self) -> ControlProcess:
        """One without a lab."""
        with self.lock:
            while self.idle:
                found = self.idle.pop()
                if found.is_there():
                    return found
                self.all.remove(found)
                found.end()
        made = ControlProcess()
        with self.lock:
            self.all.append(made)
        return made

    def give_back(self, control: ControlProcess) -> None:
        """Its lab is down."""
        with self.lock:
            self.idle.append(control)

    def discard(self, control: ControlProcess) -> None:
        """Its lab is not known to be down."""
        with self.lock:
            if control in self.all:
                self.all.remove(control)
        control.end()

    def end(self) -> None:
        """With the program."""
        with self.lock:
            every, self.all, self.idle = self.all, [], []
        for control in every:
            control.end()

    def after_fork(self) -> None:
        """In the new process."""
        every, self.all, self.idle = self.all, [], []
        self.lock = threading.Lock()
        for control in every:
            control.forget()


pool = _Pool()
"""All of this program's."""
atexit.register(pool.end)
os.register_at_fork(after_in_child=pool.after_fork)
