"""Vink: the real Linux network stack under unmodified programs, driven from Python.

`Lab` is where to begin; `api` has the whole control API, plain and async.
"""

from vink.control import async_client, client, executable
from vink.errors import (
    ConnectionLostError,
    Error,
    LabFileError,
    NotFoundError,
    RefusedError,
    StartError,
)
from vink.lab import Breakpoint, Capture, Hit, Lab, Machine, Series, Wire
from vink.program import Program
from vink.sweeps import SweepError, sweep
from vink.table import Table

__all__ = [
    "Breakpoint",
    "Capture",
    "ConnectionLostError",
    "Error",
    "Hit",
    "Lab",
    "LabFileError",
    "Machine",
    "NotFoundError",
    "Program",
    "RefusedError",
    "Series",
    "StartError",
    "SweepError",
    "Table",
    "Wire",
    "async_client",
    "client",
    "executable",
    "sweep",
]
