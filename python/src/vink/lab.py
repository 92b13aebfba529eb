"""Labs as Python objects: described here or by a lab file, run by a control process of this program.

Where time is a parameter, a number is seconds, and a text is as in a lab file: `10ms`.
"""

from __future__ import annotations

import contextlib
import html
import ipaddress
import itertools
import json
import os
import subprocess
import tempfile
import threading
import time as host_time
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, cast, overload

from vink import api, control
from vink._checksums import with_checksums
from vink._transport import query_of
from vink.errors import ConnectionLostError, Error, LabFileError, NotFoundError, RefusedError
from vink.program import Program, run
from vink.table import Table, html_table

if TYPE_CHECKING:
    from vink.view import View

Span: TypeAlias = "str | float | timedelta"
"""A length of time: seconds, or as in a lab file."""

Words: TypeAlias = "str | Sequence[str | os.PathLike[str]]"
"""A program and its arguments, or a line for sh(1), as `command` in a lab file."""

Handler: TypeAlias = "Callable[[Hit], object]"
"""What is called at a breakpoint."""


def span(length: Span) -> str:
    """As in a lab file."""
    if isinstance(length, str):
        return length
    seconds = length.total_seconds() if isinstance(length, timedelta) else length
    return f"{round(seconds * 1e9)}ns"


def words(command: Words) -> list[str]:
    """What is executed."""
    if isinstance(command, str):
        return ["sh", "-c", command]
    return [os.fspath(word) for word in command]


def settings(values: Mapping[str, Any]) -> api.Settings:
    """A wire's, with the lab file's keys."""
    made = {}
    known = api.WireSpec.__annotations__
    for name, value in values.items():
        key = name.rstrip("_").replace("_", "-")
        if key not in known:
            raise Error(f"a wire has no setting {name}; it has {', '.join(known)}")
        made[key] = span(value) if key in ("delay", "jitter") else value
    return cast(api.Settings, made)


def read(file: str | os.PathLike[str]) -> api.Lab:
    """A lab file's lab.

    Raises LabFileError with all its mistakes.
    """
    command = [control.executable(), "lab", "graph", "--format", "json", os.fspath(file)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise LabFileError(done.stderr.strip())
    return cast(api.Lab, json.loads(done.stdout))


class Lab:
    """A lab: machines, wires and programs.

    `with Lab("lab.yaml") as lab:` has it up within the block, and down behind it, whatever happens. Without a file it
    is empty at first; `machine` and `wire` describe what it is to be.

    Examples:
        >>> import vink
        >>> lab = vink.Lab(time="virtual", seed=1)
        >>> lab.wire(lab.machine("a"), lab.machine("b"), delay="100ms")
        <vink.Wire w1 of lab>
        >>> with lab:
        ...     lab["a"].run(["ping", "-c", "2", "-q", "b"]).returncode
        0
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | Mapping[str, Any] | None = None,
        *,
        name: str | None = None,
        time: Any = None,
        seed: int | None = None,
        folder: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        record: str | os.PathLike[str] | None = None,
        paused: bool = False,
    ) -> None:
        """Of a lab file, or of what `spec` of another lab is.

        time: `real`, `virtual` or `{"scaled": 2}`; folder: what its relative paths are relative to (the lab file's
        folder, or the current one); env: its programs' environment (this program's); record: a new folder for a
        recording (docs/replay.md); paused: its clock stands until it is told to go.
        """
        self.file = Path(source).absolute() if isinstance(source, str | os.PathLike) else None
        """The lab file."""
        if self.file is not None:
            self.spec: api.Lab = read(self.file)
        else:
            self.spec = cast(api.Lab, deepcopy(dict(cast(Mapping[str, Any], source or {}))))
        self.spec["name"] = name or self.spec.get("name") or "lab"
        if time is not None:
            self.spec["time"] = time
        if seed is not None:
            self.spec["seed"] = seed
        self.folder = Path(folder or (self.file.parent if self.file else ".")).absolute()
        """What relative paths are relative to."""
        self.env = dict(os.environ if env is None else env)
        """Its programs' environment."""
        self.record = Path(record).absolute() if record is not None else None
        """Where it is recorded."""
        self.paused = paused
        self._control: control.ControlProcess | None = None
        self._client: api.Client | None = None
        self._handlers: _Handlers | None = None
        self._scratch: tempfile.TemporaryDirectory[str] | None = None

    @classmethod
    def of(cls, name: str) -> Self:
        """A lab that the user's control process has (`vink lab up`). It stays when it is left."""
        client = control.client()
        try:
            spec = client.spec(name)
        except RefusedError as error:
            if error.status != 404:
                raise
            # As if there were no control process, which ends some time after its last lab.
            raise NotFoundError(str(error)) from error
        lab = cls(cast(Mapping[str, Any], spec), name=name)
        lab._client = client
        return lab

    @property
    def name(self) -> str:
        """Its name."""
        return self.spec["name"]

    @property
    def client(self) -> api.Client:
        """All that the control API has: every method's first argument is the lab's name."""
        if self._client is None:
            raise NotFoundError(f"lab {self.name} is not up: enter it (`with lab:`), or call up()")
        return self._client

    @property
    def runtime(self) -> Path:
        """Its control process's folder: `VINK_RUNTIME=FOLDER vink exec ...` reaches it from a terminal."""
        return Path(self.client.address).parent

    @property
    def is_up(self) -> bool:
        """Whether it runs."""
        return self._client is not None

    # Describing it.

    def machine(self, name: str, **spec: Any) -> Machine:
        """Describes a machine, or more of it: keywords are a lab file's keys (`forward`, `sysctls`, `setup` ...)."""
        machines = self.spec.setdefault("machines", {})
        described = machines.setdefault(name, {})
        described.update(cast(api.MachineSpec, {key.replace("_", "-"): value for key, value in spec.items()}))
        return Machine(self, name)

    def wire(
        self,
        *ends: Machine | str,
        name: str | None = None,
        network: str | None = None,
        **values: Any,
    ) -> Wire:
        """Describes a wire between machines.

        Each end is a machine, which gets its next interface, or `machine:interface`. Interfaces without addresses get
        some of a network of the wire's own: 10.0.N.0/24, or the one given. Keywords are settings (`delay`, `rate`,
        `loss` ...).

        Examples:
            >>> lab = Lab()
            >>> lab.wire("a", "b:uplink", "c", delay=0.005, rate="10mbit", network="10.1.0.0/16")
            <vink.Wire w1 of lab>
            >>> lab.spec["machines"]["b"]["interfaces"]["uplink"]
            {'wire': 'w1', 'addresses': ['10.1.0.2/16']}
            >>> lab.wire("a", "b", dealy="5ms")  # doctest: +ELLIPSIS
            Traceback (most recent call last):
            vink.errors.Error: a wire has no setting dealy; it has rate, delay, jitter...
        """
        wires = self.spec.setdefault("wires", {})
        number = len(wires)
        name = name or next(
            each for each in (f"w{count}" for count in itertools.count(number + 1)) if each not in wires
        )
        described = cast(api.WireSpec, settings(values))
        wires.setdefault(name, {}).update(described)
        addresses = ipaddress.ip_network(network or f"10.{number >> 8}.{number & 255}.0/24")
        for count, end in enumerate(ends, 1):
            machine, _, interface = (end.name if isinstance(end, Machine) else end).partition(":")
            interfaces = self.machine(machine)._spec.setdefault("interfaces", {})
            free = (each for each in (f"eth{n}" for n in itertools.count()) if each not in interfaces)
            end_spec = interfaces.setdefault(interface or next(free), {})
            end_spec["wire"] = name
            if not end_spec.get("addresses"):
                end_spec["addresses"] = [f"{addresses[count]}/{addresses.prefixlen}"]
        return Wire(self, name)

    def __getitem__(self, machine: str) -> Machine:
        """A machine of it."""
        known = self.spec.get("machines", {})
        if machine not in known:
            raise KeyError(f"lab {self.name} has no machine {machine}; it has {', '.join(known) or 'none'}")
        return Machine(self, machine)

    # Its life.

    def up(self) -> Self:
        """Makes it, and returns when all its programs are ready. If that fails, nothing is left of it."""
        if self._client is not None:
            raise Error(f"lab {self.name} is up already")
        taken = control.pool.take()
        wanted = self._wanted()
        wanted.new, wanted.paused = True, self.paused
        if self.record is not None:
            wanted.record = api.RecordLab(
                folder=str(self.record), lab_file=None if self.file is None else str(self.file)
            )
        try:
            taken.client.put_lab(self.name, wanted)
        except RefusedError:
            control.pool.give_back(taken)
            raise
        except BaseException:
            # Such as Ctrl-C: it may be half made.
            control.pool.discard(taken)
            raise
        self._control, self._client = taken, taken.client
        return self

    def apply(self) -> list[api.Change]:
        """Makes the running lab as it is described now."""
        wanted = self._wanted()
        wanted.running = True
        return self.client.put_lab(self.name, wanted).changes

    def _wanted(self) -> api.PutLab:
        return api.PutLab(spec=self.spec, folder=str(self.folder.resolve()), env=self.env)

    def down(self) -> None:
        """Ends it: programs, machines, captures and series. A recording of it is complete then."""
        taken, self._control, self._client = self._control, None, None
        handlers, self._handlers = self._handlers, None
        if taken is None:
            return
        try:
            taken.client.remove_lab(self.name)
        except BaseException as error:
            control.pool.discard(taken)
            if not isinstance(error, ConnectionLostError):
                raise
        else:
            control.pool.give_back(taken)
        finally:
            if handlers:
                handlers.close()

    def __enter__(self) -> Self:
        return self if self.is_up else self.up()

    def __exit__(self, kind: object, *_: object) -> None:
        handlers = self._handlers
        self.down()
        if handlers and kind is None:
            handlers.check()

    def status(self) -> api.LabStatus:
        """How it is."""
        return self.client.lab(self.name)

    # Its clock.

    @property
    def clock(self) -> api.Clock:
        """How its clock is."""
        return self.client.clock(self.name)

    def until(
        self, time: Span | None = None, *, ended: str | Program | None = None, ready: str | Program | None = None
    ) -> api.Clock:
        """Lets a virtual clock go until the lab has been up so long, or a program has ended or is ready.

        A program is `machine.name`, or one that `popen` has started.

        Examples:
            >>> lab = Lab(time="virtual")
            >>> a = lab.machine("a")
            >>> with lab:
            ...     lab.until("1h").nanoseconds
            ...     lab.step(0.5).nanoseconds
            3600000000000
            3600500000000
        """
        run_clock = api.RunClock(
            until=None if time is None else span(time),
            ended=None if ended is None else str(ended),
            ready=None if ready is None else str(ready),
        )
        return self._run_clock(run_clock)

    def step(self, to: Span | Literal["event", "packet", "call"] = "event") -> api.Clock:
        """Lets a virtual clock go for so long, or to the next event of the kernel, packet, or program's call."""
        if to in ("event", "packet", "call"):
            return self._run_clock(api.RunClock(next=cast(api.Step, to)))
        if self._handlers is None:
            return self._run_clock(api.RunClock(by=span(to)))
        # A stop by a handler's breakpoint must not make it shorter.
        number = to.total_seconds() if isinstance(to, timedelta) else to
        if isinstance(number, str):
            return self._run_clock(api.RunClock(by=number))
        return self._run_clock(api.RunClock(until=f"{self.clock.nanoseconds + round(number * 1e9)}ns"))

    def _run_clock(self, wanted: api.RunClock) -> api.Clock:
        while True:
            handlers = self._handlers
            before = handlers.count if handlers else 0
            clock = self.client.run_clock(self.name, wanted)
            if handlers is None or not handlers.went_on(self, clock, before):
                self._check()
                return clock

    def pause(self) -> api.Clock:
        """Stops its clock, whatever waits."""
        return self.client.change_clock(self.name, api.ChangeClock(paused=True))

    def resume(self) -> api.Clock:
        """Ends a pause, or a breakpoint's stop."""
        return self.client.change_clock(self.name, api.ChangeClock(paused=False))

    # What happens in it.

    def breakpoint(
        self,
        at: str | None = None,
        handler: Handler | None = None,
        *,
        name: str | None = None,
        **spec: Any,
    ) -> Breakpoint:
        """Sets a breakpoint at `machine:interface`, a machine, a wire, or everywhere.

        Keywords are a lab file's keys (`on`, `filter`, `tcp`, `after`, `times`, `drop`, `delay` ...). With a handler
        the lab stops, the handler is called with what has stopped it (it may decide about the packet, see `Hit`), and
        the lab goes on when it returns. The handler must not wait for a program, which would not run before that.

        Examples:
            >>> lab = Lab(time="virtual")
            >>> wire = lab.wire("a", "b")
            >>> with lab:
            ...     first = lab.breakpoint("a:eth0", filter="icmp[0] == 8", drop=True, times=1)
            ...     lab["a"].run(["ping", "-c", "1", "-W", "1", "b"]).returncode
            ...     lab["a"].run(["ping", "-c", "1", "-W", "1", "b"]).returncode
            ...     first.hits
            1
            0
            1
        """
        wanted = {key: span(value) if key == "delay" else value for key, value in spec.items()}
        if at is not None:
            wanted["at"] = at
        if handler is not None:
            wanted.setdefault("stop", "all")
            if self._handlers is None:
                self._handlers = _Handlers(self)
        new = api.NewBreakpoint(spec=cast(api.BreakpointSpec, wanted), name=name)
        handlers = self._handlers
        if handlers is None or handler is None:
            return Breakpoint(self, self.client.add_breakpoint(self.name, new).name)
        # It may be met before its name is known.
        with handlers.lock:
            made = self.client.add_breakpoint(self.name, new)
            handlers.by_name[made.name] = handler
        return Breakpoint(self, made.name)

    def events(self, *watch: str) -> Iterator[api.Event]:
        """What happens from the first `next` on; packets, too, of interfaces `machine:interface` that are named."""
        return self.client.events(lab=self.name, watch=",".join(watch) or None)

    def series(
        self,
        name: str,
        *,
        values: Mapping[str, str] | None = None,
        every: Span | None = None,
        **spec: Any,
    ) -> Series:
        """A time series: the lab file's of this name, or a new one with these columns (docs/time-series.md)."""
        if values is None:
            for known in self.client.series(self.name):
                if known.name == name:
                    return Series(self, name, Path(known.path))
            raise KeyError(f"lab {self.name} has no series {name}: `values` would make one")
        if self._scratch is None:
            self._scratch = tempfile.TemporaryDirectory(prefix="vink-tables-")
        wanted = {"file": f"{self._scratch.name}/{name}.csv", **spec, "values": dict(values)}
        if every is not None:
            wanted["every"] = span(every)
        made = self.client.add_series(self.name, api.NewSeries(name=name, spec=cast(api.SeriesSpec, wanted)))
        return Series(self, name, Path(made.path))

    def capture(
        self, file: str | os.PathLike[str], *interfaces: str, filter: str | None = None, snap: int = 0
    ) -> Capture:
        """Writes packets to a pcapng file from now on: of `machine:interface`s, or of all that the lab has."""
        if not interfaces:
            described = self.spec.get("machines", {}).items()
            interfaces = tuple(f"{name}:{each}" for name, spec in described for each in spec.get("interfaces", {}))
        wanted = api.NewCapture(interfaces=list(interfaces), filter=filter, snap=snap, path=str(Path(file).absolute()))
        return Capture(self, self.client.start_capture(self.name, wanted))

    def view(self, height: int = 420) -> View:
        """The lab's picture as a widget, for notebooks: `pip install anywidget`. `height` is in CSS pixels."""
        try:
            from vink.view import View
        except ModuleNotFoundError as missing:
            raise NotFoundError(f"pictures in notebooks need {missing.name}: pip install anywidget") from missing
        return View(self.client, self.name, height)

    def _check(self) -> None:
        """Raises what a handler has raised."""
        if self._handlers:
            self._handlers.check()

    def __repr__(self) -> str:
        return f"<vink.Lab {self.name}: {'up' if self.is_up else 'not up'}>"

    def _repr_html_(self) -> str:
        """For notebooks: its machines and wires as they are described."""
        machines = self.spec.get("machines", {})
        ends: dict[str, list[str]] = {name: [] for name in self.spec.get("wires", {})}
        for name, machine in machines.items():
            for interface, spec in machine.get("interfaces", {}).items():
                if wire := spec.get("wire"):
                    ends.setdefault(wire, []).append(f"{name}:{interface}")
        interfaces = {
            name: "; ".join(
                " ".join([each, *spec.get("addresses", [])]) for each, spec in machine.get("interfaces", {}).items()
            )
            for name, machine in machines.items()
        }
        wires = {
            name: (
                ", ".join(at),
                ", ".join(f"{key} {value}" for key, value in self.spec["wires"].get(name, {}).items()),
            )
            for name, at in ends.items()
        }
        return (
            f"<p><b>{html.escape(repr(self)[1:-1])}</b></p>"
            + html_table(["machine", "interfaces"], list(interfaces.items()))
            + html_table(["wire", "ends", "settings"], [(name, *texts) for name, texts in wires.items()])
        )


class Machine:
    """A machine of a lab."""

    def __init__(self, lab: Lab, name: str) -> None:
        self.lab = lab
        self.name = name

    @property
    def _spec(self) -> api.MachineSpec:
        return self.lab.spec["machines"][self.name]

    # Describing it.

    def interface(self, name: str, **spec: Any) -> Self:
        """Describes an interface: `wire`, `addresses`, `mac`."""
        interfaces = self._spec.setdefault("interfaces", {})
        interfaces.setdefault(name, {}).update(cast(api.InterfaceSpec, spec))
        return self

    def route(self, to: str, **spec: Any) -> Self:
        """Describes a route: `via`, `dev`, `metric`."""
        self._spec.setdefault("routes", []).append(cast(api.Route, {"to": to, **spec}))
        return self

    def program(self, name: str, command: Words | None = None, **spec: Any) -> Self:
        """Describes a program, which starts with the lab: `ready`, `after`, `env`, `restart`; or `app`, no command."""
        described: dict[str, Any] = dict(spec)
        if command is not None:
            described["command"] = command if isinstance(command, str) else words(command)
        self._spec.setdefault("programs", {})[name] = cast(api.ProgramSpec, described)
        return self

    # What it does.

    @overload
    def run(
        self,
        args: Words,
        *,
        input: str | bytes | None = ...,
        check: bool = ...,
        timeout: float | None = ...,
        text: Literal[True] = ...,
        env: Mapping[str, str] | None = ...,
        cwd: str | os.PathLike[str] | None = ...,
        rights: api.Rights | None = ...,
    ) -> subprocess.CompletedProcess[str]: ...

    @overload
    def run(
        self,
        args: Words,
        *,
        input: str | bytes | None = ...,
        check: bool = ...,
        timeout: float | None = ...,
        text: Literal[False],
        env: Mapping[str, str] | None = ...,
        cwd: str | os.PathLike[str] | None = ...,
        rights: api.Rights | None = ...,
    ) -> subprocess.CompletedProcess[bytes]: ...

    def run(
        self,
        args: Words,
        *,
        input: str | bytes | None = None,
        check: bool = False,
        timeout: float | None = None,
        text: bool = True,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        rights: api.Rights | None = None,
    ) -> subprocess.CompletedProcess[str] | subprocess.CompletedProcess[bytes]:
        """Runs a program to its end, as subprocess.run does with its output captured. A virtual clock goes for it.

        timeout: seconds of the host's clock, after which the program is ended and subprocess.TimeoutExpired raised. The
        return code is negative if a signal has ended it.

        Examples:
            >>> lab = Lab(time="virtual")
            >>> a = lab.machine("a")
            >>> with lab:
            ...     a.run("hostname; cat", input="said").stdout
            'a\\nsaid'
        """
        new = self._new(args, env, cwd, rights)
        done = run(self.lab.client, self.lab.name, new, input, timeout)
        self.lab._check()
        result: subprocess.CompletedProcess[Any] = done
        if text:
            result.stdout = done.stdout.decode(errors="surrogateescape")
            result.stderr = done.stderr.decode(errors="surrogateescape")
        if check:
            result.check_returncode()
        return result

    def popen(
        self,
        args: Words,
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        rights: api.Rights | None = None,
    ) -> Program:
        """Starts a program, which goes on until it ends or the lab does. No virtual clock goes for it.

        Examples:
            >>> lab = Lab(time="virtual")
            >>> a = lab.machine("a")
            >>> with lab:
            ...     sleeper = a.popen(["sleep", "3600"])
            ...     print(sleeper.poll())
            ...     sleeper.wait(), round(lab.clock.seconds)
            None
            (0, 3600)
        """
        started = self.lab.client.start_program(self.lab.name, self._new(args, env, cwd, rights))
        return Program(self.lab.client, self.lab.name, started, self.lab.spec.get("time", "real") != "real")

    def _new(
        self,
        args: Words,
        env: Mapping[str, str] | None,
        cwd: str | os.PathLike[str] | None,
        rights: api.Rights | None,
    ) -> api.NewProgram:
        return api.NewProgram(
            machine=self.name,
            words=words(args),
            env=dict(env or {}),
            dir=None if cwd is None else os.fspath(cwd),
            rights=rights,
        )

    def wait_for_port(self, port: int, timeout: float = 30.0) -> None:
        """Returns when a program of it listens on a TCP port. In virtual time that is rarely needed."""
        deadline = host_time.monotonic() + timeout
        while not self.run(["ss", "-Hltn", f"sport = :{port}"], check=True).stdout:
            if host_time.monotonic() > deadline:
                raise TimeoutError(f"nothing listens on port {port} of machine {self.name} after {timeout} s")
            host_time.sleep(0.02)

    def status(self) -> api.Machine:
        """How it is: interfaces with their addresses and counters."""
        return self.lab.client.machine(self.lab.name, self.name)

    def __repr__(self) -> str:
        return f"<vink.Machine {self.name} of {self.lab.name}>"


class Wire:
    """A wire of a lab."""

    def __init__(self, lab: Lab, name: str) -> None:
        self.lab = lab
        self.name = name

    def set(self, from_: str | None = None, **values: Any) -> api.Wire | None:
        """Other settings from now on, of one direction only with `from_`. What is not named stays."""
        made = settings(values)
        described = self.lab.spec.setdefault("wires", {}).setdefault(self.name, {})
        if from_ is None:
            described.update(cast(api.WireSpec, made))
        else:
            described.setdefault("from", {}).setdefault(from_, cast(api.Settings, {})).update(made)
        if not self.lab.is_up:
            return None
        return self.lab.client.change_wire(self.lab.name, self.name, api.ChangeWire(settings=made, from_=from_))

    def plug(self, up: bool = True) -> api.Wire:
        """Plugs it in, or out."""
        return self.lab.client.change_wire(self.lab.name, self.name, api.ChangeWire(up=up))

    def status(self) -> api.Wire:
        """How it is, with counters of its ends."""
        return self.lab.client.wire(self.lab.name, self.name)

    def __repr__(self) -> str:
        return f"<vink.Wire {self.name} of {self.lab.name}>"


class Hit:
    """What has stopped a lab: a packet, about which the handler may decide. It passes if nothing is said.

    Examples:
        >>> def third(hit):
        ...     if hit.number == 1:
        ...         hit.drop()
        ...     elif hit.number == 2:
        ...         hit.delay("2s")
        ...     else:
        ...         hit.replace(hit.frame[:-4] + b"last")
        >>> lab = Lab(time="virtual")
        >>> wire = lab.wire("a", "b")
        >>> with lab:
        ...     echo = lab.breakpoint("a:eth0", third, filter="icmp[0] == 8")
        ...     said = lab["a"].run(["ping", "-c", "3", "-W", "3", "b"]).stdout
        >>> "3 packets transmitted, 2 received" in said, "time=2000 ms" in said
        (True, True)
        >>> "wrong data byte #52 should be 0x34 but was 0x6c" in said
        True
    """

    def __init__(self, lab: Lab, name: str, number: int, packet: api.Packet, frame: str | None = None) -> None:
        self.lab = lab
        """It stands."""
        self.name = name
        """The breakpoint's."""
        self.number = number
        """How often it was met by now."""
        self.packet = packet
        """By which packet."""
        self.frame = None if frame is None else bytes.fromhex(frame)
        """Its bytes, from the Ethernet header on; None of a packet that is lost already."""

    def drop(self) -> None:
        """The packet is lost."""
        self._decide(api.PacketVerdict(number=self.number, drop=True))

    def delay(self, time: Span) -> None:
        """The packet passes so much later. Those behind it overtake it."""
        self._decide(api.PacketVerdict(number=self.number, delay=span(time)))

    def replace(self, frame: bytes, *, checksums: bool = True) -> None:
        """Other bytes pass in its place, from the Ethernet header on: `frame` with a change, for instance.

        checksums: those of IPv4, TCP, UDP and ICMP are made right.
        """
        frame = with_checksums(frame) if checksums else frame
        self._decide(api.PacketVerdict(number=self.number, frame=frame.hex()))

    def _decide(self, verdict: api.PacketVerdict) -> None:
        self.lab.client.decide_packet(self.lab.name, self.name, verdict)


class Breakpoint:
    """A breakpoint of a running lab. Left as a context manager, it is removed."""

    def __init__(self, lab: Lab, name: str) -> None:
        self.lab = lab
        self.name = name

    def status(self) -> api.Breakpoint:
        """How often it was met."""
        known = self.lab.client.breakpoints(self.lab.name).breakpoints
        return next(each for each in known if each.name == self.name)

    @property
    def hits(self) -> int:
        """Packets that it has done something to."""
        return self.status().hits

    def enable(self, enabled: bool = True) -> None:
        """Has it do something, or nothing for a while."""
        self.lab.client.change_breakpoint(self.lab.name, self.name, api.ChangeBreakpoint(enabled=enabled))

    def remove(self) -> None:
        """Removes it; what waits because of it goes on."""
        self.lab.client.remove_breakpoint(self.lab.name, self.name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.lab.is_up:
            self.remove()


class _Handlers:
    """A thread that calls handlers as their breakpoints are met."""

    def __init__(self, lab: Lab) -> None:
        self.by_name: dict[str, Handler] = {}
        self.lock = threading.Lock()
        # How many have returned and had the lab go on; whether one is called; whether a breakpoint without a handler
        # has stopped the lab.
        self.count = 0
        self.is_called = False
        self.stopped = False
        self.changed = threading.Condition()
        self.error: BaseException | None = None
        self.socket = lab.client._open("/v1/events" + query_of(lab=lab.name))
        self.thread = threading.Thread(target=self._follow, args=[lab], daemon=True, name=f"vink {lab.name}")
        self.thread.start()

    def _follow(self, lab: Lab) -> None:
        try:
            while (message := self.socket.receive()) is not None:
                event = api.Event.from_json(json.loads(message))
                if event.kind == "breakpoint" and event.breakpoint and event.packet and event.stopped:
                    self._met(lab, Hit(lab, event.breakpoint, event.number or 0, event.packet, event.frame))
        finally:
            with self.changed:
                self.stopped = True
                self.changed.notify_all()

    def _met(self, lab: Lab, hit: Hit) -> None:
        with self.lock:
            handler = self.by_name.get(hit.name)
        if handler is None:
            with self.changed:
                self.stopped = True
                self.changed.notify_all()
            return
        with self.changed:
            self.is_called = True
        try:
            handler(hit)
        except BaseException as error:
            self.error = self.error or error
        # The lab may have gone, or was resumed by the handler itself.
        with contextlib.suppress(Error):
            lab.client.resume(lab.name)
        with self.changed:
            self.is_called = False
            self.count += 1
            self.changed.notify_all()

    def went_on(self, lab: Lab, clock: api.Clock, before: int) -> bool:
        """Whether the clock has ended early for a handler, which has returned."""
        with self.changed:
            # The lab may go on already whose stop has ended it, while the thread does not yet.
            if clock.state != "stopped" and self.count == before and not self.is_called:
                return False
            self.changed.wait_for(lambda: self.count > before or self.stopped)
            stopped, self.stopped = self.stopped, not self.thread.is_alive()
            return self.error is None and not stopped

    def check(self) -> None:
        """Raises what a handler has raised."""
        error, self.error = self.error, None
        if error:
            raise error

    def close(self) -> None:
        """Ends the thread."""
        self.socket.close()
        if self.thread is not threading.current_thread():
            self.thread.join()


class Series:
    """A time series, which a file has. It grows while the lab runs."""

    def __init__(self, lab: Lab, name: str, path: Path) -> None:
        self.lab = lab
        self.name = name
        self.path = path
        """The file."""

    def stop(self) -> api.Series:
        """Ends it, and tells how many rows it has."""
        return self.lab.client.remove_series(self.lab.name, self.name)

    def table(self) -> Table:
        """What it has by now."""
        return Table.read(self.path)


class Capture:
    """A capture that goes on. Left as a context manager, it ends."""

    def __init__(self, lab: Lab, started: api.Capture) -> None:
        self.lab = lab
        self.status = started
        """How it is: with `written` packets when it has ended."""

    def stop(self) -> api.Capture:
        """Ends it: the file is complete."""
        self.status = self.lab.client.stop_capture(self.lab.name, str(self.status.id))
        return self.status

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.lab.is_up and self.status.written is None:
            self.stop()
