"""HTTP/1.1 and WebSockets (RFC 6455) without input and output, for clients of one server that is known.

Readers are generators: one yields when it needs more bytes and is sent them, empty at the end of the connection. So the
plain and the async client share them. What is left over stays in the buffer, for the next reader.
"""

from __future__ import annotations

import base64
import hashlib
import os
import struct
from collections.abc import Generator
from typing import Final, NamedTuple, TypeVar

from vink.errors import ConnectionLostError

T = TypeVar("T")
Reader = Generator[None, bytes, T]

TEXT: Final = 1
BINARY: Final = 2
CLOSE: Final = 8
PING: Final = 9
PONG: Final = 10

ACCEPT: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Head(NamedTuple):
    """The beginning of a response."""

    status: int
    headers: dict[bytes, bytes]


def request(method: str, path: str, body: bytes | None = None) -> bytes:
    """A request as it is sent."""
    head = f"{method} {path} HTTP/1.1\r\nHost: vink\r\n"
    if body is None:
        return f"{head}\r\n".encode()
    return f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def upgrade(path: str) -> tuple[bytes, bytes]:
    """A request for a WebSocket, and what the server must answer with."""
    key = base64.b64encode(os.urandom(16))
    head = f"GET {path} HTTP/1.1\r\nHost: vink\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    head += f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key.decode()}\r\n\r\n"
    return head.encode(), base64.b64encode(hashlib.sha1(key + ACCEPT).digest())


def more(buffer: bytearray) -> Reader[None]:
    """Waits for at least a byte."""
    data = yield
    if not data:
        raise ConnectionLostError("the control process went away before it answered")
    buffer += data


def take(buffer: bytearray, count: int) -> Reader[bytes]:
    """So many bytes."""
    while len(buffer) < count:
        yield from more(buffer)
    taken = bytes(buffer[:count])
    del buffer[:count]
    return taken


def take_line(buffer: bytearray, end: bytes) -> Reader[bytes]:
    """Up to an end, without it."""
    while (at := buffer.find(end)) < 0:
        yield from more(buffer)
    line = bytes(buffer[:at])
    del buffer[: at + len(end)]
    return line


def read_head(buffer: bytearray) -> Reader[Head]:
    """The beginning of a response."""
    first, *lines = (yield from take_line(buffer, b"\r\n\r\n")).split(b"\r\n")
    words = first.split(b" ", 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
        raise ConnectionLostError(f"the control process gave an answer that is not HTTP: {first!r}")
    pairs = (line.partition(b":") for line in lines)
    return Head(int(words[1]), {name.lower(): value.strip() for name, _, value in pairs})


def read_piece(head: Head, buffer: bytearray) -> Reader[bytes]:
    """A part of a chunked response's body; empty at its end."""
    size = int((yield from take_line(buffer, b"\r\n")).partition(b";")[0], 16)
    piece = yield from take(buffer, size)
    yield from take(buffer, 2)
    return piece


def read_body(head: Head, buffer: bytearray) -> Reader[bytes]:
    """All of a response's body."""
    if head.headers.get(b"transfer-encoding") == b"chunked":
        body = bytearray()
        while piece := (yield from read_piece(head, buffer)):
            body += piece
        return bytes(body)
    return (yield from take(buffer, int(head.headers.get(b"content-length", b"0"))))


def frame(kind: int, payload: bytes) -> bytes:
    """A message as a client sends it: whole, and masked."""
    length = len(payload)
    if length < 126:
        head = struct.pack(">BB", 0x80 | kind, 0x80 | length)
    elif length < 1 << 16:
        head = struct.pack(">BBH", 0x80 | kind, 0x80 | 126, length)
    else:
        head = struct.pack(">BBQ", 0x80 | kind, 0x80 | 127, length)
    mask = os.urandom(4)
    repeated = (mask * (length // 4 + 1))[:length]
    masked = int.from_bytes(payload, "big") ^ int.from_bytes(repeated, "big")
    return head + mask + masked.to_bytes(length, "big")


def read_message(buffer: bytearray) -> Reader[tuple[int, bytes]]:
    """A message of the server, and its kind; control frames come as messages of their own."""
    kind, message = 0, bytearray()
    while True:
        first, second = yield from take(buffer, 2)
        length = second & 0x7F
        if length == 126:
            (length,) = struct.unpack(">H", (yield from take(buffer, 2)))
        elif length == 127:
            (length,) = struct.unpack(">Q", (yield from take(buffer, 8)))
        payload = yield from take(buffer, length)
        if first & 0x08:
            return first & 0x0F, payload
        kind = kind or first & 0x0F
        message += payload
        if first & 0x80:
            return kind, bytes(message)
