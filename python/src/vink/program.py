"""Programs on machines: run to their end, or in the background."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Iterator

from vink import api
from vink._transport import Socket
from vink.errors import ConnectionLostError, Error

# First bytes of a terminal's messages: docs/api.md.
INPUT, STDOUT, STDERR = b"\0", 1, 2
# Bytes of input in a message.
PIECE = 1 << 16


def returncode(code: int) -> int:
    """As subprocess has it: negative if a signal has ended the program."""
    return 128 - code if code > 128 else code


def feed(terminal: Socket, data: bytes) -> None:
    """Gives a program its input."""
    try:
        for at in range(0, len(data), PIECE):
            terminal.send(INPUT + data[at : at + PIECE])
        terminal.send(INPUT)
    except (Error, OSError):
        # It has ended, which its output tells.
        pass


def run(
    client: api.Client, lab: str, new: api.NewProgram, data: str | bytes | None, timeout: float | None
) -> subprocess.CompletedProcess[bytes]:
    """Runs a program to its end. If this is interrupted, the program is ended."""
    deadline = None if timeout is None else time.monotonic() + timeout
    new.attach, new.input = True, data is not None
    started = client.start_program(lab, new)
    output = {STDOUT: bytearray(), STDERR: bytearray()}
    with client.attach(lab, str(started.id)) as terminal:
        if data is not None:
            data = data.encode() if isinstance(data, str) else data
            # The program may write before it reads all of it.
            threading.Thread(target=feed, args=[terminal, data], daemon=True).start()
        while True:
            left = None if deadline is None else max(deadline - time.monotonic(), 1e-6)
            try:
                message = terminal.receive(left)
            except TimeoutError:
                expired = subprocess.TimeoutExpired(new.words, timeout or 0, bytes(output[STDOUT]))
                expired.stderr = bytes(output[STDERR])
                raise expired from None
            if message is None:
                raise ConnectionLostError("the control process went away before the program ended")
            if isinstance(message, bytes):
                output[message[0]] += message[1:]
                continue
            ended = json.loads(message)["ended"]
            if ended.get("error"):
                raise Error(f"{new.machine}: {ended['error']}")
            code = returncode(ended["code"])
            return subprocess.CompletedProcess(new.words, code, bytes(output[STDOUT]), bytes(output[STDERR]))


class Program:
    """A program in the background, much as subprocess.Popen has it."""

    def __init__(self, client: api.Client, lab: str, started: api.Program, own_clock: bool) -> None:
        self._client = client
        self._lab = lab
        self._own_clock = own_clock
        self.args = started.words
        """What runs."""
        self.id = started.id
        """Its number in the lab."""
        self.returncode: int | None = None
        """How it ended; None while it runs; negative: by a signal."""

    def status(self) -> api.Program:
        """How it is."""
        return self._client.program(self._lab, str(self.id))

    def poll(self) -> int | None:
        """Its return code, if it has ended."""
        if self.returncode is None:
            self._ended(self.status())
        return self.returncode

    def _ended(self, status: api.Program) -> None:
        if status.state == "ended":
            if status.error and status.code in (126, 127):
                raise Error(f"{status.machine}: {status.error}")
            self.returncode = returncode(status.code or 0)

    def wait(self, timeout: float | None = None) -> int:
        """Waits for its end; a virtual clock goes for it. timeout: seconds of the host's clock."""
        if self.poll() is None:
            try:
                if self._own_clock:
                    body = api.RunClock(ended=str(self.id)).to_json()
                    self._client._ask("POST", f"/v1/labs/{self._lab}/clock/run", body, timeout=timeout)
                else:
                    self._follow(timeout)
            except TimeoutError:
                raise subprocess.TimeoutExpired(self.args, timeout or 0, self.output.encode()) from None
        code = self.poll()
        if code is None:
            raise Error(f"program {self.id} has not ended: a breakpoint has stopped the lab")
        return code

    def _follow(self, timeout: float | None) -> None:
        """To the end of its output, which is not before its own."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.poll() is None:
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError
            time.sleep(0.005)

    @property
    def output(self) -> str:
        """What it has written so far: its standard output and error, at most the last 1 to 2 MiB."""
        pieces = self._client.output(self._lab, str(self.id))
        return b"".join(pieces).decode(errors="surrogateescape")

    def follow(self) -> Iterator[bytes]:
        """What it writes, piece by piece, until it ends."""
        return self._client.output(self._lab, str(self.id), follow=True)

    def send_signal(self, signal: int) -> None:
        """Sends a signal to its process group."""
        self._client.signal_program(self._lab, str(self.id), api.SendSignal(signal=int(signal)))

    def terminate(self) -> None:
        """Sends it SIGTERM."""
        self.send_signal(15)

    def kill(self) -> None:
        """Ends it with all its processes by SIGKILL."""
        self._client.end_program(self._lab, str(self.id))

    def __str__(self) -> str:
        return str(self.id)

    def __repr__(self) -> str:
        return f"<vink.Program {self.id}: {' '.join(self.args)}>"
