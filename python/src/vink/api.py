"""The control API: its objects, and a client for each kind of program, plain and async.

Written by generate.py from the description that the control process serves. Not to be edited.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self, TypeAlias, TypedDict

from vink._transport import AsyncSocket, AsyncTransport, Socket, Transport, given, path_of, query_of

AtSwitch: TypeAlias = "str | PortOf"
"""The switch that an interface is at, by its name, or with what is said of the port."""


BreakpointSpec = TypedDict(
    "BreakpointSpec",
    {
        "at": "str | None",
        "on": "Points",
        "filter": "str | None",
        "tcp": "str | None",
        "stop": "Stop | None",
        "log": "bool",
        "drop": "bool",
        "corrupt": "bool",
        "delay": "Span | None",
        "reorder": "int | None",
        "duplicate": "int | None",
        "run": "str | None",
        "after": "int",
        "times": "int | None",
        "disabled": "bool",
    },
    total=False,
)
"""A breakpoint. With no word of what becomes of a packet (`stop` to `run`) the lab stops."""


Burst = TypedDict(
    "Burst",
    {
        "start": "Share",
        "end": "Share",
        "loss": "Share",
        "good-loss": "Share",
    },
    total=False,
)
"""Losses by the model of Gilbert and Elliott: a wire is in a good or in a bad state, and changes
between them with each packet."""


Calls: TypeAlias = "Literal['auto'] | Literal['shared'] | Literal['trapped']"
"""How dynamically linked programs make their calls on sockets (docs/calls.md). All others trap each
call."""


ChangeKind: TypeAlias = "Literal['add'] | Literal['change'] | Literal['remove']"
"""How something was changed."""


Claim: TypeAlias = "str"
"""All of some comparisons."""


ClockKind: TypeAlias = "dict[str, Any]"
"""A part of a lab file."""


ClockName: TypeAlias = "Literal['real'] | Literal['virtual']"
"""A part of a lab file."""


ClockState: TypeAlias = "Literal['running'] | Literal['standing'] | Literal['paused'] | Literal['stopped']"
"""What a clock does."""


Command: TypeAlias = "str | list[str]"
"""What is executed."""


Core: TypeAlias = "int | list[int]"
"""The processors that a worker and the programs of its machines stay on: `core: 1`, or a list."""


Driver: TypeAlias = "dict[str, Any]"
"""What a driver process opens."""


EventSpec = TypedDict(
    "EventSpec",
    {
        "at": "Span",
        "every": "Span | None",
        "do": "str",
    },
    total=False,
)
"""Switch box lines, carried out when the lab has been up for so long."""


Factor: TypeAlias = "float"
"""How many times as fast as the host's clock."""


FileSpec: TypeAlias = "str | dict[str, Any]"
"""What is in a file of a machine, or in a filter."""


FromClient: TypeAlias = "dict[str, Any]"
"""What a client of a program says."""


FromServer: TypeAlias = "dict[str, Any]"
"""What a client is told about its program."""


FromViewer: TypeAlias = "dict[str, Any]"
"""What a viewer says."""


HostSpec = TypedDict(
    "HostSpec",
    {
        "ssh": "str | None",
        "command": "list[str]",
        "vink": "str | None",
        "address": "str | None",
        "port": "int | None",
    },
    total=False,
)
"""A computer, and the way to it."""


HostState: TypeAlias = "Literal['connecting'] | Literal['connected'] | Literal['lost']"
"""Whether a host is there."""


InterfaceSpec = TypedDict(
    "InterfaceSpec",
    {
        "wire": "str | None",
        "switch": "AtSwitch | None",
        "addresses": "list[str]",
        "mac": "str | None",
        "filter": "FileSpec | None",
    },
    total=False,
)
"""An interface of a machine, at a wire."""


Lab = TypedDict(
    "Lab",
    {
        "name": "str",
        "time": "Time",
        "seed": "int | None",
        "memory": "str | None",
        "calls": "Calls",
        "images": "dict[str, str]",
        "hosts": "dict[str, HostSpec]",
        "machines": "dict[str, MachineSpec]",
        "switches": "dict[str, SwitchSpec]",
        "wires": "dict[str, WireSpec]",
        "breakpoints": "dict[str, BreakpointSpec]",
        "pods": "dict[str, PodSpec]",
        "paths": "dict[str, PathSpec]",
        "series": "dict[str, SeriesSpec]",
        "always": "dict[str, Claim]",
        "eventually": "dict[str, Claim]",
        "events": "list[EventSpec]",
    },
    total=False,
)
"""A lab: what `vink lab up` makes and `vink lab save` writes."""


LabState: TypeAlias = (
    "Literal['starting'] | Literal['running'] | Literal['broken'] | Literal['failed'] | Literal['ending']"
)
"""How far a lab is."""


MachineSpec = TypedDict(
    "MachineSpec",
    {
        "host": "str | None",
        "image": "str | None",
        "worker": "str | None",
        "core": "Core | None",
        "interfaces": "dict[str, InterfaceSpec]",
        "routes": "list[Route]",
        "forward": "bool",
        "rights": "Rights",
        "sysctls": "dict[str, Scalar]",
        "files": "dict[str, FileSpec]",
        "root": "str | None",
        "filter": "FileSpec | None",
        "setup": "list[str]",
        "programs": "dict[str, ProgramSpec]",
        "relays": "dict[str, RelaySpec]",
    },
    total=False,
)
"""A machine: its interfaces, what its kernel is told, and what runs on it."""


MachineState: TypeAlias = "Literal['starting'] | Literal['running'] | Literal['dead'] | Literal['lost']"
"""Whether a machine runs."""


NodeKind: TypeAlias = "Literal['machine'] | Literal['router'] | Literal['switch']"
"""What a node is."""


OnFault: TypeAlias = "Literal['drop'] | Literal['pass']"
"""What becomes of a path's packets when one of its pods has ended."""


PathPoint: TypeAlias = "Literal['departure'] | Literal['arrival']"
"""Where on its way a packet meets a path."""


PathSpec = TypedDict(
    "PathSpec",
    {
        "at": "str",
        "stream": "str | None",
        "on": "PathPoint | None",
        "filter": "str | None",
        "mark": "int | None",
        "pods": "list[str]",
        "period": "Span | None",
        "cycles": "int | None",
        "bytes": "str | None",
        "queue": "int | None",
        "class": "int",
        "on-fault": "OnFault",
    },
    total=False,
)
"""A path: packets at an interface, or a stream of a machine's virtualized process, and the pods
that they go through."""


PodSpec = TypedDict(
    "PodSpec",
    {
        "file": "str",
        "wall": "Wall | None",
        "config": "str",
        "memory": "str | None",
        "time": "Span | None",
    },
    total=False,
)
"""A pod: code on a packet's path, in a protection domain of its own."""


Point: TypeAlias = "Literal['departure'] | Literal['arrival'] | Literal['loss']"
"""What happens to a packet at an interface."""


Points: TypeAlias = "Point | list[Point]"
"""One event, or several."""


PortOf = TypedDict(
    "PortOf",
    {
        "name": "str",
        "pin": "bool | None",
        "vlan": "int | None",
        "tagged": "list[int]",
        "group": "str | None",
        "filter": "FileSpec | None",
    },
    total=False,
)
"""A port that an interface makes at a switch."""


PortSpec = TypedDict(
    "PortSpec",
    {
        "wire": "str | None",
        "mac": "str | None",
        "addresses": "list[SourceAddress]",
        "pin": "bool | None",
        "vlan": "int | None",
        "tagged": "list[int]",
        "group": "str | None",
        "filter": "FileSpec | None",
    },
    total=False,
)
"""A port of a switch."""


ProgramInput: TypeAlias = "dict[str, Any] | Literal['end'] | Literal['hang-up']"
"""What a client gives a program."""


ProgramSpec = TypedDict(
    "ProgramSpec",
    {
        "command": "Command | None",
        "app": "str | None",
        "env": "dict[str, str]",
        "dir": "str | None",
        "after": "list[str]",
        "ready": "Readiness | None",
        "restart": "Restart",
    },
    total=False,
)
"""A program: an unmodified program of the host, or with `app` a virtualized process."""


ProgramState: TypeAlias = "Literal['waiting'] | Literal['starting'] | Literal['running'] | Literal['ended']"
"""How far a program is."""


Quantity: TypeAlias = "str"
"""A number that can be looked at."""


Rate: TypeAlias = "str | Literal[0]"
"""Bits per second: 10mbit, 1.5gbit, 64kbit; with bps for bit: bytes per second; 0 is unlimited."""


Readiness: TypeAlias = "ReadyBySuccess | ReadyBy"
"""When a program counts as ready, and how long that may take."""


ReadyBy = TypedDict(
    "ReadyBy",
    {
        "port": "int | None",
        "command": "str | None",
        "output": "str | None",
        "time": "Span | None",
        "timeout": "Span | None",
    },
    total=False,
)
"""A part of a lab file."""


ReadyBySuccess: TypeAlias = "Literal['success']"
"""A part of a lab file."""


RelayProtocol: TypeAlias = "Literal['tcp'] | Literal['udp']"
"""What a relay passes on."""


RelaySpec = TypedDict(
    "RelaySpec",
    {
        "protocol": "RelayProtocol",
        "listen": "str",
        "to": "str",
        "path": "str | None",
    },
    total=False,
)
"""A relay: TCP connections, or UDP's datagrams, that come to an address of the machine go on to a
target."""


Restart: TypeAlias = "Literal['never'] | Literal['on-failure'] | Literal['always']"
"""Whether a program is started again."""


Rights: TypeAlias = "Literal['full'] | Literal['user']"
"""What programs may do on their machine (docs/rights.md)."""


Role: TypeAlias = "Literal['view'] | Literal['draw'] | Literal['operate'] | Literal['own']"
"""What a client may do. Each one may do what those before it may."""


Route = TypedDict(
    "Route",
    {
        "to": "str",
        "via": "str | None",
        "dev": "str | None",
        "metric": "int | None",
    },
    total=False,
)
"""A static route."""


SampleEvent: TypeAlias = "Literal['departure'] | Literal['arrival'] | Literal['loss'] | Literal['ack'] | Literal['retransmit'] | Literal['congestion'] | Literal['state'] | Literal['read'] | Literal['end']"
"""An event at which numbers are looked at."""


Scalar: TypeAlias = "int | str"
"""A value as it is written in YAML: 1 is as good as "1"."""


SeriesSpec = TypedDict(
    "SeriesSpec",
    {
        "every": "Span | None",
        "on": "SampleEvent | None",
        "at": "str | None",
        "values": "dict[str, Quantity]",
        "file": "str | None",
    },
    total=False,
)
"""Columns of numbers, a row for each time that they are looked at."""


Settings = TypedDict(
    "Settings",
    {
        "rate": "Rate | None",
        "delay": "Span | None",
        "jitter": "Span | None",
        "overtake": "bool | None",
        "loss": "Share | None",
        "burst": "Burst | None",
        "corrupt": "Share | None",
        "duplicate": "Share | None",
        "reorder": "Share | None",
        "limit": "int | None",
        "mtu": "int | None",
    },
    total=False,
)
"""What happens to packets that are sent at one end of a wire. What is not named is ideal; with
nothing named the wire hands packets over whole. See docs/wires.md."""


Share: TypeAlias = "str | float"
"""A probability: 1%, 0.5%, or a fraction such as 0.01."""


ShareSpec = TypedDict(
    "ShareSpec",
    {
        "addresses": "list[str]",
        "ports": "list[TransportPort]",
        "on-demand": "bool",
        "ephemeral": "int",
    },
    total=False,
)
"""What a machine is to have of the host's address. In the short form items follow each other with
commas: addresses, ports, `on-demand`, `ephemeral=COUNT`."""


SourceAddress: TypeAlias = "str"
"""A part of a lab file."""


Span: TypeAlias = "str | Literal[0]"
"""A length of time: 10ms, 1.5s, 20us, 2min; only 0 needs no unit."""


Speed: TypeAlias = "Literal['max'] | dict[str, Any]"
"""How fast a clock may go."""


Step: TypeAlias = "Literal['event'] | Literal['packet'] | Literal['call']"
"""A step of a clock."""


Stop: TypeAlias = "Literal['all'] | Literal['machine']"
"""What stops at a breakpoint."""


SwitchSpec = TypedDict(
    "SwitchSpec",
    {
        "host": "str | None",
        "image": "str | None",
        "core": "Core | None",
        "vlan": "bool | None",
        "multicast-snooping": "bool | None",
        "filter": "FileSpec | None",
        "ports": "dict[str, PortSpec]",
    },
    total=False,
)
"""A switch."""


Time: TypeAlias = "ClockName | ClockKind"
"""The clock of a lab: `real`, `virtual`, or `{scaled: 2}`."""


ToViewer: TypeAlias = "Literal['subscribed'] | dict[str, Any]"
"""What a viewer is told beside frames."""


TransportPort: TypeAlias = "str | int"
"""A port of TCP, or of UDP: 80, 53/udp."""


Uplink: TypeAlias = "dict[str, Any]"
"""What a wire is joined to outside the box. It has a short form, as in `--uplink`; see
[`Uplink::from_str`]."""


Virtual = TypedDict(
    "Virtual",
    {
        "uplinks": "bool",
        "call": "Span | None",
        "rdtsc": "bool",
    },
    total=False,
)
"""What may be said of a virtual clock."""


Wall: TypeAlias = "Literal['process'] | Literal['wasm'] | Literal['key'] | Literal['none']"
"""What protects everything else from a pod."""


WireSpec = TypedDict(
    "WireSpec",
    {
        "rate": "Rate | None",
        "delay": "Span | None",
        "jitter": "Span | None",
        "overtake": "bool | None",
        "loss": "Share | None",
        "burst": "Burst | None",
        "corrupt": "Share | None",
        "duplicate": "Share | None",
        "reorder": "Share | None",
        "limit": "int | None",
        "mtu": "int | None",
        "bus": "bool | None",
        "up": "bool | None",
        "from": "dict[str, Settings]",
        "uplink": "Uplink | None",
    },
    total=False,
)
"""A wire: what it does to packets, in both directions unless said otherwise."""


@dataclass(slots=True, kw_only=True)
class Applied:
    """What [`PutLab`] came to."""

    lab: str
    """The lab."""
    created: bool
    """It did not run before."""
    changes: list[Change]
    """What was changed (or would be), in order; nothing if the lab was as asked for."""
    switchbox: str | None = None
    """Where its switch box listens."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            lab=value["lab"],
            created=value["created"],
            changes=[Change.from_json(each) for each in value["changes"]],
            switchbox=value.get("switchbox", None),
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("lab", self.lab),
            ("created", self.created),
            ("changes", [each.to_json() for each in self.changes]),
            ("switchbox", self.switchbox),
        )


@dataclass(slots=True, kw_only=True)
class Breakpoint:
    """A breakpoint."""

    name: str
    """Its name."""
    spec: BreakpointSpec
    """As in a lab file."""
    seen: int
    """Packets that it was about."""
    hits: int
    """Packets that it has done something to."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            name=value["name"],
            spec=value["spec"],
            seen=value["seen"],
            hits=value["hits"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("name", self.name),
            ("spec", self.spec),
            ("seen", self.seen),
            ("hits", self.hits),
        )


@dataclass(slots=True, kw_only=True)
class Breakpoints:
    """All breakpoints of a lab."""

    breakpoints: list[Breakpoint]
    """In the order in which they were set."""
    stopped: bool
    """One has stopped all of the lab."""
    machines: list[str]
    """Machines that one has stopped."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            breakpoints=[Breakpoint.from_json(each) for each in value["breakpoints"]],
            stopped=value["stopped"],
            machines=value["machines"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("breakpoints", [each.to_json() for each in self.breakpoints]),
            ("stopped", self.stopped),
            ("machines", self.machines),
        )


@dataclass(slots=True, kw_only=True)
class Capture:
    """A capture."""

    id: int
    """Its number in the lab."""
    interfaces: list[str]
    """Of which interfaces: `machine:interface`."""
    filter: str | None = None
    """Which packets."""
    path: str | None = None
    """The file; none: they go to a client, or the lab keeps them."""
    readable: bool
    """Whether its packets can be asked for."""
    running: bool
    """Whether it goes on."""
    error: str | None = None
    """Why it ended by itself."""
    written: int | None = None
    """Packets written, when it has ended."""
    missed: int | None = None
    """Packets that came faster than they could be written."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            id=value["id"],
            interfaces=value["interfaces"],
            filter=value.get("filter", None),
            path=value.get("path", None),
            readable=value["readable"],
            running=value["running"],
            error=value.get("error", None),
            written=value.get("written", None),
            missed=value.get("missed", None),
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("id", self.id),
            ("interfaces", self.interfaces),
            ("filter", self.filter),
            ("path", self.path),
            ("readable", self.readable),
            ("running", self.running),
            ("error", self.error),
            ("written", self.written),
            ("missed", self.missed),
        )


@dataclass(slots=True, kw_only=True)
class CapturedPacket:
    """A packet of a capture or of a recorded run, in a line."""

    number: int
    """Its number, from 0 on; in a run its place in the journal."""
    nanoseconds: int
    """How long after the capture's first one; in a run on its clock."""
    end: str
    """Where: `machine:interface`."""
    what: str
    """`departure`, `arrival` or `loss`."""
    reason: str | None = None
    """Why it was lost, in the kernel's words."""
    length: int
    """Its length in bytes."""
    summary: str
    """In the manner of tcpdump(8)."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            number=value["number"],
            nanoseconds=value["nanoseconds"],
            end=value["end"],
            what=value["what"],
            reason=value.get("reason", None),
            length=value["length"],
            summary=value["summary"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("number", self.number),
            ("nanoseconds", self.nanoseconds),
            ("end", self.end),
            ("what", self.what),
            ("reason", self.reason),
            ("length", self.length),
            ("summary", self.summary),
        )


@dataclass(slots=True, kw_only=True)
class CapturedPackets:
    """Packets of a capture."""

    total: int
    """So many packets it has until now."""
    began: float
    """The date of the first one, in seconds since 1970; 0: there is none yet."""
    packets: list[CapturedPacket]
    """Those that were asked for."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            total=value["total"],
            began=value["began"],
            packets=[CapturedPacket.from_json(each) for each in value["packets"]],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("total", self.total),
            ("began", self.began),
            ("packets", [each.to_json() for each in self.packets]),
        )


@dataclass(slots=True, kw_only=True)
class Change:
    """One thing that was changed."""

    kind: ChangeKind
    """How."""
    object: str
    """What: `machine m1`, `wire w1`, `interface m1:eth0`, `program m1.web` ..."""
    text: str | None = None
    """What about it, in words, if there is more to say."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            kind=value["kind"],
            object=value["object"],
            text=value.get("text", None),
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("kind", self.kind),
            ("object", self.object),
            ("text", self.text),
        )


@dataclass(slots=True, kw_only=True)
class ChangeBreakpoint:
    """A breakpoint is to do something, or nothing for a while."""

    enabled: bool
    """To do something."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            enabled=value["enabled"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("enabled", self.enabled),
        )


@dataclass(slots=True, kw_only=True)
class ChangeClock:
    """`PATCH /v1/labs/NAME/clock`: what is not named stays as it is."""

    paused: bool | None = None
    """Stop the lab, or let it go on, also if a breakpoint has stopped it. One that lives by the host's
    clock is stopped as a breakpoint does it."""
    free: bool | None = None
    """Go on even if no program waits."""
    speed: Speed | None = None
    """The most times as fast as the host's clock that it goes."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            paused=value.get("paused", None),
            free=value.get("free", None),
            speed=value.get("speed", None),
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("paused", self.paused),
            ("free", self.free),
            ("speed", self.speed),
        )


@dataclass(slots=True, kw_only=True)
class ChangeInterface:
    """What is to be different about an interface. What is not named stays."""

    wire: str | None = None
    """Attach it to this wire. It is made anew for that, with its addresses: routes through it that the
    lab does not name are gone."""
    detach: bool = False
    """Detach it from its wire."""
    add: list[str] | None = None
    """Give it these addresses."""
    remove: list[str] | None = None
    """Take these from it."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            wire=value.get("wire", None),
            detach=value.get("detach", False),
            add=value.get("add", None),
            remove=value.get("remove", None),
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("wire", self.wire),
            ("detach", self.detach),
            ("add", self.add),
            ("remove", self.remove),
        )


@dataclass(slots=True, kw_only=True)
class ChangeWire:
    """What is to be different about a wire. What is not named stays."""

    settings: Settings = field(default_factory=Settings)
    """What it is to do to packets; an explicit zero makes a setting ideal again."""
    from_: str | None = None
    """Only to those that this end sends (`machine:interface`, or `outside`)."""
    replace: bool = False
    """The settings are all there are: those that are not named become ideal."""
    up: bool | None = None
    """Plug it in or out."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            settings=value.get("settings", {}),
            from_=value.get("from", None),
            replace=value.get("replace", False),
            up=value.get("up", None),
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("settings", self.settings),
            ("from", self.from_),
            ("replace", self.replace),
            ("up", self.up),
        )


@dataclass(slots=True, kw_only=True)
class CheckSpec:
    """`POST /v1/spec/check`: what a lab file says, and what is wrong with it."""

    text: str
    """Its text, in YAML."""
    folder: str | None = None
    """Its folder, absolute; without it, what paths lead to is not looked at."""
    name: str | None = None
    """Its name, for messages."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            text=value["text"],
            folder=value.get("folder", None),
            name=value.get("name", None),
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("text", self.text),
            ("folder", self.folder),
            ("name", self.name),
        )


@dataclass(slots=True, kw_only=True)
class CheckedSpec:
    """A lab file that was read."""

    spec: Lab | None = None
    """The lab, with all that it generates; none if it can't be used."""
    mistakes: list[Mistake]
    """What is wrong, in the order of the text."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            spec=value.get("spec", None),
            mistakes=[Mistake.from_json(each) for each in value["mistakes"]],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("spec", self.spec),
            ("mistakes", [each.to_json() for each in self.mistakes]),
        )


@dataclass(slots=True, kw_only=True)
class Clock:
    """How a lab's clock is."""

    time: Time
    """Which one it is."""
    state: ClockState
    """What it does."""
    seconds: float
    """How long the lab has been up by this clock, in seconds."""
    nanoseconds: int
    """The same in nanoseconds."""
    kernel_nanoseconds: int
    """What the kernel's clock is at, in nanoseconds: as packets and captures have it."""
    free: bool
    """It goes on even if no program waits."""
    speed: Factor | None = None
    """At most so many times as fast as the host's clock; none: as fast as it can be."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            time=value["time"],
            state=value["state"],
            seconds=value["seconds"],
            nanoseconds=value["nanoseconds"],
            kernel_nanoseconds=value["kernel-nanoseconds"],
            free=value["free"],
            speed=value.get("speed", None),
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("time", self.time),
            ("state", self.state),
            ("seconds", self.seconds),
            ("nanoseconds", self.nanoseconds),
            ("kernel-nanoseconds", self.kernel_nanoseconds),
            ("free", self.free),
            ("speed", self.speed),
        )


@dataclass(slots=True, kw_only=True)
class EndStatistics:
    """Figures of one direction of a wire."""

    end: str
    """`machine:interface`, or `outside`."""
    counters: dict[str, int]
    """By name: `sent`, `lost` ..."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            end=value["end"],
            counters=value["counters"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("end", self.end),
            ("counters", self.counters),
        )


@dataclass(slots=True, kw_only=True)
class Event:
    """Something that happened."""

    lab: str
    """In which lab."""
    time: float
    """Seconds since 1970."""
    actor: str | None = None
    """The user by whose request; none: it happened by itself."""
    kind: (
        Literal["progress"]
        | Literal["lab"]
        | Literal["asked"]
        | Literal["changed"]
        | Literal["clock"]
        | Literal["started"]
        | Literal["ready"]
        | Literal["ended"]
        | Literal["terminal"]
        | Literal["wire"]
        | Literal["uplink"]
        | Literal["timed"]
        | Literal["dead"]
        | Literal["host"]
        | Literal["kernel"]
        | Literal["log"]
        | Literal["capture-ended"]
        | Literal["packet"]
        | Literal["breakpoint"]
        | Literal["pod-ended"]
        | Literal["pod-log"]
        | Literal["missed"]
    )
    """What happened."""
    step: str | None = None
    """What is done now: `machines`, `programs` ..."""
    done: int | None = None
    """How many are done."""
    total: int | None = None
    """Of how many."""
    state: LabState | HostState | None = None
    method: str | None = None
    """`POST` and so on."""
    path: str | None = None
    body: str | None = None
    """JSON; none if it is long."""
    change: Change | None = None
    """What."""
    revision: int | None = None
    """How many changes of the lab there were by now."""
    clock: Clock | None = None
    """How it is now."""
    program: int | None = None
    machine: str | None = None
    """Its machine."""
    name: str | None = None
    """Its name, if it has one."""
    code: int | None = None
    """0 to 255, or 128 + a signal."""
    error: str | None = None
    viewers: int | None = None
    """How many clients look at it."""
    keyboard: str | None = None
    """The user of the client that has the keyboard."""
    wire: str | None = None
    from_: str | None = None
    """Of this end only."""
    settings: Settings | None = None
    """All of them."""
    up: bool | None = None
    """Whether it is plugged in."""
    line: str | None = None
    machines: list[str] | None = None
    """The machines."""
    message: str | None = None
    backtrace: list[str] | None = None
    """Symbols, innermost first."""
    log: str | None = None
    """The end of the kernel's log."""
    host: str | None = None
    """Its name."""
    worker: int | None = None
    """The worker's place in the lab's list."""
    pid: int | None = None
    """Its process."""
    image: str | None = None
    """The image's name."""
    capture: int | None = None
    """Its number."""
    nanoseconds: int | None = None
    """Nanoseconds of the kernel's clock."""
    end: str | None = None
    """`machine:interface`."""
    what: str | None = None
    """`departure`, `arrival` or `loss`."""
    reason: str | None = None
    """Why it was lost."""
    length: int | None = None
    """Bytes, with its Ethernet header."""
    summary: str | None = None
    """A line such as tcpdump's about it."""
    breakpoint: str | None = None
    """Its name."""
    number: int | None = None
    """How often it was met by now."""
    packet: Packet | None = None
    """By which packet."""
    stopped: Stop | None = None
    """What has stopped."""
    frame: str | None = None
    """The packet's bytes from its Ethernet header on, two hexadecimal digits each: if all of the lab
    has stopped before it passes."""
    pod: str | None = None
    """Its name."""
    fault: str | None = None
    """What it did."""
    events: int | None = None
    """How many are not told."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            lab=value["lab"],
            time=value["time"],
            actor=value.get("actor", None),
            kind=value["kind"],
            step=value.get("step", None),
            done=value.get("done", None),
            total=value.get("total", None),
            state=value.get("state", None),
            method=value.get("method", None),
            path=value.get("path", None),
            body=value.get("body", None),
            change=Change.from_json(value.get("change", None)) if "change" in value else None,
            revision=value.get("revision", None),
            clock=Clock.from_json(value.get("clock", None)) if "clock" in value else None,
            program=value.get("program", None),
            machine=value.get("machine", None),
            name=value.get("name", None),
            code=value.get("code", None),
            error=value.get("error", None),
            viewers=value.get("viewers", None),
            keyboard=value.get("keyboard", None),
            wire=value.get("wire", None),
            from_=value.get("from", None),
            settings=value.get("settings", None),
            up=value.get("up", None),
            line=value.get("line", None),
            machines=value.get("machines", None),
            message=value.get("message", None),
            backtrace=value.get("backtrace", None),
            log=value.get("log", None),
            host=value.get("host", None),
            worker=value.get("worker", None),
            pid=value.get("pid", None),
            image=value.get("image", None),
            capture=value.get("capture", None),
            nanoseconds=value.get("nanoseconds", None),
            end=value.get("end", None),
            what=value.get("what", None),
            reason=value.get("reason", None),
            length=value.get("length", None),
            summary=value.get("summary", None),
            breakpoint=value.get("breakpoint", None),
            number=value.get("number", None),
            packet=Packet.from_json(value.get("packet", None)) if "packet" in value else None,
            stopped=value.get("stopped", None),
            frame=value.get("frame", None),
            pod=value.get("pod", None),
            fault=value.get("fault", None),
            events=value.get("events", None),
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("lab", self.lab),
            ("time", self.time),
            ("actor", self.actor),
            ("kind", self.kind),
            ("step", self.step),
            ("done", self.done),
            ("total", self.total),
            ("state", self.state),
            ("method", self.method),
            ("path", self.path),
            ("body", self.body),
            ("change", self.change and self.change.to_json()),
            ("revision", self.revision),
            ("clock", self.clock and self.clock.to_json()),
            ("program", self.program),
            ("machine", self.machine),
            ("name", self.name),
            ("code", self.code),
            ("error", self.error),
            ("viewers", self.viewers),
            ("keyboard", self.keyboard),
            ("wire", self.wire),
            ("from", self.from_),
            ("settings", self.settings),
            ("up", self.up),
            ("line", self.line),
            ("machines", self.machines),
            ("message", self.message),
            ("backtrace", self.backtrace),
            ("log", self.log),
            ("host", self.host),
            ("worker", self.worker),
            ("pid", self.pid),
            ("image", self.image),
            ("capture", self.capture),
            ("nanoseconds", self.nanoseconds),
            ("end", self.end),
            ("what", self.what),
            ("reason", self.reason),
            ("length", self.length),
            ("summary", self.summary),
            ("breakpoint", self.breakpoint),
            ("number", self.number),
            ("packet", self.packet and self.packet.to_json()),
            ("stopped", self.stopped),
            ("frame", self.frame),
            ("pod", self.pod),
            ("fault", self.fault),
            ("events", self.events),
        )


@dataclass(slots=True, kw_only=True)
class Explored:
    """What was explored."""

    summary: ExploredSummary
    """What lists show of it."""
    machines: list[str]
    """The lab's machines."""
    fates: list[str]
    """The fates that are tried, the gravest first."""
    sides: list[ExploredSide]
    """What was explored; of a difference (`vink explore --against`) also what it was compared with, as
    the second one."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            summary=ExploredSummary.from_json(value["summary"]),
            machines=value["machines"],
            fates=value["fates"],
            sides=[ExploredSide.from_json(each) for each in value["sides"]],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("summary", self.summary.to_json()),
            ("machines", self.machines),
            ("fates", self.fates),
            ("sides", [each.to_json() for each in self.sides]),
        )


@dataclass(slots=True, kw_only=True)
class ExploredChoice:
    """What comes of a run if a packet has another fate."""

    fate: str
    """The fate."""
    violation: ExploredViolation | None = None
    """What the run breaks; none: all properties hold. Of a difference: how the two runs differ."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            fate=value["fate"],
            violation=value.get("violation", None),
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("fate", self.fate),
            ("violation", self.violation and self.violation.to_json()),
        )


@dataclass(slots=True, kw_only=True)
class ExploredDeviation:
    """A packet with another fate."""

    words: str
    """As a schedule has it: `alice:eth0 1 behind`."""
    says: str
    """In a sentence."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            words=value["words"],
            says=value["says"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("words", self.words),
            ("says", self.says),
        )


@dataclass(slots=True, kw_only=True)
class ExploredEnd:
    """How a program has ended."""

    nanoseconds: int
    """When, ns on the run's clock."""
    status: int
    """Its exit status."""
    error: str | None = None
    """Why it gave up."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            nanoseconds=value["nanoseconds"],
            status=value["status"],
            error=value.get("error", None),
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("nanoseconds", self.nanoseconds),
            ("status", self.status),
            ("error", self.error),
        )


@dataclass(slots=True, kw_only=True)
class ExploredEvent:
    """Something that happened in a run."""

    nanoseconds: int
    """When, ns on the run's clock."""
    kind: str
    """`departure`, `arrival`, `loss` of a packet, or `output` of a program."""
    machine: str
    """Where."""
    text: str
    """The packet in a line, or what the program has written."""
    program: str | None = None
    """The program that has written it."""
    end: str | None = None
    """The packet's interface, `machine:interface`."""
    packet: int | None = None
    """By this number the packet is asked for."""
    number: int | None = None
    """Of one that departs and that is searched: its number among these, from 1 on."""
    fate: str | None = None
    """What the schedule has done to it."""
    reason: str | None = None
    """Why it was lost, in the kernel's words."""
    departure: int | None = None
    """Of one that arrives or is lost: its departure, by its place among these events."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            nanoseconds=value["nanoseconds"],
            kind=value["kind"],
            machine=value["machine"],
            text=value["text"],
            program=value.get("program", None),
            end=value.get("end", None),
            packet=value.get("packet", None),
            number=value.get("number", None),
            fate=value.get("fate", None),
            reason=value.get("reason", None),
            departure=value.get("departure", None),
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("nanoseconds", self.nanoseconds),
            ("kind", self.kind),
            ("machine", self.machine),
            ("text", self.text),
            ("program", self.program),
            ("end", self.end),
            ("packet", self.packet),
            ("number", self.number),
            ("fate", self.fate),
            ("reason", self.reason),
            ("departure", self.departure),
        )


@dataclass(slots=True, kw_only=True)
class ExploredProgram:
    """A program of an explored lab."""

    machine: str
    """Where."""
    name: str
    """Its name there."""
    ended: ExploredEnd | None = None
    """How it has ended; none: it has not."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            machine=value["machine"],
            name=value["name"],
            ended=value.get("ended", None),
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("machine", self.machine),
            ("name", self.name),
            ("ended", self.ended and self.ended.to_json()),
        )


@dataclass(slots=True, kw_only=True)
class ExploredRun:
    """A run of an explored lab, from its beginning to its end. It is run when it is asked for."""

    schedule: list[ExploredDeviation]
    """Its schedule."""
    nanoseconds: int
    """When it ended, ns on its clock."""
    violation: ExploredViolation | None = None
    """What it breaks; none: all properties hold. Of a difference: how the two runs with this schedule
    differ."""
    compared: str | None = None
    """Of a difference, if the two runs are not told to differ: why."""
    events: list[ExploredEvent]
    """What happened, in its order."""
    more: int
    """Events behind these, which are too many to be told."""
    programs: list[ExploredProgram]
    """Programs, and how they have ended."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            schedule=[ExploredDeviation.from_json(each) for each in value["schedule"]],
            nanoseconds=value["nanoseconds"],
            violation=value.get("violation", None),
            compared=value.get("compared", None),
            events=[ExploredEvent.from_json(each) for each in value["events"]],
            more=value["more"],
            programs=[ExploredProgram.from_json(each) for each in value["programs"]],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("schedule", [each.to_json() for each in self.schedule]),
            ("nanoseconds", self.nanoseconds),
            ("violation", self.violation and self.violation.to_json()),
            ("compared", self.compared),
            ("events", [each.to_json() for each in self.events]),
            ("more", self.more),
            ("programs", [each.to_json() for each in self.programs]),
        )


@dataclass(slots=True, kw_only=True)
class ExploredSide:
    """A lab on an image that was explored."""

    name: str
    """What it is called where two are told apart: the image's name or the lab's."""
    lab: str
    """The lab."""
    image: str
    """The image."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            name=value["name"],
            lab=value["lab"],
            image=value["image"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("name", self.name),
            ("lab", self.lab),
            ("image", self.image),
        )


@dataclass(slots=True, kw_only=True)
class ExploredSummary:
    """What `vink explore` has found, in a list."""

    id: str
    """By this it is asked for."""
    lab: str
    """The lab."""
    path: str
    """The folder."""
    image: str
    """The image that was explored."""
    violation: ExploredViolation
    """What was found."""
    schedule: list[ExploredDeviation]
    """The schedule that breaks it."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            id=value["id"],
            lab=value["lab"],
            path=value["path"],
            image=value["image"],
            violation=ExploredViolation.from_json(value["violation"]),
            schedule=[ExploredDeviation.from_json(each) for each in value["schedule"]],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("id", self.id),
            ("lab", self.lab),
            ("path", self.path),
            ("image", self.image),
            ("violation", self.violation.to_json()),
            ("schedule", [each.to_json() for each in self.schedule]),
        )


@dataclass(slots=True, kw_only=True)
class ExploredViolation:
    """A property that a run breaks."""

    property: str
    """Its name."""
    says: str
    """What it says, with an RFC or as in the lab file."""
    nanoseconds: int
    """When, ns on the run's clock."""
    machine: str
    """Where; empty: at no machine."""
    what: str
    """What went wrong."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            property=value["property"],
            says=value["says"],
            nanoseconds=value["nanoseconds"],
            machine=value["machine"],
            what=value["what"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("property", self.property),
            ("says", self.says),
            ("nanoseconds", self.nanoseconds),
            ("machine", self.machine),
            ("what", self.what),
        )


@dataclass(slots=True, kw_only=True)
class FeedDetail:
    """Which packets are told one by one."""

    ends: list[str] | None = None
    """Those that these ends send, 400 at most: `machine:interface`, or `:WIRE` for what comes over that
    wire from outside; none: all ends."""
    budget: int
    """So many a second by the host's clock, 1 to 200,000. If there are more, one of so many is told,
    the same ones on each hop."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            ends=value.get("ends", None),
            budget=value["budget"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("ends", self.ends),
            ("budget", self.budget),
        )


@dataclass(slots=True, kw_only=True)
class FeedOverview:
    """How often counters are told."""

    hz: int
    """Times a second by the host's clock, 1 to 10."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            hz=value["hz"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("hz", self.hz),
        )


@dataclass(slots=True, kw_only=True)
class FeedSubscription:
    """What a viewer wants to see."""

    classes: list[str] = field(default_factory=list)
    """Filters as in pcap-filter(7), 32 at most, of 1,000 characters each. A flight's class is the place
    of the first one that it fits, from 1 on; 0: it fits none. They see the first 256 bytes of a
    packet."""
    overview: FeedOverview | None = None
    """Counters and queues of all ends, and the time; none: they are not told."""
    detail: FeedDetail | None = None
    """Packets one by one; none: they are not told."""
    follow: str | None = None
    """A filter: its packets are told beside the budget."""
    flow: int | None = None
    """A flow, by its number in records: its packets are told beside the budget, too."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            classes=value.get("classes", []),
            overview=value.get("overview", None),
            detail=value.get("detail", None),
            follow=value.get("follow", None),
            flow=value.get("flow", None),
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("classes", self.classes),
            ("overview", self.overview and self.overview.to_json()),
            ("detail", self.detail and self.detail.to_json()),
            ("follow", self.follow),
            ("flow", self.flow),
        )


@dataclass(slots=True, kw_only=True)
class Filter:
    """A filter that is in force, or would be."""

    place: str
    """A machine, or `machine:interface`."""
    version: int
    """Counted from 1, for each place."""
    file: str | None = None
    """The file that it is from."""
    tables: list[RulesetTable]
    """The tables that it declares."""
    optimized: bool
    """nft has made sets and maps of rules that are alike (`nft --optimize`)."""
    time: float
    """When it was loaded, in seconds since 1970."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            place=value["place"],
            version=value["version"],
            file=value.get("file", None),
            tables=[RulesetTable.from_json(each) for each in value["tables"]],
            optimized=value["optimized"],
            time=value["time"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("place", self.place),
            ("version", self.version),
            ("file", self.file),
            ("tables", [each.to_json() for each in self.tables]),
            ("optimized", self.optimized),
            ("time", self.time),
        )


@dataclass(slots=True, kw_only=True)
class FilterCounter:
    """A rule that counts, or a named counter."""

    table: RulesetTable
    """Its table."""
    chain: str | None = None
    """The rule's chain; none: a named counter."""
    rule: str
    """The rule without its counter, or the counter's name."""
    packets: int
    """Packets since the version was loaded."""
    bytes: int
    """Their bytes, from the network header on."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            table=RulesetTable.from_json(value["table"]),
            chain=value.get("chain", None),
            rule=value["rule"],
            packets=value["packets"],
            bytes=value["bytes"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("table", self.table.to_json()),
            ("chain", self.chain),
            ("rule", self.rule),
            ("packets", self.packets),
            ("bytes", self.bytes),
        )


@dataclass(slots=True, kw_only=True)
class FilterRules:
    """A filter with its rules."""

    place: str
    """A machine, or `machine:interface`."""
    version: int
    """Counted from 1, for each place."""
    file: str | None = None
    """The file that it is from."""
    tables: list[RulesetTable]
    """The tables that it declares."""
    optimized: bool
    """nft has made sets and maps of rules that are alike (`nft --optimize`)."""
    time: float
    """When it was loaded, in seconds since 1970."""
    text: str
    """As it was given."""
    listing: str
    """What the kernel has, as `nft list table` prints it."""
    counters: list[FilterCounter]
    """What its rules and named counters have counted."""
    versions: list[FilterVersion]
    """Versions that can be returned to, oldest first."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            place=value["place"],
            version=value["version"],
            file=value.get("file", None),
            tables=[RulesetTable.from_json(each) for each in value["tables"]],
            optimized=value["optimized"],
            time=value["time"],
            text=value["text"],
            listing=value["listing"],
            counters=[FilterCounter.from_json(each) for each in value["counters"]],
            versions=[FilterVersion.from_json(each) for each in value["versions"]],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("place", self.place),
            ("version", self.version),
            ("file", self.file),
            ("tables", [each.to_json() for each in self.tables]),
            ("optimized", self.optimized),
            ("time", self.time),
            ("text", self.text),
            ("listing", self.listing),
            ("counters", [each.to_json() for each in self.counters]),
            ("versions", [each.to_json() for each in self.versions]),
        )


@dataclass(slots=True, kw_only=True)
class FilterVersion:
    """A version of a filter."""

    version: int
    """Its number."""
    file: str | None = None
    """The file that it was from."""
    time: float
    """When it was loaded, in seconds since 1970."""
    text: str
    """As it was given."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            version=value["version"],
            file=value.get("file", None),
            time=value["time"],
            text=value["text"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("version", self.version),
            ("file", self.file),
            ("time", self.time),
            ("text", self.text),
        )


@dataclass(slots=True, kw_only=True)
class FormatSpec:
    """`POST /v1/spec/format`: the lab file of a lab."""

    spec: Lab
    """The lab."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            spec=value["spec"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("spec", self.spec),
        )


@dataclass(slots=True, kw_only=True)
class FormattedSpec:
    """A lab file's text."""

    text: str
    """The text, in YAML."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            text=value["text"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("text", self.text),
        )


@dataclass(slots=True, kw_only=True)
class HostStatus:
    """A host of a lab."""

    name: str
    """Its name."""
    state: HostState
    """Whether it is there."""
    way: str
    """The way to it: for ssh, or a command."""
    error: str | None = None
    """Why it is lost."""
    machines: int
    """How many machines are on it."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            name=value["name"],
            state=value["state"],
            way=value["way"],
            error=value.get("error", None),
            machines=value["machines"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("name", self.name),
            ("state", self.state),
            ("way", self.way),
            ("error", self.error),
            ("machines", self.machines),
        )


@dataclass(slots=True, kw_only=True)
class Interface:
    """An interface as its machine has it now."""

    name: str
    """Its name."""
    wire: str | None = None
    """The wire that it is attached to."""
    mac: str
    """Its Ethernet address."""
    up: bool
    """Whether it is set up."""
    carrier: bool
    """Whether it has a carrier."""
    addresses: list[str]
    """Its addresses now, also those that programs have added."""
    counters: dict[str, int]
    """Packets, bytes, drops and errors by name, such as `rx-packets`."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            name=value["name"],
            wire=value.get("wire", None),
            mac=value["mac"],
            up=value["up"],
            carrier=value["carrier"],
            addresses=value["addresses"],
            counters=value["counters"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("name", self.name),
            ("wire", self.wire),
            ("mac", self.mac),
            ("up", self.up),
            ("carrier", self.carrier),
            ("addresses", self.addresses),
            ("counters", self.counters),
        )


@dataclass(slots=True, kw_only=True)
class KeptTerminal:
    """A terminal that is kept, and the clients that look at it."""

    program: int
    """The number of its program in the lab."""
    machine: str
    """The program's machine."""
    words: list[str]
    """What runs there."""
    actor: str
    """The user that has started it."""
    size: Size
    """Its size, which is that of the client with the keyboard."""
    viewers: list[str]
    """The users of the clients that look at it, as they came."""
    keyboard: str | None = None
    """The user of the client that has the keyboard, if one has it."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            program=value["program"],
            machine=value["machine"],
            words=value["words"],
            actor=value["actor"],
            size=Size.from_json(value["size"]),
            viewers=value["viewers"],
            keyboard=value.get("keyboard", None),
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("program", self.program),
            ("machine", self.machine),
            ("words", self.words),
            ("actor", self.actor),
            ("size", self.size.to_json()),
            ("viewers", self.viewers),
            ("keyboard", self.keyboard),
        )


@dataclass(slots=True, kw_only=True)
class LabStatus:
    """How a lab is: the summary, and its processes."""

    summary: LabSummary
    """What lists show of it."""
    hosts: list[HostStatus]
    """Its other hosts."""
    workers: list[WorkerStatus]
    """Its workers, one for each image and worker group."""
    failed: list[str]
    """Names of programs that were started, and have failed, with the reason."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            summary=LabSummary.from_json(value["summary"]),
            hosts=[HostStatus.from_json(each) for each in value["hosts"]],
            workers=[WorkerStatus.from_json(each) for each in value["workers"]],
            failed=value["failed"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("summary", self.summary.to_json()),
            ("hosts", [each.to_json() for each in self.hosts]),
            ("workers", [each.to_json() for each in self.workers]),
            ("failed", self.failed),
        )


@dataclass(slots=True, kw_only=True)
class LabSummary:
    """A lab in a list."""

    name: str
    """Its name."""
    state: LabState
    """How far it is."""
    folder: str
    """Its folder."""
    machines: int
    """How many machines it has."""
    wires: int
    """How many wires."""
    programs: int
    """How many programs run."""
    up_seconds: float
    """Seconds since it is up; 0 before."""
    switchbox: str | None = None
    """Where its switch box listens."""
    opened: OpenedFrom | None = None
    """The moment of a recorded run that it was opened at; none: it is no such lab."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            name=value["name"],
            state=value["state"],
            folder=value["folder"],
            machines=value["machines"],
            wires=value["wires"],
            programs=value["programs"],
            up_seconds=value["up-seconds"],
            switchbox=value.get("switchbox", None),
            opened=value.get("opened", None),
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("name", self.name),
            ("state", self.state),
            ("folder", self.folder),
            ("machines", self.machines),
            ("wires", self.wires),
            ("programs", self.programs),
            ("up-seconds", self.up_seconds),
            ("switchbox", self.switchbox),
            ("opened", self.opened and self.opened.to_json()),
        )


@dataclass(slots=True, kw_only=True)
class Machine:
    """A machine as it is now."""

    name: str
    """Its name."""
    state: MachineState
    """Whether it runs."""
    error: str | None = None
    """Why it does not."""
    host: str | None = None
    """Which of the lab's hosts it is on; none: the one of the control process."""
    image: str | None = None
    """The image's name in the lab; none: the usual one."""
    forward: bool
    """Whether it forwards packets."""
    rights: Rights | None = None
    """What its programs may do; none: everything."""
    interfaces: list[Interface]
    """Its interfaces but `lo`."""
    programs: list[int]
    """Numbers of its programs that run."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            name=value["name"],
            state=value["state"],
            error=value.get("error", None),
            host=value.get("host", None),
            image=value.get("image", None),
            forward=value["forward"],
            rights=value.get("rights", None),
            interfaces=[Interface.from_json(each) for each in value["interfaces"]],
            programs=value["programs"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("name", self.name),
            ("state", self.state),
            ("error", self.error),
            ("host", self.host),
            ("image", self.image),
            ("forward", self.forward),
            ("rights", self.rights),
            ("interfaces", [each.to_json() for each in self.interfaces]),
            ("programs", self.programs),
        )


@dataclass(slots=True, kw_only=True)
class MachineSummary:
    """A machine in a list."""

    name: str
    """Its name."""
    state: MachineState
    """Whether it runs."""
    host: str | None = None
    """Which of the lab's hosts it is on; none: the one of the control process."""
    image: str | None = None
    """The image's name in the lab; none: the usual one."""
    worker: str | None = None
    """The worker that the lab names for it; none: the lab's own, or that of its `core`."""
    core: list[int] | None = None
    """The processors on which its worker and its programs stay; empty: any."""
    pid: int | None = None
    """The process of its worker, by its number on its host; none: it has died."""
    interfaces: dict[str, list[str]]
    """Its interfaces but `lo`, each with the addresses that the lab gave it."""
    programs: int
    """How many programs of it run."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            name=value["name"],
            state=value["state"],
            host=value.get("host", None),
            image=value.get("image", None),
            worker=value.get("worker", None),
            core=value.get("core", None),
            pid=value.get("pid", None),
            interfaces=value["interfaces"],
            programs=value["programs"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("name", self.name),
            ("state", self.state),
            ("host", self.host),
            ("image", self.image),
            ("worker", self.worker),
            ("core", self.core),
            ("pid", self.pid),
            ("interfaces", self.interfaces),
            ("programs", self.programs),
        )


@dataclass(slots=True, kw_only=True)
class Mistake:
    """What is wrong in a lab file's text."""

    line: int
    """Its line, from 1; 0: nowhere in particular."""
    column: int
    """Its column, in characters from 1."""
    length: int
    """How many characters of the line are wrong."""
    path: str
    """Where in the lab: `machines.m1.interfaces.eth0.wire`."""
    message: str
    """What is wrong."""
    fix: str
    """What to write instead."""
    warning: bool
    """The lab can be used all the same."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            line=value["line"],
            column=value["column"],
            length=value["length"],
            path=value["path"],
            message=value["message"],
            fix=value["fix"],
            warning=value["warning"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("line", self.line),
            ("column", self.column),
            ("length", self.length),
            ("path", self.path),
            ("message", self.message),
            ("fix", self.fix),
            ("warning", self.warning),
        )


@dataclass(slots=True, kw_only=True)
class NewBreakpoint:
    """A breakpoint to be set."""

    name: str | None = None
    """Its name; none: a number that none has."""
    spec: BreakpointSpec
    """As in a lab file."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            name=value.get("name", None),
            spec=value["spec"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("name", self.name),
            ("spec", self.spec),
        )


@dataclass(slots=True, kw_only=True)
class NewCapture:
    """A capture to be started."""

    interfaces: list[str]
    """Of which interfaces: `machine:interface`, all of one worker."""
    filter: str | None = None
    """Which packets, as in pcap-filter(7); none: all."""
    snap: int = 0
    """Bytes of each packet; 0: all."""
    path: str | None = None
    """Where to: the absolute path of a file, which is made, or emptied. Without one the lab keeps the
    packets, 64 MiB of them at most."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            interfaces=value["interfaces"],
            filter=value.get("filter", None),
            snap=value.get("snap", 0),
            path=value.get("path", None),
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("interfaces", self.interfaces),
            ("filter", self.filter),
            ("snap", self.snap),
            ("path", self.path),
        )


@dataclass(slots=True, kw_only=True)
class NewExplored:
    """`POST /v1/explored`: lists what `vink explore` has written there, from now on."""

    path: str
    """The folder of what was found, or one that has some of these, such as `LAB.explored`; absolute."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            path=value["path"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("path", self.path),
        )


@dataclass(slots=True, kw_only=True)
class NewFilter:
    """Rules for a place: a machine, or `machine:interface`."""

    text: str
    """In the language of nft(8)."""
    file: str | None = None
    """The file that they are from, for messages."""
    check: bool | None = None
    """They are checked by the kernel, and nothing is changed."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            text=value["text"],
            file=value.get("file", None),
            check=value.get("check", None),
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("text", self.text),
            ("file", self.file),
            ("check", self.check),
        )


@dataclass(slots=True, kw_only=True)
class NewInterface:
    """An interface to be made."""

    name: str
    """Its name."""
    spec: InterfaceSpec = field(default_factory=InterfaceSpec)
    """What it is, as in a lab file."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            name=value["name"],
            spec=value.get("spec", {}),
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("name", self.name),
            ("spec", self.spec),
        )


@dataclass(slots=True, kw_only=True)
class NewMachine:
    """A machine to be made, with its interfaces, set-up commands and programs."""

    name: str
    """Its name."""
    spec: MachineSpec = field(default_factory=MachineSpec)
    """What it is, as in a lab file."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            name=value["name"],
            spec=value.get("spec", {}),
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("name", self.name),
            ("spec", self.spec),
        )


@dataclass(slots=True, kw_only=True)
class NewPod:
    """A pod to be loaded."""

    name: str
    """Its name. If there is one of this name, paths go on through the new one."""
    spec: PodSpec | None = None
    """As in a lab file; none: as it is in the lab."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            name=value["name"],
            spec=value.get("spec", None),
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("name", self.name),
            ("spec", self.spec),
        )


@dataclass(slots=True, kw_only=True)
class NewProgram:
    """A program to be started."""

    machine: str
    """On which machine."""
    words: list[str]
    """The program and its arguments, or a virtualized process and its arguments."""
    app: bool = False
    """A virtualized process, which runs inside the worker."""
    env: dict[str, str] | None = None
    """Environment variables on top of the lab's."""
    only_env: bool = False
    """Its environment is `env` and nothing else."""
    dir: str | None = None
    """Its working directory, absolute or relative to the lab's folder, which it is otherwise."""
    attach: bool = False
    """Its input and output are those of the client, which starts it by opening `.../terminal`; it is
    ended when the client goes away. Otherwise it starts at once, and its output goes to a log."""
    input: bool = False
    """With `attach`: it gets the client's input. Otherwise it finds its input at an end."""
    terminal: Size | None = None
    """With `attach`: its input and output are a terminal of this size."""
    keep: bool = False
    """With `attach` and `terminal`: it starts at once, and its terminal is the lab's. Clients come and
    go by `.../terminal`, any number of them, and the program stays."""
    rights: Rights | None = None
    """What it may do on the machine; none: what the machine's programs may."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            machine=value["machine"],
            words=value["words"],
            app=value.get("app", False),
            env=value.get("env", None),
            only_env=value.get("only-env", False),
            dir=value.get("dir", None),
            attach=value.get("attach", False),
            input=value.get("input", False),
            terminal=value.get("terminal", None),
            keep=value.get("keep", False),
            rights=value.get("rights", None),
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("machine", self.machine),
            ("words", self.words),
            ("app", self.app),
            ("env", self.env),
            ("only-env", self.only_env),
            ("dir", self.dir),
            ("attach", self.attach),
            ("input", self.input),
            ("terminal", self.terminal and self.terminal.to_json()),
            ("keep", self.keep),
            ("rights", self.rights),
        )


@dataclass(slots=True, kw_only=True)
class NewRelay:
    """A relay to be added to a machine."""

    name: str
    """Its name."""
    spec: RelaySpec
    """What it is, as in a lab file."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            name=value["name"],
            spec=value["spec"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("name", self.name),
            ("spec", self.spec),
        )


@dataclass(slots=True, kw_only=True)
class NewRun:
    """`POST /v1/runs`: lists what was recorded there, from now on."""

    path: str
    """A manifest, the folder that a lab was recorded to, or a folder that has some of these;
    absolute."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            path=value["path"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("path", self.path),
        )


@dataclass(slots=True, kw_only=True)
class NewSeries:
    """A time series to be begun."""

    name: str
    """Its name."""
    spec: SeriesSpec
    """As in a lab file."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            name=value["name"],
            spec=value["spec"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("name", self.name),
            ("spec", self.spec),
        )


@dataclass(slots=True, kw_only=True)
class NewSession:
    """A session that was just made."""

    token: str
    """What the session's requests bear: `Authorization: Bearer TOKEN`."""
    role: Role
    """What it may do."""
    actor: str
    """Its user's name."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            token=value["token"],
            role=value["role"],
            actor=value["actor"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("token", self.token),
            ("role", self.role),
            ("actor", self.actor),
        )


@dataclass(slots=True, kw_only=True)
class NewTicket:
    """`POST /v1/tickets`: lets a page in."""

    role: Role = "own"
    """What the page may do."""
    name: str | None = None
    """The name of its user, for the others."""
    seconds: int | None = None
    """Seconds that it may be used for, once: 60 otherwise, a day at most."""
    port: int | None = None
    """The loopback port where pages are answered: any otherwise. It is chosen once."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            role=value.get("role", "own"),
            name=value.get("name", None),
            seconds=value.get("seconds", None),
            port=value.get("port", None),
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("role", self.role),
            ("name", self.name),
            ("seconds", self.seconds),
            ("port", self.port),
        )


@dataclass(slots=True, kw_only=True)
class NewWire:
    """A wire to be made."""

    name: str
    """Its name."""
    spec: WireSpec = field(default_factory=WireSpec)
    """What it is, as in a lab file."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            name=value["name"],
            spec=value.get("spec", {}),
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("name", self.name),
            ("spec", self.spec),
        )


@dataclass(slots=True, kw_only=True)
class OpenExplored:
    """`POST /v1/explored/EXPLORED/open`: makes a lab in which packets have the same fates, as it is at
    a moment."""

    schedule: str | None = None
    """The schedule; the run without faults if left away."""
    side: int | None = None
    """On which of `sides`, from 0 on; the first one if left away."""
    at: int
    """When, ns on the run's clock."""
    name: str | None = None
    """The lab's name; `LAB-at-12.5s` if left away."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            schedule=value.get("schedule", None),
            side=value.get("side", None),
            at=value["at"],
            name=value.get("name", None),
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("schedule", self.schedule),
            ("side", self.side),
            ("at", self.at),
            ("name", self.name),
        )


@dataclass(slots=True, kw_only=True)
class OpenRun:
    """`POST /v1/runs/RUN/open`: makes a lab that is as the run was at a moment."""

    at: int
    """When, ns on the run's clock. A moment before the lab was up is that at which it was."""
    name: str | None = None
    """The lab's name; `LAB-at-12.5s` if left away."""
    anyway: bool = False
    """Though the image, the lab file or programs are not what they were."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            at=value["at"],
            name=value.get("name", None),
            anyway=value.get("anyway", False),
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("at", self.at),
            ("name", self.name),
            ("anyway", self.anyway),
        )


@dataclass(slots=True, kw_only=True)
class OpenSession:
    """A session that is valid."""

    session: int
    """Its number."""
    actor: str
    """Its user's name."""
    role: Role
    """What it may do."""
    since: float
    """When it began: seconds since 1970."""
    connections: int
    """How many connections it has now."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            session=value["session"],
            actor=value["actor"],
            role=value["role"],
            since=value["since"],
            connections=value["connections"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("session", self.session),
            ("actor", self.actor),
            ("role", self.role),
            ("since", self.since),
            ("connections", self.connections),
        )


@dataclass(slots=True, kw_only=True)
class OpenedExplored:
    """A lab that was opened."""

    lab: str
    """The lab."""
    nanoseconds: int
    """The moment where it stands, ns on the run's clock."""
    begin: int
    """When its own clock is at 0, ns on the run's clock."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            lab=value["lab"],
            nanoseconds=value["nanoseconds"],
            begin=value["begin"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("lab", self.lab),
            ("nanoseconds", self.nanoseconds),
            ("begin", self.begin),
        )


@dataclass(slots=True, kw_only=True)
class OpenedFrom:
    """What of a run a lab is."""

    path: str
    """The run's manifest."""
    run: str | None = None
    """The run, if it is listed."""
    nanoseconds: int
    """The moment, ns on its clock."""
    branch: bool
    """It was changed since, or its clock has gone on: it goes its own way, which is recorded as a run
    of its own."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            path=value["path"],
            run=value.get("run", None),
            nanoseconds=value["nanoseconds"],
            branch=value["branch"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("path", self.path),
            ("run", self.run),
            ("nanoseconds", self.nanoseconds),
            ("branch", self.branch),
        )


@dataclass(slots=True, kw_only=True)
class OpenedRun:
    """A lab that is as a run was."""

    lab: str
    """The lab."""
    nanoseconds: int
    """The moment where it stands."""
    checked: int
    """Keyframes at which it was found to be as the run."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            lab=value["lab"],
            nanoseconds=value["nanoseconds"],
            checked=value["checked"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("lab", self.lab),
            ("nanoseconds", self.nanoseconds),
            ("checked", self.checked),
        )


@dataclass(slots=True, kw_only=True)
class Packet:
    """What happened to a packet."""

    nanoseconds: int
    """Nanoseconds of the kernel's clock."""
    end: str
    """`machine:interface`."""
    what: str
    """`departure`, `arrival` or `loss`."""
    reason: str | None = None
    """Why it was lost."""
    length: int
    """Bytes, with its Ethernet header."""
    summary: str
    """A line such as tcpdump's about it."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            nanoseconds=value["nanoseconds"],
            end=value["end"],
            what=value["what"],
            reason=value.get("reason", None),
            length=value["length"],
            summary=value["summary"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("nanoseconds", self.nanoseconds),
            ("end", self.end),
            ("what", self.what),
            ("reason", self.reason),
            ("length", self.length),
            ("summary", self.summary),
        )


@dataclass(slots=True, kw_only=True)
class PacketDetail:
    """All that is known of a packet."""

    packet: CapturedPacket
    """What lists show of it."""
    bytes: str
    """The bytes that were kept, in hexadecimal."""
    fields: list[PacketField] | None = None
    """What Wireshark's dissectors find in it; none: `undissected` says why."""
    undissected: str | None = None
    """Why there are no fields."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            packet=CapturedPacket.from_json(value["packet"]),
            bytes=value["bytes"],
            fields=[PacketField.from_json(each) for each in value.get("fields", None)] if "fields" in value else None,
            undissected=value.get("undissected", None),
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("packet", self.packet.to_json()),
            ("bytes", self.bytes),
            ("fields", self.fields and [each.to_json() for each in self.fields]),
            ("undissected", self.undissected),
        )


@dataclass(slots=True, kw_only=True)
class PacketField:
    """A part of a packet, as Wireshark shows it."""

    text: str
    """What it says."""
    filter: str | None = None
    """A display filter that it fits."""
    start: int = 0
    """Where it is in the packet's bytes, and how many bytes it has; both 0: it has none."""
    length: int = 0
    """How many bytes it has."""
    fields: list[PacketField] | None = None
    """Its parts."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            text=value["text"],
            filter=value.get("filter", None),
            start=value.get("start", 0),
            length=value.get("length", 0),
            fields=[PacketField.from_json(each) for each in value.get("fields", None)] if "fields" in value else None,
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("text", self.text),
            ("filter", self.filter),
            ("start", self.start),
            ("length", self.length),
            ("fields", self.fields and [each.to_json() for each in self.fields]),
        )


@dataclass(slots=True, kw_only=True)
class PacketPath:
    """A path."""

    name: str
    """Its name."""
    spec: PathSpec
    """As in a lab file."""
    ended: str | None = None
    """The pod of it that has ended; none: it works."""
    numbers: dict[str, int]
    """What it has counted, by name: `packets` and `bytes` that have come; `crossings` of pods' walls
    and their `cycles`; frames that have `passed`, of which pods have `changed` and `emitted` some;
    `dropped` by a pod; `waited` for another period, `waiting` now; `overdrafts` of the budget; `lost`
    for want of room or of a pod."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            name=value["name"],
            spec=value["spec"],
            ended=value.get("ended", None),
            numbers=value["numbers"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("name", self.name),
            ("spec", self.spec),
            ("ended", self.ended),
            ("numbers", self.numbers),
        )


@dataclass(slots=True, kw_only=True)
class PacketVerdict:
    """What becomes of the packet at which a breakpoint has stopped the lab, when it goes on: beside
    what breakpoints do to it. What is not named is not done."""

    number: int
    """Of which hit: how often the breakpoint was met by then."""
    drop: bool = False
    """It is lost."""
    delay: Span | None = None
    """It passes so much later."""
    frame: str | None = None
    """These bytes pass in its place: from the Ethernet header on, two hexadecimal digits each."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            number=value["number"],
            drop=value.get("drop", False),
            delay=value.get("delay", None),
            frame=value.get("frame", None),
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("number", self.number),
            ("drop", self.drop),
            ("delay", self.delay),
            ("frame", self.frame),
        )


@dataclass(slots=True, kw_only=True)
class Pod:
    """A pod."""

    name: str
    """Its name."""
    spec: PodSpec
    """As in a lab file."""
    wall: str
    """Its wall."""
    ended: str | None = None
    """Why it has ended; none: it has not."""
    memory: int
    """Bytes of memory that it has."""
    crossings: int
    """How often its wall was crossed."""
    calls: int
    """Calls of its functions."""
    cycles: int
    """Cycles of the processor (its time stamp counter's) that the crossings have taken."""
    counters: list[int]
    """What `vink_count()` has counted."""
    log: list[str]
    """The last lines of its log."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            name=value["name"],
            spec=value["spec"],
            wall=value["wall"],
            ended=value.get("ended", None),
            memory=value["memory"],
            crossings=value["crossings"],
            calls=value["calls"],
            cycles=value["cycles"],
            counters=value["counters"],
            log=value["log"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("name", self.name),
            ("spec", self.spec),
            ("wall", self.wall),
            ("ended", self.ended),
            ("memory", self.memory),
            ("crossings", self.crossings),
            ("calls", self.calls),
            ("cycles", self.cycles),
            ("counters", self.counters),
            ("log", self.log),
        )


@dataclass(slots=True, kw_only=True)
class Problem:
    """The answer to a request that failed."""

    error: str
    """What was tried and what was found."""
    hint: str | None = None
    """What to do."""
    paths: list[str] | None = None
    """Where in the request, as JSON pointers (RFC 6901), if that is what is wrong."""
    done: list[str] | None = None
    """What had been changed before, if a change failed half-way."""
    not_done: list[str] | None = None
    """What was not changed for that."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            error=value["error"],
            hint=value.get("hint", None),
            paths=value.get("paths", None),
            done=value.get("done", None),
            not_done=value.get("not-done", None),
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("error", self.error),
            ("hint", self.hint),
            ("paths", self.paths),
            ("done", self.done),
            ("not-done", self.not_done),
        )


@dataclass(slots=True, kw_only=True)
class Program:
    """A program as it is now."""

    id: int
    """Its number in the lab."""
    machine: str
    """On which machine."""
    name: str | None = None
    """Its name there, if it is of the lab file."""
    words: list[str]
    """What runs."""
    app: bool
    """A virtualized process."""
    state: ProgramState
    """How far it is."""
    code: int | None = None
    """How it ended: 0 to 255, or 128 + a signal; 126 and 127: it could not be executed."""
    error: str | None = None
    """Why it could not be executed, or how it failed."""
    restarts: int
    """How often it was started again."""
    seconds: float
    """Seconds that it has run, or ran."""
    report: Any | None = None
    """What a virtualized process has found out, when it has ended."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            id=value["id"],
            machine=value["machine"],
            name=value.get("name", None),
            words=value["words"],
            app=value["app"],
            state=value["state"],
            code=value.get("code", None),
            error=value.get("error", None),
            restarts=value["restarts"],
            seconds=value["seconds"],
            report=value.get("report", None),
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("id", self.id),
            ("machine", self.machine),
            ("name", self.name),
            ("words", self.words),
            ("app", self.app),
            ("state", self.state),
            ("code", self.code),
            ("error", self.error),
            ("restarts", self.restarts),
            ("seconds", self.seconds),
            ("report", self.report),
        )


@dataclass(slots=True, kw_only=True)
class PutLab:
    """`PUT /v1/labs/NAME`: makes a lab, or changes the one that runs so that it is as asked for."""

    spec: Lab
    """What the lab is to be."""
    folder: str
    """The lab file's folder, absolute: what relative paths of the lab are relative to, and must stay
    inside of."""
    file: str | None = None
    """The lab file, absolute: beside it the views of a new lab are kept, as LAB.views.yjs."""
    dry_run: bool = False
    """Only say what would change."""
    new: bool = False
    """Fail (409) if it runs already, and none of its hosts is lost: these come back then."""
    running: bool = False
    """Fail (404) if it does not run yet."""
    keep: bool = False
    """When a new lab can't be made, leave what there is of it, to be looked at."""
    paused: bool = False
    """When a new lab is up, its clock stands until it is told to go: only for labs with a clock of
    their own."""
    env: dict[str, str] = field(default_factory=dict)
    """The environment of its programs."""
    switchbox: int | None = None
    """Listen for telnet sessions on this loopback port (0: any) for as long as it runs."""
    record: RecordLab | None = None
    """Write down all that happens in a new lab, from its beginning until it is taken down: see
    docs/replay.md."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            spec=value["spec"],
            folder=value["folder"],
            file=value.get("file", None),
            dry_run=value.get("dry-run", False),
            new=value.get("new", False),
            running=value.get("running", False),
            keep=value.get("keep", False),
            paused=value.get("paused", False),
            env=value.get("env", {}),
            switchbox=value.get("switchbox", None),
            record=value.get("record", None),
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("spec", self.spec),
            ("folder", self.folder),
            ("file", self.file),
            ("dry-run", self.dry_run),
            ("new", self.new),
            ("running", self.running),
            ("keep", self.keep),
            ("paused", self.paused),
            ("env", self.env),
            ("switchbox", self.switchbox),
            ("record", self.record and self.record.to_json()),
        )


@dataclass(slots=True, kw_only=True)
class ReadyLab:
    """A lab that comes with Vink."""

    name: str
    """Its name."""
    title: str
    """What it is, in a line."""
    folder: str
    """Its folder, absolute."""
    file: str
    """The lab file in it."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            name=value["name"],
            title=value["title"],
            folder=value["folder"],
            file=value["file"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("name", self.name),
            ("title", self.title),
            ("folder", self.folder),
            ("file", self.file),
        )


@dataclass(slots=True, kw_only=True)
class ReadyLabFile:
    """A lab that comes with Vink, with its text."""

    name: str
    """Its name."""
    folder: str
    """Its folder, absolute."""
    text: str
    """Its lab file's text."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            name=value["name"],
            folder=value["folder"],
            text=value["text"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("name", self.name),
            ("folder", self.folder),
            ("text", self.text),
        )


@dataclass(slots=True, kw_only=True)
class RecordLab:
    """Where a lab is recorded."""

    folder: str
    """A new folder, absolute: `manifest.json` and `run.journal` come to be there."""
    lab_file: str | None = None
    """The lab file, absolute, whose hash the manifest then has."""
    without_inputs: bool = False
    """What clients give programs is not recorded, as it was not at first."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            folder=value["folder"],
            lab_file=value.get("lab-file", None),
            without_inputs=value.get("without-inputs", False),
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("folder", self.folder),
            ("lab-file", self.lab_file),
            ("without-inputs", self.without_inputs),
        )


@dataclass(slots=True, kw_only=True)
class Relay:
    """A relay as it is now."""

    machine: str
    """On which machine."""
    name: str
    """Its name there."""
    spec: RelaySpec
    """What it is, as in a lab file."""
    state: ProgramState
    """How far it is."""
    error: str | None = None
    """Why it does not run."""
    way: str
    """How bytes go from one connection to the other."""
    report: Any | None = None
    """What it has counted so far, as the report of a virtualized process."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            machine=value["machine"],
            name=value["name"],
            spec=value["spec"],
            state=value["state"],
            error=value.get("error", None),
            way=value["way"],
            report=value.get("report", None),
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("machine", self.machine),
            ("name", self.name),
            ("spec", self.spec),
            ("state", self.state),
            ("error", self.error),
            ("way", self.way),
            ("report", self.report),
        )


@dataclass(slots=True, kw_only=True)
class Report:
    """What a virtualized process has found out so far."""

    report: Any
    """Its words about that."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            report=value["report"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("report", self.report),
        )


@dataclass(slots=True, kw_only=True)
class Restarted:
    """What was restarted."""

    machines: list[str]
    """The machines that have booted again: all of the worker's."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            machines=value["machines"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("machines", self.machines),
        )


@dataclass(slots=True, kw_only=True)
class Revoked:
    """`DELETE /v1/sessions/SESSION`: what is not valid any more."""

    sessions: int
    """How many sessions."""
    tickets: int
    """How many tickets that were not used yet."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            sessions=value["sessions"],
            tickets=value["tickets"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("sessions", self.sessions),
            ("tickets", self.tickets),
        )


@dataclass(slots=True, kw_only=True)
class Rollback:
    """To an earlier version."""

    version: int | None = None
    """Which; none: the one before the one in force."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            version=value.get("version", None),
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("version", self.version),
        )


@dataclass(slots=True, kw_only=True)
class RulesetTable:
    """A table of nft(8)."""

    family: str
    """Its family, such as `inet`."""
    name: str
    """Its name."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            family=value["family"],
            name=value["name"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("family", self.family),
            ("name", self.name),
        )


@dataclass(slots=True, kw_only=True)
class Run:
    """A recorded run."""

    summary: RunSummary
    """What lists show of it."""
    topology: Topology
    """The lab as it was made, with the ends of all flights of the run."""
    changes: int | None = None
    """How often machines or wires have changed since; none: it was not recorded."""
    nanoseconds: int
    """How long it is, as far as its journal is whole."""
    cut: bool
    """The journal has no end: the run goes on, or was cut short."""
    records: int
    """How many records the journal has."""
    packets: int
    """How many departures, arrivals and losses of packets."""
    calls: int
    """How many calls."""
    missed: int
    """Packets that were not seen, since too many came at once."""
    kinds: list[str]
    """What is counted in timelines: `classes` of packets that depart, then everything else."""
    classes: int
    """How many of the kinds are classes of packets."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            summary=RunSummary.from_json(value["summary"]),
            topology=Topology.from_json(value["topology"]),
            changes=value.get("changes", None),
            nanoseconds=value["nanoseconds"],
            cut=value["cut"],
            records=value["records"],
            packets=value["packets"],
            calls=value["calls"],
            missed=value["missed"],
            kinds=value["kinds"],
            classes=value["classes"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("summary", self.summary.to_json()),
            ("topology", self.topology.to_json()),
            ("changes", self.changes),
            ("nanoseconds", self.nanoseconds),
            ("cut", self.cut),
            ("records", self.records),
            ("packets", self.packets),
            ("calls", self.calls),
            ("missed", self.missed),
            ("kinds", self.kinds),
            ("classes", self.classes),
        )


@dataclass(slots=True, kw_only=True)
class RunClock:
    """`POST /v1/labs/NAME/clock/run`: lets the clock go until the first of these, or until a breakpoint
    stops the lab, and answers then. Even a paused one, which is paused again then. One of them must be
    named."""

    until: Span | None = None
    """The lab has been up for so long."""
    by: Span | None = None
    """So much time has passed."""
    next: Step | None = None
    """This has happened once."""
    ended: str | None = None
    """This program has ended: its number, or its name as `machine.name`."""
    ready: str | None = None
    """This program is ready."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            until=value.get("until", None),
            by=value.get("by", None),
            next=value.get("next", None),
            ended=value.get("ended", None),
            ready=value.get("ready", None),
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("until", self.until),
            ("by", self.by),
            ("next", self.next),
            ("ended", self.ended),
            ("ready", self.ready),
        )


@dataclass(slots=True, kw_only=True)
class RunDifference:
    """Where two runs part."""

    same: bool
    """They do not."""
    nanoseconds: list[int | None]
    """When the first event that differs happened in either run, ns; none: it has no such event."""
    text: str
    """As `vink lab diff` tells it."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            same=value["same"],
            nanoseconds=value["nanoseconds"],
            text=value["text"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("same", self.same),
            ("nanoseconds", self.nanoseconds),
            ("text", self.text),
        )


@dataclass(slots=True, kw_only=True)
class RunEnd:
    """What an interface had counted."""

    end: str
    """`machine:interface`."""
    sent: int
    """Packets that departed."""
    sent_bytes: int
    """Their bytes."""
    received: int
    """Packets that arrived."""
    received_bytes: int
    """Their bytes."""
    lost: int
    """Packets that were lost here: by the wire, or a full queue."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            end=value["end"],
            sent=value["sent"],
            sent_bytes=value["sent-bytes"],
            received=value["received"],
            received_bytes=value["received-bytes"],
            lost=value["lost"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("end", self.end),
            ("sent", self.sent),
            ("sent-bytes", self.sent_bytes),
            ("received", self.received),
            ("received-bytes", self.received_bytes),
            ("lost", self.lost),
        )


@dataclass(slots=True, kw_only=True)
class RunEvent:
    """Something that happened in a run."""

    number: int
    """Its place in the journal, from 0."""
    nanoseconds: int
    """When, on the run's clock."""
    kind: str
    """A kind as timelines have them, or `arrival`, `thread`, `output`."""
    text: str
    """In one line."""
    end: str | None = None
    """The interface where it happened, as `machine:interface`."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            number=value["number"],
            nanoseconds=value["nanoseconds"],
            kind=value["kind"],
            text=value["text"],
            end=value.get("end", None),
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("number", self.number),
            ("nanoseconds", self.nanoseconds),
            ("kind", self.kind),
            ("text", self.text),
            ("end", self.end),
        )


@dataclass(slots=True, kw_only=True)
class RunPoint:
    """A moment of a run."""

    path: str
    """The run's manifest."""
    run: str | None = None
    """The run, if it is listed."""
    nanoseconds: int
    """When, on its clock."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            path=value["path"],
            run=value.get("run", None),
            nanoseconds=value["nanoseconds"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("path", self.path),
            ("run", self.run),
            ("nanoseconds", self.nanoseconds),
        )


@dataclass(slots=True, kw_only=True)
class RunProgram:
    """A program that ran."""

    program: int
    """Its number in the run."""
    machine: str
    """Where."""
    name: str
    """The first of its words."""
    started: int
    """Since when, ns."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            program=value["program"],
            machine=value["machine"],
            name=value["name"],
            started=value["started"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("program", self.program),
            ("machine", self.machine),
            ("name", self.name),
            ("started", self.started),
        )


@dataclass(slots=True, kw_only=True)
class RunState:
    """How a run was at a moment, at the end of what happened then."""

    nanoseconds: int
    """When, on the run's clock."""
    records: int
    """How many records there were."""
    revision: int
    """How many changes users had asked for."""
    under_way: int
    """Packets under way."""
    ends: list[RunEnd]
    """What interfaces had counted."""
    programs: list[RunProgram]
    """Programs that ran."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            nanoseconds=value["nanoseconds"],
            records=value["records"],
            revision=value["revision"],
            under_way=value["under-way"],
            ends=[RunEnd.from_json(each) for each in value["ends"]],
            programs=[RunProgram.from_json(each) for each in value["programs"]],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("nanoseconds", self.nanoseconds),
            ("records", self.records),
            ("revision", self.revision),
            ("under-way", self.under_way),
            ("ends", [each.to_json() for each in self.ends]),
            ("programs", [each.to_json() for each in self.programs]),
        )


@dataclass(slots=True, kw_only=True)
class RunSummary:
    """A recorded run in a list."""

    id: str
    """By this it is asked for."""
    lab: str
    """The lab; the program, if it was one by itself."""
    path: str
    """The manifest."""
    began: float
    """The date at which its clock was at 0, in seconds since 1970."""
    nanoseconds: int | None = None
    """How long it is on its own clock; none: it goes on, or was cut short."""
    only_history: str | None = None
    """Why its moments can't be opened as labs; none: they can."""
    parent: RunPoint | None = None
    """The moment of another run from which it went its own way."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            id=value["id"],
            lab=value["lab"],
            path=value["path"],
            began=value["began"],
            nanoseconds=value.get("nanoseconds", None),
            only_history=value.get("only-history", None),
            parent=value.get("parent", None),
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("id", self.id),
            ("lab", self.lab),
            ("path", self.path),
            ("began", self.began),
            ("nanoseconds", self.nanoseconds),
            ("only-history", self.only_history),
            ("parent", self.parent and self.parent.to_json()),
        )


@dataclass(slots=True, kw_only=True)
class RunTimeline:
    """How much happened over a span of time."""

    from_: int
    """When the first bin begins, ns."""
    width: int
    """How long each is, ns."""
    bins: int
    """How many there are."""
    rows: list[TimelineRow]
    """Of the kinds that there are in this span."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            from_=value["from"],
            width=value["width"],
            bins=value["bins"],
            rows=[TimelineRow.from_json(each) for each in value["rows"]],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("from", self.from_),
            ("width", self.width),
            ("bins", self.bins),
            ("rows", [each.to_json() for each in self.rows]),
        )


@dataclass(slots=True, kw_only=True)
class RunTopology:
    """A run's machines and wires at a moment, at the end of what happened then."""

    nanoseconds: int
    """When, on the run's clock."""
    changes: int
    """How often machines or wires had changed."""
    since: int
    """Since when they are as they were then, ns."""
    until: int | None = None
    """When the next change is, ns; none: there is none."""
    topology: Topology
    """Those that were there. Ends have the numbers that flights have, at any time: an end that was not
    there has no node, and belongs to no wire."""
    addresses: dict[str, list[str]]
    """Addresses of interfaces that had some, by `machine:interface`, with the size of their network."""
    settings: dict[str, RunWire]
    """What wires did to packets, by name. A wire that is not here was ideal."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            nanoseconds=value["nanoseconds"],
            changes=value["changes"],
            since=value["since"],
            until=value.get("until", None),
            topology=Topology.from_json(value["topology"]),
            addresses=value["addresses"],
            settings=value["settings"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("nanoseconds", self.nanoseconds),
            ("changes", self.changes),
            ("since", self.since),
            ("until", self.until),
            ("topology", self.topology.to_json()),
            ("addresses", self.addresses),
            ("settings", self.settings),
        )


@dataclass(slots=True, kw_only=True)
class RunWire:
    """What a wire did to packets."""

    settings: Settings
    """To those of any end."""
    from_: dict[str, Settings] | None = None
    """What was different for those that this end sent, such as `r1:eth0` or `outside`."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            settings=value["settings"],
            from_=value.get("from", None),
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("settings", self.settings),
            ("from", self.from_),
        )


@dataclass(slots=True, kw_only=True)
class SavedViews:
    """`POST /v1/labs/LAB/views/save`: the files that were written."""

    views: str
    """The document, as Yjs has it."""
    json: str
    """The same as JSON with sorted keys, for people and version control."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            views=value["views"],
            json=value["json"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("views", self.views),
            ("json", self.json),
        )


@dataclass(slots=True, kw_only=True)
class SendSignal:
    """A signal for a program's process group."""

    signal: int
    """Its number, see signal(7)."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            signal=value["signal"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("signal", self.signal),
        )


@dataclass(slots=True, kw_only=True)
class Series:
    """A time series."""

    name: str
    """Its name."""
    spec: SeriesSpec
    """As in a lab file."""
    path: str
    """Its file."""
    rows: int
    """Rows that it has."""
    missed: int
    """Events that came faster than they could be kept."""
    error: str | None = None
    """Why it has no more of them."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            name=value["name"],
            spec=value["spec"],
            path=value["path"],
            rows=value["rows"],
            missed=value["missed"],
            error=value.get("error", None),
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("name", self.name),
            ("spec", self.spec),
            ("path", self.path),
            ("rows", self.rows),
            ("missed", self.missed),
            ("error", self.error),
        )


@dataclass(slots=True, kw_only=True)
class SeriesRows:
    """Rows of a time series."""

    columns: list[str]
    """The columns' names, the time first."""
    rows: list[list[float | None]]
    """Their numbers, by row. Of a part of the time that has more rows than are given, there are two:
    with the least and the greatest number of each column, in the order in which they came."""
    stands_for: int
    """So many rows these stand for."""
    more: bool
    """There are more rows after the last one: ask from its time on."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            columns=value["columns"],
            rows=value["rows"],
            stands_for=value["stands-for"],
            more=value["more"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("columns", self.columns),
            ("rows", self.rows),
            ("stands-for", self.stands_for),
            ("more", self.more),
        )


@dataclass(slots=True, kw_only=True)
class Session:
    """The session of a request."""

    role: Role
    """What it may do."""
    actor: str
    """Its user's name."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            role=value["role"],
            actor=value["actor"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("role", self.role),
            ("actor", self.actor),
        )


@dataclass(slots=True, kw_only=True)
class Size:
    """The size of a terminal in characters."""

    rows: int
    """Lines."""
    columns: int
    """Characters in a line."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            rows=value["rows"],
            columns=value["columns"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("rows", self.rows),
            ("columns", self.columns),
        )


@dataclass(slots=True, kw_only=True)
class Statistics:
    """How much was done so far."""

    time: float
    """Seconds since 1970."""
    workers: list[WorkerStatistics]
    """Of its workers."""
    wires: list[WireStatistics]
    """Of its wires."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            time=value["time"],
            workers=[WorkerStatistics.from_json(each) for each in value["workers"]],
            wires=[WireStatistics.from_json(each) for each in value["wires"]],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("time", self.time),
            ("workers", [each.to_json() for each in self.workers]),
            ("wires", [each.to_json() for each in self.wires]),
        )


@dataclass(slots=True, kw_only=True)
class Ticket:
    """A ticket: worth one session."""

    url: str
    """The page's address, with the ticket in its fragment, which no browser sends."""
    ticket: str
    """The ticket."""
    seconds: int
    """Seconds that it may be used for."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            url=value["url"],
            ticket=value["ticket"],
            seconds=value["seconds"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("url", self.url),
            ("ticket", self.ticket),
            ("seconds", self.seconds),
        )


@dataclass(slots=True, kw_only=True)
class TimelineRow:
    """How much of one kind happened in each bin."""

    kind: str
    """A class of packets, or `loss`, `breakpoint`, `request`, `line`, `program`, `call`, `clock`,
    `drop`, `change`."""
    counts: list[int]
    """For each bin."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            kind=value["kind"],
            counts=value["counts"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("kind", self.kind),
            ("counts", self.counts),
        )


@dataclass(slots=True, kw_only=True)
class Topology:
    """`GET /v1/labs/LAB/topology`."""

    revision: int
    """How many changes of the lab this has; the event of each one says the number."""
    nodes: list[TopologyNode]
    """Its machines and switches."""
    wires: list[TopologyWire]
    """Its wires."""
    ends: list[TopologyEnd]
    """All ends of wires. The place here is the number of the end, for as long as the revision is the
    same."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            revision=value["revision"],
            nodes=[TopologyNode.from_json(each) for each in value["nodes"]],
            wires=[TopologyWire.from_json(each) for each in value["wires"]],
            ends=[TopologyEnd.from_json(each) for each in value["ends"]],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("revision", self.revision),
            ("nodes", [each.to_json() for each in self.nodes]),
            ("wires", [each.to_json() for each in self.wires]),
            ("ends", [each.to_json() for each in self.ends]),
        )


@dataclass(slots=True, kw_only=True)
class TopologyEnd:
    """An end of a wire."""

    node: int | None = None
    """Its node's place in `nodes`; none: outside."""
    interface: str
    """Its interface; empty: outside."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            node=value.get("node", None),
            interface=value["interface"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("node", self.node),
            ("interface", self.interface),
        )


@dataclass(slots=True, kw_only=True)
class TopologyNode:
    """A machine or a switch."""

    name: str
    """Its name."""
    kind: NodeKind
    """What it is."""
    state: MachineState
    """Whether it runs."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            name=value["name"],
            kind=value["kind"],
            state=value["state"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("name", self.name),
            ("kind", self.kind),
            ("state", self.state),
        )


@dataclass(slots=True, kw_only=True)
class TopologyWire:
    """A wire."""

    name: str
    """Its name."""
    up: bool
    """Whether it is plugged in."""
    bus: bool
    """An Ethernet segment with any number of ends."""
    ends: list[int]
    """Its ends, by number."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            name=value["name"],
            up=value["up"],
            bus=value["bus"],
            ends=value["ends"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("name", self.name),
            ("up", self.up),
            ("bus", self.bus),
            ("ends", self.ends),
        )


@dataclass(slots=True, kw_only=True)
class UseTicket:
    """`POST /v1/session`: changes a ticket for a session."""

    ticket: str
    """The ticket."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            ticket=value["ticket"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("ticket", self.ticket),
        )


@dataclass(slots=True, kw_only=True)
class Version:
    """Which control process answers."""

    vink: str
    """Of `vink`."""
    pid: int
    """The control process."""
    executable: str
    """Its executable, for clients that find that another one is installed by now."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            vink=value["vink"],
            pid=value["pid"],
            executable=value["executable"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("vink", self.vink),
            ("pid", self.pid),
            ("executable", self.executable),
        )


@dataclass(slots=True, kw_only=True)
class Wire:
    """A wire as it is now."""

    name: str
    """Its name."""
    bus: bool
    """An Ethernet segment with any number of ends."""
    up: bool
    """Whether it is plugged in."""
    settings: Settings
    """What it does to packets of every end that `from` does not name."""
    from_: dict[str, Settings]
    """What is different for packets that one end sends."""
    ends: list[WireEnd]
    """Its ends."""
    uplink: Uplink | None = None
    """What it is joined to outside."""
    uplink_error: str | None = None
    """What is wrong with that, or with the way to another host."""
    rejected: int | None = None
    """Of a wire between two hosts: datagrams that were dropped, as neither side had sent them."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            name=value["name"],
            bus=value["bus"],
            up=value["up"],
            settings=value["settings"],
            from_=value["from"],
            ends=[WireEnd.from_json(each) for each in value["ends"]],
            uplink=value.get("uplink", None),
            uplink_error=value.get("uplink-error", None),
            rejected=value.get("rejected", None),
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("name", self.name),
            ("bus", self.bus),
            ("up", self.up),
            ("settings", self.settings),
            ("from", self.from_),
            ("ends", [each.to_json() for each in self.ends]),
            ("uplink", self.uplink),
            ("uplink-error", self.uplink_error),
            ("rejected", self.rejected),
        )


@dataclass(slots=True, kw_only=True)
class WireEnd:
    """An end of a wire."""

    end: str
    """`machine:interface`, or `outside`."""
    counters: dict[str, int] = field(default_factory=dict)
    """What happened to packets that it sent, by name (`sent`, `lost` ...); nothing in lists."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            end=value["end"],
            counters=value.get("counters", {}),
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("end", self.end),
            ("counters", self.counters),
        )


@dataclass(slots=True, kw_only=True)
class WireStatistics:
    """Figures of a wire."""

    wire: str
    """Its name."""
    ends: list[EndStatistics]
    """Of packets that its ends sent."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            wire=value["wire"],
            ends=[EndStatistics.from_json(each) for each in value["ends"]],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("wire", self.wire),
            ("ends", [each.to_json() for each in self.ends]),
        )


@dataclass(slots=True, kw_only=True)
class WorkerStatistics:
    """Figures of a worker."""

    image: str | None = None
    """The image's name in the lab; none: the usual one."""
    resident: int
    """Resident memory in bytes."""
    counters: dict[str, int]
    """The kernel's counters by name."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            image=value.get("image", None),
            resident=value["resident"],
            counters=value["counters"],
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("image", self.image),
            ("resident", self.resident),
            ("counters", self.counters),
        )


@dataclass(slots=True, kw_only=True)
class WorkerStatus:
    """A worker process."""

    host: str | None = None
    """Which of the lab's hosts it is on; none: the one of the control process."""
    image: str | None = None
    """The image's name in the lab; none: the usual one."""
    worker: str | None = None
    """The worker group of its machines; none: those that name none."""
    core: list[int] | None = None
    """The processors on which it stays; empty: any."""
    path: str
    """The image's file."""
    pid: int | None = None
    """The process, by its number on its host; none: it has died."""
    release: str
    """The release of its kernel."""
    machines: int
    """How many machines it has."""
    error: str | None = None
    """Why it died: a panic with its backtrace, or how the process ended."""
    stuck: str | None = None
    """For how long its kernel has not returned, and where it was found, if it does not come back from
    what it does."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Of what the API answers."""
        return cls(
            host=value.get("host", None),
            image=value.get("image", None),
            worker=value.get("worker", None),
            core=value.get("core", None),
            path=value["path"],
            pid=value.get("pid", None),
            release=value["release"],
            machines=value["machines"],
            error=value.get("error", None),
            stuck=value.get("stuck", None),
        )

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            ("host", self.host),
            ("image", self.image),
            ("worker", self.worker),
            ("core", self.core),
            ("path", self.path),
            ("pid", self.pid),
            ("release", self.release),
            ("machines", self.machines),
            ("error", self.error),
            ("stuck", self.stuck),
        )


class Client(Transport):
    """A client that waits for its answers. Where they come from: vink.control has control processes."""

    def new_ticket(self, body: NewTicket) -> Ticket:
        """Lets a page in: a ticket, and the address where it is used, over loopback TCP."""
        answer: Any = self._ask("POST", "/v1/tickets", body.to_json())
        return Ticket.from_json(answer)

    def use_ticket(self, body: UseTicket) -> NewSession:
        """A session in exchange for a ticket, which is used up."""
        answer: Any = self._ask("POST", "/v1/session", body.to_json())
        return NewSession.from_json(answer)

    def session(self) -> Session:
        """The session of this request."""
        answer: Any = self._ask("GET", "/v1/session")
        return Session.from_json(answer)

    def get_sessions(self) -> list[OpenSession]:
        """Sessions of pages."""
        answer: Any = self._ask("GET", "/v1/sessions")
        return [OpenSession.from_json(each) for each in answer]

    def delete_sessions_session(self, session: str) -> Revoked:
        """Ends a session, by its number, or all of a user, by their name; what they are connected by is
        cut."""
        answer: Any = self._ask("DELETE", path_of("/v1/sessions/{}", session))
        return Revoked.from_json(answer)

    def ready_labs(self) -> list[ReadyLab]:
        """The labs that come with Vink."""
        answer: Any = self._ask("GET", "/v1/ready")
        return [ReadyLab.from_json(each) for each in answer]

    def ready_lab(self, name: str) -> ReadyLabFile:
        """A lab that comes with Vink, with its text."""
        answer: Any = self._ask("GET", path_of("/v1/ready/{}", name))
        return ReadyLabFile.from_json(answer)

    def check_spec(self, body: CheckSpec) -> CheckedSpec:
        """Reads a lab file's text, and tells what is wrong in it and where."""
        answer: Any = self._ask("POST", "/v1/spec/check", body.to_json())
        return CheckedSpec.from_json(answer)

    def format_spec(self, body: FormatSpec) -> FormattedSpec:
        """The lab file of a lab."""
        answer: Any = self._ask("POST", "/v1/spec/format", body.to_json())
        return FormattedSpec.from_json(answer)

    def get_labs_lab_views(self, lab: str) -> Socket:
        """What the pages of a lab share: positions, drawings, notes, tasks, and where users are; changed
        with the role draw."""
        return self._open(path_of("/v1/labs/{}/views", lab))

    def post_labs_lab_views_save(self, lab: str) -> SavedViews:
        """Writes a lab's views now, and as JSON."""
        answer: Any = self._ask("POST", path_of("/v1/labs/{}/views/save", lab))
        return SavedViews.from_json(answer)

    def version(self) -> Version:
        """The version, and the control process that answers."""
        answer: Any = self._ask("GET", "/v1/version")
        return Version.from_json(answer)

    def labs(self) -> list[LabSummary]:
        """All labs."""
        answer: Any = self._ask("GET", "/v1/labs")
        return [LabSummary.from_json(each) for each in answer]

    def put_lab(self, lab: str, body: PutLab) -> Applied:
        """Makes a lab, or changes the one that runs so that it is as asked for."""
        answer: Any = self._ask("PUT", path_of("/v1/labs/{}", lab), body.to_json())
        return Applied.from_json(answer)

    def lab(self, lab: str) -> LabStatus:
        """How a lab is."""
        answer: Any = self._ask("GET", path_of("/v1/labs/{}", lab))
        return LabStatus.from_json(answer)

    def remove_lab(self, lab: str) -> None:
        """Takes a lab down; one that is being made too."""
        self._ask("DELETE", path_of("/v1/labs/{}", lab))

    def spec(self, lab: str) -> Lab:
        """What runs now, as a lab file has it."""
        answer: Lab = self._ask("GET", path_of("/v1/labs/{}/spec", lab))
        return answer

    def topology(self, lab: str) -> Topology:
        """What its picture is drawn from: nodes, wires, and the numbers of their ends."""
        answer: Any = self._ask("GET", path_of("/v1/labs/{}/topology", lab))
        return Topology.from_json(answer)

    def clock(self, lab: str) -> Clock:
        """How a lab's clock is."""
        answer: Any = self._ask("GET", path_of("/v1/labs/{}/clock", lab))
        return Clock.from_json(answer)

    def change_clock(self, lab: str, body: ChangeClock) -> Clock:
        """Stops a lab's clock, lets it go on, or says how fast it may go."""
        answer: Any = self._ask("PATCH", path_of("/v1/labs/{}/clock", lab), body.to_json())
        return Clock.from_json(answer)

    def run_clock(self, lab: str, body: RunClock) -> Clock:
        """Lets a lab's clock go so far, and answers when it is there."""
        answer: Any = self._ask("POST", path_of("/v1/labs/{}/clock/run", lab), body.to_json())
        return Clock.from_json(answer)

    def restart_lab(self, lab: str) -> Restarted:
        """Boots all workers of a lab again, with what should run there."""
        answer: Any = self._ask("POST", path_of("/v1/labs/{}/restart", lab))
        return Restarted.from_json(answer)

    def restart_machine(self, lab: str, machine: str) -> Restarted:
        """Boots the worker of a machine again, with all machines of its image."""
        answer: Any = self._ask("POST", path_of("/v1/labs/{}/machines/{}/restart", lab, machine))
        return Restarted.from_json(answer)

    def machines(self, lab: str) -> list[MachineSummary]:
        """All machines of a lab."""
        answer: Any = self._ask("GET", path_of("/v1/labs/{}/machines", lab))
        return [MachineSummary.from_json(each) for each in answer]

    def add_machine(self, lab: str, body: NewMachine) -> Machine:
        """Makes a machine with its interfaces, and starts its programs."""
        answer: Any = self._ask("POST", path_of("/v1/labs/{}/machines", lab), body.to_json())
        return Machine.from_json(answer)

    def machine(self, lab: str, machine: str) -> Machine:
        """How a machine is: its interfaces with addresses and counters."""
        answer: Any = self._ask("GET", path_of("/v1/labs/{}/machines/{}", lab, machine))
        return Machine.from_json(answer)

    def remove_machine(self, lab: str, machine: str) -> None:
        """Ends a machine's programs and gives it up."""
        self._ask("DELETE", path_of("/v1/labs/{}/machines/{}", lab, machine))

    def add_interface(self, lab: str, machine: str, body: NewInterface) -> Interface:
        """Gives a machine an interface."""
        answer: Any = self._ask("POST", path_of("/v1/labs/{}/machines/{}/interfaces", lab, machine), body.to_json())
        return Interface.from_json(answer)

    def interface(self, lab: str, machine: str, interface: str) -> Interface:
        """How an interface is."""
        answer: Any = self._ask("GET", path_of("/v1/labs/{}/machines/{}/interfaces/{}", lab, machine, interface))
        return Interface.from_json(answer)

    def change_interface(self, lab: str, machine: str, interface: str, body: ChangeInterface) -> Interface:
        """Attaches an interface to a wire, detaches it, or changes its addresses."""
        answer: Any = self._ask(
            "PATCH", path_of("/v1/labs/{}/machines/{}/interfaces/{}", lab, machine, interface), body.to_json()
        )
        return Interface.from_json(answer)

    def remove_interface(self, lab: str, machine: str, interface: str) -> None:
        """Takes an interface from a machine."""
        self._ask("DELETE", path_of("/v1/labs/{}/machines/{}/interfaces/{}", lab, machine, interface))

    def wires(self, lab: str) -> list[Wire]:
        """All wires of a lab, without counters."""
        answer: Any = self._ask("GET", path_of("/v1/labs/{}/wires", lab))
        return [Wire.from_json(each) for each in answer]

    def add_wire(self, lab: str, body: NewWire) -> Wire:
        """Makes a wire without ends."""
        answer: Any = self._ask("POST", path_of("/v1/labs/{}/wires", lab), body.to_json())
        return Wire.from_json(answer)

    def wire(self, lab: str, wire: str) -> Wire:
        """How a wire is, with the counters of its ends."""
        answer: Any = self._ask("GET", path_of("/v1/labs/{}/wires/{}", lab, wire))
        return Wire.from_json(answer)

    def change_wire(self, lab: str, wire: str, body: ChangeWire) -> Wire:
        """Changes what a wire does to packets from now on, or plugs it in or out."""
        answer: Any = self._ask("PATCH", path_of("/v1/labs/{}/wires/{}", lab, wire), body.to_json())
        return Wire.from_json(answer)

    def remove_wire(self, lab: str, wire: str) -> None:
        """Gives a wire up; interfaces at it stay, without a carrier."""
        self._ask("DELETE", path_of("/v1/labs/{}/wires/{}", lab, wire))

    def programs(self, lab: str) -> list[Program]:
        """Programs that run, those of the lab file, and the last ones that have ended."""
        answer: Any = self._ask("GET", path_of("/v1/labs/{}/programs", lab))
        return [Program.from_json(each) for each in answer]

    def start_program(self, lab: str, body: NewProgram) -> Program:
        """Starts a program, or has it ready to be started with its terminal."""
        answer: Any = self._ask("POST", path_of("/v1/labs/{}/programs", lab), body.to_json())
        return Program.from_json(answer)

    def program(self, lab: str, program: str) -> Program:
        """How a program is: by its number, or its name as machine.name."""
        answer: Any = self._ask("GET", path_of("/v1/labs/{}/programs/{}", lab, program))
        return Program.from_json(answer)

    def end_program(self, lab: str, program: str) -> Program:
        """Ends a program: a virtualized process by asking it to, any other by SIGKILL."""
        answer: Any = self._ask("DELETE", path_of("/v1/labs/{}/programs/{}", lab, program))
        return Program.from_json(answer)

    def signal_program(self, lab: str, program: str, body: SendSignal) -> Program:
        """Sends a signal to a program's process group."""
        answer: Any = self._ask("POST", path_of("/v1/labs/{}/programs/{}/signal", lab, program), body.to_json())
        return Program.from_json(answer)

    def post_labs_lab_programs_program_input(self, lab: str, program: str, body: ProgramInput) -> None:
        """Gives an attached program input, as its client does; answers when it is given."""
        self._ask("POST", path_of("/v1/labs/{}/programs/{}/input", lab, program), body)

    def report(self, lab: str, program: str) -> Report:
        """What a virtualized process has found out so far."""
        answer: Any = self._ask("GET", path_of("/v1/labs/{}/programs/{}/report", lab, program))
        return Report.from_json(answer)

    def add_relay(self, lab: str, machine: str, body: NewRelay) -> Relay:
        """Adds a relay to a machine; answers when it listens."""
        answer: Any = self._ask("POST", path_of("/v1/labs/{}/machines/{}/relays", lab, machine), body.to_json())
        return Relay.from_json(answer)

    def relays(self, lab: str) -> list[Relay]:
        """Relays of a lab, with what they have counted."""
        answer: Any = self._ask("GET", path_of("/v1/labs/{}/relays", lab))
        return [Relay.from_json(each) for each in answer]

    def relay(self, lab: str, relay: str) -> Relay:
        """How a relay is: by its name as machine.name."""
        answer: Any = self._ask("GET", path_of("/v1/labs/{}/relays/{}", lab, relay))
        return Relay.from_json(answer)

    def remove_relay(self, lab: str, relay: str) -> Relay:
        """Ends a relay and its connections."""
        answer: Any = self._ask("DELETE", path_of("/v1/labs/{}/relays/{}", lab, relay))
        return Relay.from_json(answer)

    def output(self, lab: str, program: str, *, follow: bool | None = None, tail: int | None = None) -> Iterator[bytes]:
        """What a program has written that is not attached; with `follow` until it ends."""
        for each in self._stream(
            path_of("/v1/labs/{}/programs/{}/output", lab, program) + query_of(follow=follow, tail=tail)
        ):
            yield each

    def get_labs_lab_terminals(self, lab: str) -> list[KeptTerminal]:
        """Terminals that are kept, the users that look at them, and which has the keyboard."""
        answer: Any = self._ask("GET", path_of("/v1/labs/{}/terminals", lab))
        return [KeptTerminal.from_json(each) for each in answer]

    def attach(self, lab: str, program: str) -> Socket:
        """Starts a program that was made with `attach`, and carries its input and output; or shows a
        terminal that is kept."""
        return self._open(path_of("/v1/labs/{}/programs/{}/terminal", lab, program))

    def captures(self, lab: str) -> list[Capture]:
        """Captures that go on, and the last ones that have ended."""
        answer: Any = self._ask("GET", path_of("/v1/labs/{}/captures", lab))
        return [Capture.from_json(each) for each in answer]

    def start_capture(self, lab: str, body: NewCapture) -> Capture:
        """Writes packets to a file from now on, as pcapng, with the role own; without a path the lab keeps
        them."""
        answer: Any = self._ask("POST", path_of("/v1/labs/{}/captures", lab), body.to_json())
        return Capture.from_json(answer)

    def get_labs_lab_captures_capture_packets(
        self, lab: str, capture: str, *, from_: int | None = None, count: int | None = None
    ) -> CapturedPackets:
        """Packets of a capture, a line each, also while it goes on."""
        answer: Any = self._ask(
            "GET", path_of("/v1/labs/{}/captures/{}/packets", lab, capture) + query_of(**{"from": from_}, count=count)
        )
        return CapturedPackets.from_json(answer)

    def get_labs_lab_captures_capture_packets_packet(self, lab: str, capture: str, packet: str) -> PacketDetail:
        """A packet of a capture: its bytes, and what Wireshark's dissectors find in it, where these are
        installed."""
        answer: Any = self._ask("GET", path_of("/v1/labs/{}/captures/{}/packets/{}", lab, capture, packet))
        return PacketDetail.from_json(answer)

    def get_labs_lab_captures_capture_file(self, lab: str, capture: str) -> Iterator[bytes]:
        """A capture as pcapng, as far as it is written."""
        for each in self._stream(path_of("/v1/labs/{}/captures/{}/file", lab, capture)):
            yield each

    def stop_capture(self, lab: str, capture: str) -> Capture:
        """Ends a capture."""
        answer: Any = self._ask("DELETE", path_of("/v1/labs/{}/captures/{}", lab, capture))
        return Capture.from_json(answer)

    def breakpoints(self, lab: str) -> Breakpoints:
        """Breakpoints, what they have counted, and what they have stopped."""
        answer: Any = self._ask("GET", path_of("/v1/labs/{}/breakpoints", lab))
        return Breakpoints.from_json(answer)

    def add_breakpoint(self, lab: str, body: NewBreakpoint) -> Breakpoint:
        """Sets a breakpoint."""
        answer: Any = self._ask("POST", path_of("/v1/labs/{}/breakpoints", lab), body.to_json())
        return Breakpoint.from_json(answer)

    def change_breakpoint(self, lab: str, breakpoint: str, body: ChangeBreakpoint) -> Breakpoint:
        """Has a breakpoint do something, or nothing for a while."""
        answer: Any = self._ask("PATCH", path_of("/v1/labs/{}/breakpoints/{}", lab, breakpoint), body.to_json())
        return Breakpoint.from_json(answer)

    def remove_breakpoint(self, lab: str, breakpoint: str) -> None:
        """Removes a breakpoint; what waits because of it goes on."""
        self._ask("DELETE", path_of("/v1/labs/{}/breakpoints/{}", lab, breakpoint))

    def decide_packet(self, lab: str, breakpoint: str, body: PacketVerdict) -> None:
        """Decides about the packet that has stopped the lab."""
        self._ask("POST", path_of("/v1/labs/{}/breakpoints/{}/verdict", lab, breakpoint), body.to_json())

    def pods(self, lab: str) -> list[Pod]:
        """Pods, what they have used and counted, and why some have ended."""
        answer: Any = self._ask("GET", path_of("/v1/labs/{}/pods", lab))
        return [Pod.from_json(each) for each in answer]

    def load_pod(self, lab: str, body: NewPod) -> Pod:
        """Loads a pod, in the place of one of its name."""
        answer: Any = self._ask("POST", path_of("/v1/labs/{}/pods", lab), body.to_json())
        return Pod.from_json(answer)

    def pod(self, lab: str, pod: str) -> Pod:
        """A pod."""
        answer: Any = self._ask("GET", path_of("/v1/labs/{}/pods/{}", lab, pod))
        return Pod.from_json(answer)

    def revoke_pod(self, lab: str, pod: str) -> Pod:
        """Ends a pod, and takes back all that it has; it can be loaded again."""
        answer: Any = self._ask("POST", path_of("/v1/labs/{}/pods/{}/revoke", lab, pod))
        return Pod.from_json(answer)

    def paths(self, lab: str) -> list[PacketPath]:
        """Paths of packets, and what they have used and counted."""
        answer: Any = self._ask("GET", path_of("/v1/labs/{}/paths", lab))
        return [PacketPath.from_json(each) for each in answer]

    def path(self, lab: str, path: str) -> PacketPath:
        """A path."""
        answer: Any = self._ask("GET", path_of("/v1/labs/{}/paths/{}", lab, path))
        return PacketPath.from_json(answer)

    def remove_path(self, lab: str, path: str) -> PacketPath:
        """Removes a path: its packets take none any more."""
        answer: Any = self._ask("DELETE", path_of("/v1/labs/{}/paths/{}", lab, path))
        return PacketPath.from_json(answer)

    def filters(self, lab: str) -> list[Filter]:
        """Filters in force."""
        answer: Any = self._ask("GET", path_of("/v1/labs/{}/filters", lab))
        return [Filter.from_json(each) for each in answer]

    def filter(self, lab: str, place: str) -> FilterRules:
        """A filter with its rules as they were given and as the kernel has them, counters and versions."""
        answer: Any = self._ask("GET", path_of("/v1/labs/{}/filters/{}", lab, place))
        return FilterRules.from_json(answer)

    def put_filter(self, lab: str, place: str, body: NewFilter) -> Filter:
        """Has rules for nft(8) in force at a machine or an interface, in one transaction; or checks
        them."""
        answer: Any = self._ask("PUT", path_of("/v1/labs/{}/filters/{}", lab, place), body.to_json())
        return Filter.from_json(answer)

    def remove_filter(self, lab: str, place: str) -> None:
        """Removes a filter: its tables go."""
        self._ask("DELETE", path_of("/v1/labs/{}/filters/{}", lab, place))

    def roll_back_filter(self, lab: str, place: str, body: Rollback) -> Filter:
        """Has an earlier version of a filter in force, as a new version."""
        answer: Any = self._ask("POST", path_of("/v1/labs/{}/filters/{}/rollback", lab, place), body.to_json())
        return Filter.from_json(answer)

    def series(self, lab: str) -> list[Series]:
        """Time series, and how many rows they have."""
        answer: Any = self._ask("GET", path_of("/v1/labs/{}/series", lab))
        return [Series.from_json(each) for each in answer]

    def add_series(self, lab: str, body: NewSeries) -> Series:
        """Writes numbers to a file from now on, by the lab's clock or at events."""
        answer: Any = self._ask("POST", path_of("/v1/labs/{}/series", lab), body.to_json())
        return Series.from_json(answer)

    def remove_series(self, lab: str, series: str) -> Series:
        """Ends a time series; its file stays."""
        answer: Any = self._ask("DELETE", path_of("/v1/labs/{}/series/{}", lab, series))
        return Series.from_json(answer)

    def get_labs_lab_series_series_rows(
        self, lab: str, series: str, *, from_: float | None = None, to: float | None = None, points: int | None = None
    ) -> SeriesRows:
        """Rows of a time series, also while it grows."""
        answer: Any = self._ask(
            "GET",
            path_of("/v1/labs/{}/series/{}/rows", lab, series) + query_of(**{"from": from_}, to=to, points=points),
        )
        return SeriesRows.from_json(answer)

    def get_labs_lab_series_series_file(self, lab: str, series: str) -> Iterator[bytes]:
        """The file of a time series, as far as it is written."""
        for each in self._stream(path_of("/v1/labs/{}/series/{}/file", lab, series)):
            yield each

    def resume(self, lab: str) -> None:
        """Lets the lab go on, if a breakpoint has stopped it."""
        self._ask("POST", path_of("/v1/labs/{}/continue", lab))

    def resume_machine(self, lab: str, machine: str) -> None:
        """Lets a machine go on that a breakpoint has stopped."""
        self._ask("POST", path_of("/v1/labs/{}/machines/{}/continue", lab, machine))

    def capture(
        self, lab: str, *, interfaces: str, filter: str | None = None, snap: int | None = None
    ) -> Iterator[bytes]:
        """Packets as they come, as pcapng."""
        for each in self._pieces(
            path_of("/v1/labs/{}/captures/stream", lab) + query_of(interfaces=interfaces, filter=filter, snap=snap)
        ):
            yield each

    def get_labs_lab_feed(self, lab: str) -> Socket:
        """Packets, counters and queues as they are now, for a picture of the lab."""
        return self._open(path_of("/v1/labs/{}/feed", lab))

    def samples(
        self, lab: str, *, machine: str, points: str, bytes: int, offset: int | None = None, number: int | None = None
    ) -> Iterator[bytes]:
        """Sockets as they are when the kernel passes its tracepoints."""
        for each in self._pieces(
            path_of("/v1/labs/{}/samples/stream", lab)
            + query_of(machine=machine, points=points, bytes=bytes, offset=offset, number=number)
        ):
            yield each

    def events(self, *, lab: str | None = None, watch: str | None = None) -> Iterator[Event]:
        """Events from now on."""
        for each in self._events("/v1/events" + query_of(lab=lab, watch=watch)):
            yield Event.from_json(each)

    def statistics(self, lab: str) -> Statistics:
        """Figures of a lab."""
        answer: Any = self._ask("GET", path_of("/v1/labs/{}/statistics", lab))
        return Statistics.from_json(answer)

    def statistics_stream(self, lab: str, *, interval: Span | None = None) -> Iterator[Statistics]:
        """Figures of a lab at an interval."""
        for each in self._events(path_of("/v1/labs/{}/statistics/stream", lab) + query_of(interval=interval)):
            yield Statistics.from_json(each)

    def get_runs(self) -> list[RunSummary]:
        """Recorded runs: those of this control process's labs, and what was listed since."""
        answer: Any = self._ask("GET", "/v1/runs")
        return [RunSummary.from_json(each) for each in answer]

    def post_runs(self, body: NewRun) -> list[RunSummary]:
        """Lists what was recorded at a path, for all sessions."""
        answer: Any = self._ask("POST", "/v1/runs", body.to_json())
        return [RunSummary.from_json(each) for each in answer]

    def get_runs_run(self, run: str) -> Run:
        """A recorded run, with the topology that its lab was made with."""
        answer: Any = self._ask("GET", path_of("/v1/runs/{}", run))
        return Run.from_json(answer)

    def get_runs_run_timeline(
        self,
        run: str,
        *,
        from_: int | None = None,
        to: int | None = None,
        bins: int | None = None,
        end: str | None = None,
    ) -> RunTimeline:
        """How much of which kind happened when."""
        answer: Any = self._ask(
            "GET", path_of("/v1/runs/{}/timeline", run) + query_of(**{"from": from_}, to=to, bins=bins, end=end)
        )
        return RunTimeline.from_json(answer)

    def get_runs_run_events(
        self,
        run: str,
        *,
        from_: int | None = None,
        to: int | None = None,
        after: int | None = None,
        kinds: str | None = None,
        count: int | None = None,
    ) -> list[RunEvent]:
        """What happened, packets included, each in a line."""
        answer: Any = self._ask(
            "GET",
            path_of("/v1/runs/{}/events", run)
            + query_of(**{"from": from_}, to=to, after=after, kinds=kinds, count=count),
        )
        return [RunEvent.from_json(each) for each in answer]

    def get_runs_run_packets(
        self,
        run: str,
        *,
        from_: int | None = None,
        to: int | None = None,
        after: int | None = None,
        end: str | None = None,
        count: int | None = None,
    ) -> list[CapturedPacket]:
        """Packets that departed, arrived or were lost, a line each."""
        answer: Any = self._ask(
            "GET",
            path_of("/v1/runs/{}/packets", run) + query_of(**{"from": from_}, to=to, after=after, end=end, count=count),
        )
        return [CapturedPacket.from_json(each) for each in answer]

    def get_runs_run_packets_packet(self, run: str, packet: str) -> PacketDetail:
        """A packet: its first bytes, and what Wireshark's dissectors find in it, where these are
        installed."""
        answer: Any = self._ask("GET", path_of("/v1/runs/{}/packets/{}", run, packet))
        return PacketDetail.from_json(answer)

    def get_runs_run_next(
        self, run: str, *, at: int, kinds: str | None = None, back: bool | None = None
    ) -> list[RunEvent]:
        """The next event of some kinds, or the last one before; a list of one, or empty."""
        answer: Any = self._ask("GET", path_of("/v1/runs/{}/next", run) + query_of(at=at, kinds=kinds, back=back))
        return [RunEvent.from_json(each) for each in answer]

    def get_runs_run_state(self, run: str, *, at: int) -> RunState:
        """What was counted, and which programs ran, at a moment."""
        answer: Any = self._ask("GET", path_of("/v1/runs/{}/state", run) + query_of(at=at))
        return RunState.from_json(answer)

    def get_runs_run_topology(self, run: str, *, at: int) -> RunTopology:
        """Machines and wires as they were at a moment, and until when they stay so."""
        answer: Any = self._ask("GET", path_of("/v1/runs/{}/topology", run) + query_of(at=at))
        return RunTopology.from_json(answer)

    def get_runs_run_flights(self, run: str, *, from_: int, to: int, count: int | None = None) -> Iterator[bytes]:
        """Packets under way, as frames of the page's picture one behind the other."""
        for each in self._stream(path_of("/v1/runs/{}/flights", run) + query_of(**{"from": from_}, to=to, count=count)):
            yield each

    def get_runs_run_views(self, run: str) -> Socket:
        """Where the users are that look at a run, and at which time of it: as views of a lab, without their
        document."""
        return self._open(path_of("/v1/runs/{}/views", run))

    def get_runs_run_difference(self, run: str, *, with_: str, behaviour: bool | None = None) -> RunDifference:
        """Where a run and another one part."""
        answer: Any = self._ask(
            "GET", path_of("/v1/runs/{}/difference", run) + query_of(**{"with": with_}, behaviour=behaviour)
        )
        return RunDifference.from_json(answer)

    def post_runs_run_open(self, run: str, body: OpenRun) -> OpenedRun:
        """Makes a lab that is as a run was at a moment; answers when it is there."""
        answer: Any = self._ask("POST", path_of("/v1/runs/{}/open", run), body.to_json())
        return OpenedRun.from_json(answer)

    def get_explored(self) -> list[ExploredSummary]:
        """What vink explore has found, as far as it was listed."""
        answer: Any = self._ask("GET", "/v1/explored")
        return [ExploredSummary.from_json(each) for each in answer]

    def post_explored(self, body: NewExplored) -> list[ExploredSummary]:
        """Lists what vink explore has written at a path, for all sessions."""
        answer: Any = self._ask("POST", "/v1/explored", body.to_json())
        return [ExploredSummary.from_json(each) for each in answer]

    def get_explored_explored(self, explored: str) -> Explored:
        """What was explored and found."""
        answer: Any = self._ask("GET", path_of("/v1/explored/{}", explored))
        return Explored.from_json(answer)

    def get_explored_explored_run(
        self, explored: str, *, schedule: str | None = None, side: int | None = None
    ) -> ExploredRun:
        """The run with a schedule, which is made for this request: what happens in it, and what it
        breaks."""
        answer: Any = self._ask(
            "GET", path_of("/v1/explored/{}/run", explored) + query_of(schedule=schedule, side=side)
        )
        return ExploredRun.from_json(answer)

    def get_explored_explored_choices(
        self, explored: str, *, schedule: str | None = None, from_: str, packet: int
    ) -> list[ExploredChoice]:
        """What comes of a run if one more of its packets has each of the fates: runs that are made for this
        request."""
        answer: Any = self._ask(
            "GET",
            path_of("/v1/explored/{}/choices", explored)
            + query_of(schedule=schedule, **{"from": from_}, packet=packet),
        )
        return [ExploredChoice.from_json(each) for each in answer]

    def get_explored_explored_packets_packet(
        self, explored: str, packet: str, *, schedule: str | None = None, side: int | None = None
    ) -> PacketDetail:
        """A packet of a run: its bytes, and what Wireshark's dissectors find in it, where these are
        installed."""
        answer: Any = self._ask(
            "GET", path_of("/v1/explored/{}/packets/{}", explored, packet) + query_of(schedule=schedule, side=side)
        )
        return PacketDetail.from_json(answer)

    def post_explored_explored_open(self, explored: str, body: OpenExplored) -> OpenedExplored:
        """Makes a lab in which packets have the fates of a schedule, as it is at a moment; answers when it
        is there."""
        answer: Any = self._ask("POST", path_of("/v1/explored/{}/open", explored), body.to_json())
        return OpenedExplored.from_json(answer)

    def openapi(self) -> dict[str, Any]:
        """This description."""
        answer: dict[str, Any] = self._ask("GET", "/v1/openapi.json")
        return answer


class AsyncClient(AsyncTransport):
    """A client that awaits its answers. Where they come from: vink.control has control processes."""

    async def new_ticket(self, body: NewTicket) -> Ticket:
        """Lets a page in: a ticket, and the address where it is used, over loopback TCP."""
        answer: Any = await self._ask("POST", "/v1/tickets", body.to_json())
        return Ticket.from_json(answer)

    async def use_ticket(self, body: UseTicket) -> NewSession:
        """A session in exchange for a ticket, which is used up."""
        answer: Any = await self._ask("POST", "/v1/session", body.to_json())
        return NewSession.from_json(answer)

    async def session(self) -> Session:
        """The session of this request."""
        answer: Any = await self._ask("GET", "/v1/session")
        return Session.from_json(answer)

    async def get_sessions(self) -> list[OpenSession]:
        """Sessions of pages."""
        answer: Any = await self._ask("GET", "/v1/sessions")
        return [OpenSession.from_json(each) for each in answer]

    async def delete_sessions_session(self, session: str) -> Revoked:
        """Ends a session, by its number, or all of a user, by their name; what they are connected by is
        cut."""
        answer: Any = await self._ask("DELETE", path_of("/v1/sessions/{}", session))
        return Revoked.from_json(answer)

    async def ready_labs(self) -> list[ReadyLab]:
        """The labs that come with Vink."""
        answer: Any = await self._ask("GET", "/v1/ready")
        return [ReadyLab.from_json(each) for each in answer]

    async def ready_lab(self, name: str) -> ReadyLabFile:
        """A lab that comes with Vink, with its text."""
        answer: Any = await self._ask("GET", path_of("/v1/ready/{}", name))
        return ReadyLabFile.from_json(answer)

    async def check_spec(self, body: CheckSpec) -> CheckedSpec:
        """Reads a lab file's text, and tells what is wrong in it and where."""
        answer: Any = await self._ask("POST", "/v1/spec/check", body.to_json())
        return CheckedSpec.from_json(answer)

    async def format_spec(self, body: FormatSpec) -> FormattedSpec:
        """The lab file of a lab."""
        answer: Any = await self._ask("POST", "/v1/spec/format", body.to_json())
        return FormattedSpec.from_json(answer)

    async def get_labs_lab_views(self, lab: str) -> AsyncSocket:
        """What the pages of a lab share: positions, drawings, notes, tasks, and where users are; changed
        with the role draw."""
        return await self._open(path_of("/v1/labs/{}/views", lab))

    async def post_labs_lab_views_save(self, lab: str) -> SavedViews:
        """Writes a lab's views now, and as JSON."""
        answer: Any = await self._ask("POST", path_of("/v1/labs/{}/views/save", lab))
        return SavedViews.from_json(answer)

    async def version(self) -> Version:
        """The version, and the control process that answers."""
        answer: Any = await self._ask("GET", "/v1/version")
        return Version.from_json(answer)

    async def labs(self) -> list[LabSummary]:
        """All labs."""
        answer: Any = await self._ask("GET", "/v1/labs")
        return [LabSummary.from_json(each) for each in answer]

    async def put_lab(self, lab: str, body: PutLab) -> Applied:
        """Makes a lab, or changes the one that runs so that it is as asked for."""
        answer: Any = await self._ask("PUT", path_of("/v1/labs/{}", lab), body.to_json())
        return Applied.from_json(answer)

    async def lab(self, lab: str) -> LabStatus:
        """How a lab is."""
        answer: Any = await self._ask("GET", path_of("/v1/labs/{}", lab))
        return LabStatus.from_json(answer)

    async def remove_lab(self, lab: str) -> None:
        """Takes a lab down; one that is being made too."""
        await self._ask("DELETE", path_of("/v1/labs/{}", lab))

    async def spec(self, lab: str) -> Lab:
        """What runs now, as a lab file has it."""
        answer: Lab = await self._ask("GET", path_of("/v1/labs/{}/spec", lab))
        return answer

    async def topology(self, lab: str) -> Topology:
        """What its picture is drawn from: nodes, wires, and the numbers of their ends."""
        answer: Any = await self._ask("GET", path_of("/v1/labs/{}/topology", lab))
        return Topology.from_json(answer)

    async def clock(self, lab: str) -> Clock:
        """How a lab's clock is."""
        answer: Any = await self._ask("GET", path_of("/v1/labs/{}/clock", lab))
        return Clock.from_json(answer)

    async def change_clock(self, lab: str, body: ChangeClock) -> Clock:
        """Stops a lab's clock, lets it go on, or says how fast it may go."""
        answer: Any = await self._ask("PATCH", path_of("/v1/labs/{}/clock", lab), body.to_json())
        return Clock.from_json(answer)

    async def run_clock(self, lab: str, body: RunClock) -> Clock:
        """Lets a lab's clock go so far, and answers when it is there."""
        answer: Any = await self._ask("POST", path_of("/v1/labs/{}/clock/run", lab), body.to_json())
        return Clock.from_json(answer)

    async def restart_lab(self, lab: str) -> Restarted:
        """Boots all workers of a lab again, with what should run there."""
        answer: Any = await self._ask("POST", path_of("/v1/labs/{}/restart", lab))
        return Restarted.from_json(answer)

    async def restart_machine(self, lab: str, machine: str) -> Restarted:
        """Boots the worker of a machine again, with all machines of its image."""
        answer: Any = await self._ask("POST", path_of("/v1/labs/{}/machines/{}/restart", lab, machine))
        return Restarted.from_json(answer)

    async def machines(self, lab: str) -> list[MachineSummary]:
        """All machines of a lab."""
        answer: Any = await self._ask("GET", path_of("/v1/labs/{}/machines", lab))
        return [MachineSummary.from_json(each) for each in answer]

    async def add_machine(self, lab: str, body: NewMachine) -> Machine:
        """Makes a machine with its interfaces, and starts its programs."""
        answer: Any = await self._ask("POST", path_of("/v1/labs/{}/machines", lab), body.to_json())
        return Machine.from_json(answer)

    async def machine(self, lab: str, machine: str) -> Machine:
        """How a machine is: its interfaces with addresses and counters."""
        answer: Any = await self._ask("GET", path_of("/v1/labs/{}/machines/{}", lab, machine))
        return Machine.from_json(answer)

    async def remove_machine(self, lab: str, machine: str) -> None:
        """Ends a machine's programs and gives it up."""
        await self._ask("DELETE", path_of("/v1/labs/{}/machines/{}", lab, machine))

    async def add_interface(self, lab: str, machine: str, body: NewInterface) -> Interface:
        """Gives a machine an interface."""
        answer: Any = await self._ask(
            "POST", path_of("/v1/labs/{}/machines/{}/interfaces", lab, machine), body.to_json()
        )
        return Interface.from_json(answer)

    async def interface(self, lab: str, machine: str, interface: str) -> Interface:
        """How an interface is."""
        answer: Any = await self._ask("GET", path_of("/v1/labs/{}/machines/{}/interfaces/{}", lab, machine, interface))
        return Interface.from_json(answer)

    async def change_interface(self, lab: str, machine: str, interface: str, body: ChangeInterface) -> Interface:
        """Attaches an interface to a wire, detaches it, or changes its addresses."""
        answer: Any = await self._ask(
            "PATCH", path_of("/v1/labs/{}/machines/{}/interfaces/{}", lab, machine, interface), body.to_json()
        )
        return Interface.from_json(answer)

    async def remove_interface(self, lab: str, machine: str, interface: str) -> None:
        """Takes an interface from a machine."""
        await self._ask("DELETE", path_of("/v1/labs/{}/machines/{}/interfaces/{}", lab, machine, interface))

    async def wires(self, lab: str) -> list[Wire]:
        """All wires of a lab, without counters."""
        answer: Any = await self._ask("GET", path_of("/v1/labs/{}/wires", lab))
        return [Wire.from_json(each) for each in answer]

    async def add_wire(self, lab: str, body: NewWire) -> Wire:
        """Makes a wire without ends."""
        answer: Any = await self._ask("POST", path_of("/v1/labs/{}/wires", lab), body.to_json())
        return Wire.from_json(answer)

    async def wire(self, lab: str, wire: str) -> Wire:
        """How a wire is, with the counters of its ends."""
        answer: Any = await self._ask("GET", path_of("/v1/labs/{}/wires/{}", lab, wire))
        return Wire.from_json(answer)

    async def change_wire(self, lab: str, wire: str, body: ChangeWire) -> Wire:
        """Changes what a wire does to packets from now on, or plugs it in or out."""
        answer: Any = await self._ask("PATCH", path_of("/v1/labs/{}/wires/{}", lab, wire), body.to_json())
        return Wire.from_json(answer)

    async def remove_wire(self, lab: str, wire: str) -> None:
        """Gives a wire up; interfaces at it stay, without a carrier."""
        await self._ask("DELETE", path_of("/v1/labs/{}/wires/{}", lab, wire))

    async def programs(self, lab: str) -> list[Program]:
        """Programs that run, those of the lab file, and the last ones that have ended."""
        answer: Any = await self._ask("GET", path_of("/v1/labs/{}/programs", lab))
        return [Program.from_json(each) for each in answer]

    async def start_program(self, lab: str, body: NewProgram) -> Program:
        """Starts a program, or has it ready to be started with its terminal."""
        answer: Any = await self._ask("POST", path_of("/v1/labs/{}/programs", lab), body.to_json())
        return Program.from_json(answer)

    async def program(self, lab: str, program: str) -> Program:
        """How a program is: by its number, or its name as machine.name."""
        answer: Any = await self._ask("GET", path_of("/v1/labs/{}/programs/{}", lab, program))
        return Program.from_json(answer)

    async def end_program(self, lab: str, program: str) -> Program:
        """Ends a program: a virtualized process by asking it to, any other by SIGKILL."""
        answer: Any = await self._ask("DELETE", path_of("/v1/labs/{}/programs/{}", lab, program))
        return Program.from_json(answer)

    async def signal_program(self, lab: str, program: str, body: SendSignal) -> Program:
        """Sends a signal to a program's process group."""
        answer: Any = await self._ask("POST", path_of("/v1/labs/{}/programs/{}/signal", lab, program), body.to_json())
        return Program.from_json(answer)

    async def post_labs_lab_programs_program_input(self, lab: str, program: str, body: ProgramInput) -> None:
        """Gives an attached program input, as its client does; answers when it is given."""
        await self._ask("POST", path_of("/v1/labs/{}/programs/{}/input", lab, program), body)

    async def report(self, lab: str, program: str) -> Report:
        """What a virtualized process has found out so far."""
        answer: Any = await self._ask("GET", path_of("/v1/labs/{}/programs/{}/report", lab, program))
        return Report.from_json(answer)

    async def add_relay(self, lab: str, machine: str, body: NewRelay) -> Relay:
        """Adds a relay to a machine; answers when it listens."""
        answer: Any = await self._ask("POST", path_of("/v1/labs/{}/machines/{}/relays", lab, machine), body.to_json())
        return Relay.from_json(answer)

    async def relays(self, lab: str) -> list[Relay]:
        """Relays of a lab, with what they have counted."""
        answer: Any = await self._ask("GET", path_of("/v1/labs/{}/relays", lab))
        return [Relay.from_json(each) for each in answer]

    async def relay(self, lab: str, relay: str) -> Relay:
        """How a relay is: by its name as machine.name."""
        answer: Any = await self._ask("GET", path_of("/v1/labs/{}/relays/{}", lab, relay))
        return Relay.from_json(answer)

    async def remove_relay(self, lab: str, relay: str) -> Relay:
        """Ends a relay and its connections."""
        answer: Any = await self._ask("DELETE", path_of("/v1/labs/{}/relays/{}", lab, relay))
        return Relay.from_json(answer)

    async def output(
        self, lab: str, program: str, *, follow: bool | None = None, tail: int | None = None
    ) -> AsyncIterator[bytes]:
        """What a program has written that is not attached; with `follow` until it ends."""
        async for each in self._stream(
            path_of("/v1/labs/{}/programs/{}/output", lab, program) + query_of(follow=follow, tail=tail)
        ):
            yield each

    async def get_labs_lab_terminals(self, lab: str) -> list[KeptTerminal]:
        """Terminals that are kept, the users that look at them, and which has the keyboard."""
        answer: Any = await self._ask("GET", path_of("/v1/labs/{}/terminals", lab))
        return [KeptTerminal.from_json(each) for each in answer]

    async def attach(self, lab: str, program: str) -> AsyncSocket:
        """Starts a program that was made with `attach`, and carries its input and output; or shows a
        terminal that is kept."""
        return await self._open(path_of("/v1/labs/{}/programs/{}/terminal", lab, program))

    async def captures(self, lab: str) -> list[Capture]:
        """Captures that go on, and the last ones that have ended."""
        answer: Any = await self._ask("GET", path_of("/v1/labs/{}/captures", lab))
        return [Capture.from_json(each) for each in answer]

    async def start_capture(self, lab: str, body: NewCapture) -> Capture:
        """Writes packets to a file from now on, as pcapng, with the role own; without a path the lab keeps
        them."""
        answer: Any = await self._ask("POST", path_of("/v1/labs/{}/captures", lab), body.to_json())
        return Capture.from_json(answer)

    async def get_labs_lab_captures_capture_packets(
        self, lab: str, capture: str, *, from_: int | None = None, count: int | None = None
    ) -> CapturedPackets:
        """Packets of a capture, a line each, also while it goes on."""
        answer: Any = await self._ask(
            "GET", path_of("/v1/labs/{}/captures/{}/packets", lab, capture) + query_of(**{"from": from_}, count=count)
        )
        return CapturedPackets.from_json(answer)

    async def get_labs_lab_captures_capture_packets_packet(self, lab: str, capture: str, packet: str) -> PacketDetail:
        """A packet of a capture: its bytes, and what Wireshark's dissectors find in it, where these are
        installed."""
        answer: Any = await self._ask("GET", path_of("/v1/labs/{}/captures/{}/packets/{}", lab, capture, packet))
        return PacketDetail.from_json(answer)

    async def get_labs_lab_captures_capture_file(self, lab: str, capture: str) -> AsyncIterator[bytes]:
        """A capture as pcapng, as far as it is written."""
        async for each in self._stream(path_of("/v1/labs/{}/captures/{}/file", lab, capture)):
            yield each

    async def stop_capture(self, lab: str, capture: str) -> Capture:
        """Ends a capture."""
        answer: Any = await self._ask("DELETE", path_of("/v1/labs/{}/captures/{}", lab, capture))
        return Capture.from_json(answer)

    async def breakpoints(self, lab: str) -> Breakpoints:
        """Breakpoints, what they have counted, and what they have stopped."""
        answer: Any = await self._ask("GET", path_of("/v1/labs/{}/breakpoints", lab))
        return Breakpoints.from_json(answer)

    async def add_breakpoint(self, lab: str, body: NewBreakpoint) -> Breakpoint:
        """Sets a breakpoint."""
        answer: Any = await self._ask("POST", path_of("/v1/labs/{}/breakpoints", lab), body.to_json())
        return Breakpoint.from_json(answer)

    async def change_breakpoint(self, lab: str, breakpoint: str, body: ChangeBreakpoint) -> Breakpoint:
        """Has a breakpoint do something, or nothing for a while."""
        answer: Any = await self._ask("PATCH", path_of("/v1/labs/{}/breakpoints/{}", lab, breakpoint), body.to_json())
        return Breakpoint.from_json(answer)

    async def remove_breakpoint(self, lab: str, breakpoint: str) -> None:
        """Removes a breakpoint; what waits because of it goes on."""
        await self._ask("DELETE", path_of("/v1/labs/{}/breakpoints/{}", lab, breakpoint))

    async def decide_packet(self, lab: str, breakpoint: str, body: PacketVerdict) -> None:
        """Decides about the packet that has stopped the lab."""
        await self._ask("POST", path_of("/v1/labs/{}/breakpoints/{}/verdict", lab, breakpoint), body.to_json())

    async def pods(self, lab: str) -> list[Pod]:
        """Pods, what they have used and counted, and why some have ended."""
        answer: Any = await self._ask("GET", path_of("/v1/labs/{}/pods", lab))
        return [Pod.from_json(each) for each in answer]

    async def load_pod(self, lab: str, body: NewPod) -> Pod:
        """Loads a pod, in the place of one of its name."""
        answer: Any = await self._ask("POST", path_of("/v1/labs/{}/pods", lab), body.to_json())
        return Pod.from_json(answer)

    async def pod(self, lab: str, pod: str) -> Pod:
        """A pod."""
        answer: Any = await self._ask("GET", path_of("/v1/labs/{}/pods/{}", lab, pod))
        return Pod.from_json(answer)

    async def revoke_pod(self, lab: str, pod: str) -> Pod:
        """Ends a pod, and takes back all that it has; it can be loaded again."""
        answer: Any = await self._ask("POST", path_of("/v1/labs/{}/pods/{}/revoke", lab, pod))
        return Pod.from_json(answer)

    async def paths(self, lab: str) -> list[PacketPath]:
        """Paths of packets, and what they have used and counted."""
        answer: Any = await self._ask("GET", path_of("/v1/labs/{}/paths", lab))
        return [PacketPath.from_json(each) for each in answer]

    async def path(self, lab: str, path: str) -> PacketPath:
        """A path."""
        answer: Any = await self._ask("GET", path_of("/v1/labs/{}/paths/{}", lab, path))
        return PacketPath.from_json(answer)

    async def remove_path(self, lab: str, path: str) -> PacketPath:
        """Removes a path: its packets take none any more."""
        answer: Any = await self._ask("DELETE", path_of("/v1/labs/{}/paths/{}", lab, path))
        return PacketPath.from_json(answer)

    async def filters(self, lab: str) -> list[Filter]:
        """Filters in force."""
        answer: Any = await self._ask("GET", path_of("/v1/labs/{}/filters", lab))
        return [Filter.from_json(each) for each in answer]

    async def filter(self, lab: str, place: str) -> FilterRules:
        """A filter with its rules as they were given and as the kernel has them, counters and versions."""
        answer: Any = await self._ask("GET", path_of("/v1/labs/{}/filters/{}", lab, place))
        return FilterRules.from_json(answer)

    async def put_filter(self, lab: str, place: str, body: NewFilter) -> Filter:
        """Has rules for nft(8) in force at a machine or an interface, in one transaction; or checks
        them."""
        answer: Any = await self._ask("PUT", path_of("/v1/labs/{}/filters/{}", lab, place), body.to_json())
        return Filter.from_json(answer)

    async def remove_filter(self, lab: str, place: str) -> None:
        """Removes a filter: its tables go."""
        await self._ask("DELETE", path_of("/v1/labs/{}/filters/{}", lab, place))

    async def roll_back_filter(self, lab: str, place: str, body: Rollback) -> Filter:
        """Has an earlier version of a filter in force, as a new version."""
        answer: Any = await self._ask("POST", path_of("/v1/labs/{}/filters/{}/rollback", lab, place), body.to_json())
        return Filter.from_json(answer)

    async def series(self, lab: str) -> list[Series]:
        """Time series, and how many rows they have."""
        answer: Any = await self._ask("GET", path_of("/v1/labs/{}/series", lab))
        return [Series.from_json(each) for each in answer]

    async def add_series(self, lab: str, body: NewSeries) -> Series:
        """Writes numbers to a file from now on, by the lab's clock or at events."""
        answer: Any = await self._ask("POST", path_of("/v1/labs/{}/series", lab), body.to_json())
        return Series.from_json(answer)

    async def remove_series(self, lab: str, series: str) -> Series:
        """Ends a time series; its file stays."""
        answer: Any = await self._ask("DELETE", path_of("/v1/labs/{}/series/{}", lab, series))
        return Series.from_json(answer)

    async def get_labs_lab_series_series_rows(
        self, lab: str, series: str, *, from_: float | None = None, to: float | None = None, points: int | None = None
    ) -> SeriesRows:
        """Rows of a time series, also while it grows."""
        answer: Any = await self._ask(
            "GET",
            path_of("/v1/labs/{}/series/{}/rows", lab, series) + query_of(**{"from": from_}, to=to, points=points),
        )
        return SeriesRows.from_json(answer)

    async def get_labs_lab_series_series_file(self, lab: str, series: str) -> AsyncIterator[bytes]:
        """The file of a time series, as far as it is written."""
        async for each in self._stream(path_of("/v1/labs/{}/series/{}/file", lab, series)):
            yield each

    async def resume(self, lab: str) -> None:
        """Lets the lab go on, if a breakpoint has stopped it."""
        await self._ask("POST", path_of("/v1/labs/{}/continue", lab))

    async def resume_machine(self, lab: str, machine: str) -> None:
        """Lets a machine go on that a breakpoint has stopped."""
        await self._ask("POST", path_of("/v1/labs/{}/machines/{}/continue", lab, machine))

    async def capture(
        self, lab: str, *, interfaces: str, filter: str | None = None, snap: int | None = None
    ) -> AsyncIterator[bytes]:
        """Packets as they come, as pcapng."""
        async for each in self._pieces(
            path_of("/v1/labs/{}/captures/stream", lab) + query_of(interfaces=interfaces, filter=filter, snap=snap)
        ):
            yield each

    async def get_labs_lab_feed(self, lab: str) -> AsyncSocket:
        """Packets, counters and queues as they are now, for a picture of the lab."""
        return await self._open(path_of("/v1/labs/{}/feed", lab))

    async def samples(
        self, lab: str, *, machine: str, points: str, bytes: int, offset: int | None = None, number: int | None = None
    ) -> AsyncIterator[bytes]:
        """Sockets as they are when the kernel passes its tracepoints."""
        async for each in self._pieces(
            path_of("/v1/labs/{}/samples/stream", lab)
            + query_of(machine=machine, points=points, bytes=bytes, offset=offset, number=number)
        ):
            yield each

    async def events(self, *, lab: str | None = None, watch: str | None = None) -> AsyncIterator[Event]:
        """Events from now on."""
        async for each in self._events("/v1/events" + query_of(lab=lab, watch=watch)):
            yield Event.from_json(each)

    async def statistics(self, lab: str) -> Statistics:
        """Figures of a lab."""
        answer: Any = await self._ask("GET", path_of("/v1/labs/{}/statistics", lab))
        return Statistics.from_json(answer)

    async def statistics_stream(self, lab: str, *, interval: Span | None = None) -> AsyncIterator[Statistics]:
        """Figures of a lab at an interval."""
        async for each in self._events(path_of("/v1/labs/{}/statistics/stream", lab) + query_of(interval=interval)):
            yield Statistics.from_json(each)

    async def get_runs(self) -> list[RunSummary]:
        """Recorded runs: those of this control process's labs, and what was listed since."""
        answer: Any = await self._ask("GET", "/v1/runs")
        return [RunSummary.from_json(each) for each in answer]

    async def post_runs(self, body: NewRun) -> list[RunSummary]:
        """Lists what was recorded at a path, for all sessions."""
        answer: Any = await self._ask("POST", "/v1/runs", body.to_json())
        return [RunSummary.from_json(each) for each in answer]

    async def get_runs_run(self, run: str) -> Run:
        """A recorded run, with the topology that its lab was made with."""
        answer: Any = await self._ask("GET", path_of("/v1/runs/{}", run))
        return Run.from_json(answer)

    async def get_runs_run_timeline(
        self,
        run: str,
        *,
        from_: int | None = None,
        to: int | None = None,
        bins: int | None = None,
        end: str | None = None,
    ) -> RunTimeline:
        """How much of which kind happened when."""
        answer: Any = await self._ask(
            "GET", path_of("/v1/runs/{}/timeline", run) + query_of(**{"from": from_}, to=to, bins=bins, end=end)
        )
        return RunTimeline.from_json(answer)

    async def get_runs_run_events(
        self,
        run: str,
        *,
        from_: int | None = None,
        to: int | None = None,
        after: int | None = None,
        kinds: str | None = None,
        count: int | None = None,
    ) -> list[RunEvent]:
        """What happened, packets included, each in a line."""
        answer: Any = await self._ask(
            "GET",
            path_of("/v1/runs/{}/events", run)
            + query_of(**{"from": from_}, to=to, after=after, kinds=kinds, count=count),
        )
        return [RunEvent.from_json(each) for each in answer]

    async def get_runs_run_packets(
        self,
        run: str,
        *,
        from_: int | None = None,
        to: int | None = None,
        after: int | None = None,
        end: str | None = None,
        count: int | None = None,
    ) -> list[CapturedPacket]:
        """Packets that departed, arrived or were lost, a line each."""
        answer: Any = await self._ask(
            "GET",
            path_of("/v1/runs/{}/packets", run) + query_of(**{"from": from_}, to=to, after=after, end=end, count=count),
        )
        return [CapturedPacket.from_json(each) for each in answer]

    async def get_runs_run_packets_packet(self, run: str, packet: str) -> PacketDetail:
        """A packet: its first bytes, and what Wireshark's dissectors find in it, where these are
        installed."""
        answer: Any = await self._ask("GET", path_of("/v1/runs/{}/packets/{}", run, packet))
        return PacketDetail.from_json(answer)

    async def get_runs_run_next(
        self, run: str, *, at: int, kinds: str | None = None, back: bool | None = None
    ) -> list[RunEvent]:
        """The next event of some kinds, or the last one before; a list of one, or empty."""
        answer: Any = await self._ask("GET", path_of("/v1/runs/{}/next", run) + query_of(at=at, kinds=kinds, back=back))
        return [RunEvent.from_json(each) for each in answer]

    async def get_runs_run_state(self, run: str, *, at: int) -> RunState:
        """What was counted, and which programs ran, at a moment."""
        answer: Any = await self._ask("GET", path_of("/v1/runs/{}/state", run) + query_of(at=at))
        return RunState.from_json(answer)

    async def get_runs_run_topology(self, run: str, *, at: int) -> RunTopology:
        """Machines and wires as they were at a moment, and until when they stay so."""
        answer: Any = await self._ask("GET", path_of("/v1/runs/{}/topology", run) + query_of(at=at))
        return RunTopology.from_json(answer)

    async def get_runs_run_flights(
        self, run: str, *, from_: int, to: int, count: int | None = None
    ) -> AsyncIterator[bytes]:
        """Packets under way, as frames of the page's picture one behind the other."""
        async for each in self._stream(
            path_of("/v1/runs/{}/flights", run) + query_of(**{"from": from_}, to=to, count=count)
        ):
            yield each

    async def get_runs_run_views(self, run: str) -> AsyncSocket:
        """Where the users are that look at a run, and at which time of it: as views of a lab, without their
        document."""
        return await self._open(path_of("/v1/runs/{}/views", run))

    async def get_runs_run_difference(self, run: str, *, with_: str, behaviour: bool | None = None) -> RunDifference:
        """Where a run and another one part."""
        answer: Any = await self._ask(
            "GET", path_of("/v1/runs/{}/difference", run) + query_of(**{"with": with_}, behaviour=behaviour)
        )
        return RunDifference.from_json(answer)

    async def post_runs_run_open(self, run: str, body: OpenRun) -> OpenedRun:
        """Makes a lab that is as a run was at a moment; answers when it is there."""
        answer: Any = await self._ask("POST", path_of("/v1/runs/{}/open", run), body.to_json())
        return OpenedRun.from_json(answer)

    async def get_explored(self) -> list[ExploredSummary]:
        """What vink explore has found, as far as it was listed."""
        answer: Any = await self._ask("GET", "/v1/explored")
        return [ExploredSummary.from_json(each) for each in answer]

    async def post_explored(self, body: NewExplored) -> list[ExploredSummary]:
        """Lists what vink explore has written at a path, for all sessions."""
        answer: Any = await self._ask("POST", "/v1/explored", body.to_json())
        return [ExploredSummary.from_json(each) for each in answer]

    async def get_explored_explored(self, explored: str) -> Explored:
        """What was explored and found."""
        answer: Any = await self._ask("GET", path_of("/v1/explored/{}", explored))
        return Explored.from_json(answer)

    async def get_explored_explored_run(
        self, explored: str, *, schedule: str | None = None, side: int | None = None
    ) -> ExploredRun:
        """The run with a schedule, which is made for this request: what happens in it, and what it
        breaks."""
        answer: Any = await self._ask(
            "GET", path_of("/v1/explored/{}/run", explored) + query_of(schedule=schedule, side=side)
        )
        return ExploredRun.from_json(answer)

    async def get_explored_explored_choices(
        self, explored: str, *, schedule: str | None = None, from_: str, packet: int
    ) -> list[ExploredChoice]:
        """What comes of a run if one more of its packets has each of the fates: runs that are made for this
        request."""
        answer: Any = await self._ask(
            "GET",
            path_of("/v1/explored/{}/choices", explored)
            + query_of(schedule=schedule, **{"from": from_}, packet=packet),
        )
        return [ExploredChoice.from_json(each) for each in answer]

    async def get_explored_explored_packets_packet(
        self, explored: str, packet: str, *, schedule: str | None = None, side: int | None = None
    ) -> PacketDetail:
        """A packet of a run: its bytes, and what Wireshark's dissectors find in it, where these are
        installed."""
        answer: Any = await self._ask(
            "GET", path_of("/v1/explored/{}/packets/{}", explored, packet) + query_of(schedule=schedule, side=side)
        )
        return PacketDetail.from_json(answer)

    async def post_explored_explored_open(self, explored: str, body: OpenExplored) -> OpenedExplored:
        """Makes a lab in which packets have the fates of a schedule, as it is at a moment; answers when it
        is there."""
        answer: Any = await self._ask("POST", path_of("/v1/explored/{}/open", explored), body.to_json())
        return OpenedExplored.from_json(answer)

    async def openapi(self) -> dict[str, Any]:
        """This description."""
        answer: dict[str, Any] = await self._ask("GET", "/v1/openapi.json")
        return answer
