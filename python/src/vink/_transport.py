"""Requests to a control process over its unix socket: plain (sockets), and async (asyncio's streams).

A connection is used again for the next request. One on which an answer was not read to its end is closed: the control
process takes that for a client that has given up.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any, Self, TypeVar
from urllib.parse import quote, urlencode

from vink import _http
from vink._http import Reader
from vink.errors import ConnectionLostError, NotFoundError, RefusedError

T = TypeVar("T")

# Bytes that are read at once.
PIECE = 1 << 16


def path_of(template: str, *names: str) -> str:
    """A path with these names in it."""
    return template.format(*(quote(name, safe="") for name in names))


def query_of(**values: object) -> str:
    """What is not None, as a query."""
    named = {key: str(value).lower() if isinstance(value, bool) else value for key, value in values.items()}
    text = urlencode({key: value for key, value in named.items() if value is not None})
    return f"?{text}" if text else ""


def given(*pairs: tuple[str, Any]) -> dict[str, Any]:
    """What is not None."""
    return {key: value for key, value in pairs if value is not None}


def body_of(body: Any) -> bytes | None:
    """A request's body."""
    return None if body is None else json.dumps(body).encode()


def answer_of(head: _http.Head, body: bytes) -> Any:
    """What a response says, or the error that it is."""
    if head.status < 300:
        return json.loads(body) if body else None
    try:
        problem = json.loads(body)
    except ValueError:
        problem = {"error": f"the control process answered {head.status}: {body.decode(errors='replace')}"}
    raise RefusedError(head.status, problem["error"], problem.get("hint"), problem.get("paths", ()))


def unreachable(address: str, error: OSError) -> NotFoundError:
    """No control process listens."""
    return NotFoundError(f"no lab runs: no control process listens at {address} ({error}); vink lab up FILE starts one")


class Connection:
    """A connection of the plain client."""

    def __init__(self, address: str, timeout: float | None = None) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.buffer = bytearray()
        try:
            self.socket.settimeout(timeout)
            self.socket.connect(address)
        except OSError as error:
            self.socket.close()
            raise unreachable(address, error) from error

    def send(self, data: bytes) -> None:
        """All of it."""
        try:
            self.socket.sendall(data)
        except TimeoutError:
            raise
        except OSError as error:
            raise ConnectionLostError(f"the control process went away: {error}") from error

    def read(self, reader: Reader[T]) -> T:
        """What a reader makes of what comes."""
        try:
            next(reader)
            while True:
                reader.send(self.socket.recv(PIECE))
        except StopIteration as done:
            result: T = done.value
            return result
        except TimeoutError:
            raise
        except OSError as error:
            raise ConnectionLostError(f"the control process went away: {error}") from error

    def close(self) -> None:
        """Gives up what is under way."""
        self.socket.close()


class Socket:
    """A WebSocket of the plain client."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def send(self, message: bytes | str) -> None:
        """Bytes as a binary message, text as a text message."""
        kind = _http.TEXT if isinstance(message, str) else _http.BINARY
        data = message.encode() if isinstance(message, str) else message
        self.connection.send(_http.frame(kind, data))

    def receive(self, timeout: float | None = None) -> bytes | str | None:
        """The next message; None at the end. TimeoutError after so many seconds without one."""
        self.connection.socket.settimeout(timeout)
        while True:
            try:
                kind, data = self.connection.read(_http.read_message(self.connection.buffer))
            except ConnectionLostError:
                return None
            if kind == _http.PING:
                self.connection.send(_http.frame(_http.PONG, data))
            elif kind == _http.CLOSE:
                return None
            elif kind == _http.TEXT:
                return data.decode()
            elif kind == _http.BINARY:
                return data

    def close(self) -> None:
        """Ends it. A thread that waits for a message gets None."""
        with contextlib.suppress(OSError):
            self.connection.socket.shutdown(socket.SHUT_RDWR)
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Transport:
    """What the plain client consists of. Threads may share one."""

    def __init__(self, address: str | os.PathLike[str]) -> None:
        self.address = os.fspath(address)
        """The control process's socket."""
        # Connections that wait for the next request, and whose they are: a forked process has its own.
        self._idle: list[Connection] = []
        self._pid = os.getpid()

    def close(self) -> None:
        """Closes what is open. The next request opens another connection."""
        while self._idle:
            self._idle.pop().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _connection(self) -> Connection:
        if self._pid != os.getpid():
            self._idle, self._pid = [], os.getpid()
        try:
            return self._idle.pop()
        except IndexError:
            return Connection(self.address)

    def _ask(self, method: str, path: str, body: Any = None, *, timeout: float | None = None) -> Any:
        return answer_of(*self._fetch(method, path, body, timeout))

    def _text(self, path: str) -> str:
        head, body = self._fetch("GET", path)
        return body.decode() if head.status == 200 else str(answer_of(head, body))

    def _fetch(
        self, method: str, path: str, body: Any = None, timeout: float | None = None
    ) -> tuple[_http.Head, bytes]:
        connection = self._connection()
        try:
            connection.socket.settimeout(timeout)
            connection.send(_http.request(method, path, body_of(body)))
            head = connection.read(_http.read_head(connection.buffer))
            answer = connection.read(_http.read_body(head, connection.buffer))
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)
        return head, answer

    def _stream(self, path: str) -> Iterator[bytes]:
        connection = Connection(self.address)
        try:
            connection.send(_http.request("GET", path))
            head = connection.read(_http.read_head(connection.buffer))
            if head.status != 200:
                answer_of(head, connection.read(_http.read_body(head, connection.buffer)))
            while piece := connection.read(_http.read_piece(head, connection.buffer)):
                yield piece
        finally:
            connection.close()

    def _open(self, path: str) -> Socket:
        connection = Connection(self.address)
        try:
            request, accept = _http.upgrade(path)
            connection.send(request)
            head = connection.read(_http.read_head(connection.buffer))
            if head.status != 101:
                answer_of(head, connection.read(_http.read_body(head, connection.buffer)))
            if head.headers.get(b"sec-websocket-accept") != accept:
                raise ConnectionLostError("the control process opened no WebSocket")
        except BaseException:
            connection.close()
            raise
        return Socket(connection)

    def _pieces(self, path: str) -> Iterator[bytes]:
        with self._open(path) as opened:
            while (message := opened.receive()) is not None:
                yield message.encode() if isinstance(message, str) else message

    def _events(self, path: str) -> Iterator[dict[str, Any]]:
        for piece in self._pieces(path):
            yield json.loads(piece)


class AsyncConnection:
    """A connection of the async client."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.buffer = bytearray()

    @classmethod
    async def open(cls, address: str) -> Self:
        """Connects."""
        try:
            return cls(*await asyncio.open_unix_connection(address))
        except OSError as error:
            raise unreachable(address, error) from error

    async def send(self, data: bytes) -> None:
        """All of it."""
        try:
            self.writer.write(data)
            await self.writer.drain()
        except OSError as error:
            raise ConnectionLostError(f"the control process went away: {error}") from error

    async def read(self, reader: Reader[T]) -> T:
        """What a reader makes of what comes."""
        try:
            next(reader)
            while True:
                reader.send(await self.reader.read(PIECE))
        except StopIteration as done:
            result: T = done.value
            return result
        except OSError as error:
            raise ConnectionLostError(f"the control process went away: {error}") from error

    def close(self) -> None:
        """Gives up what is under way."""
        self.writer.close()


class AsyncSocket:
    """A WebSocket of the async client."""

    def __init__(self, connection: AsyncConnection) -> None:
        self.connection = connection

    async def send(self, message: bytes | str) -> None:
        """Bytes as a binary message, text as a text message."""
        kind = _http.TEXT if isinstance(message, str) else _http.BINARY
        data = message.encode() if isinstance(message, str) else message
        await self.connection.send(_http.frame(kind, data))

    async def receive(self) -> bytes | str | None:
        """The next message; None at the end."""
        while True:
            try:
                kind, data = await self.connection.read(_http.read_message(self.connection.buffer))
            except ConnectionLostError:
                return None
            if kind == _http.PING:
                await self.connection.send(_http.frame(_http.PONG, data))
            elif kind == _http.CLOSE:
                return None
            elif kind == _http.TEXT:
                return data.decode()
            elif kind == _http.BINARY:
                return data

    def close(self) -> None:
        """Ends it."""
        self.connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


class AsyncTransport:
    """What the async client consists of. One belongs to one event loop."""

    def __init__(self, address: str | os.PathLike[str]) -> None:
        self.address = os.fspath(address)
        """The control process's socket."""
        self._idle: list[AsyncConnection] = []

    async def close(self) -> None:
        """Closes what is open. The next request opens another connection."""
        while self._idle:
            self._idle.pop().close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _ask(self, method: str, path: str, body: Any = None) -> Any:
        connection = self._idle.pop() if self._idle else await AsyncConnection.open(self.address)
        try:
            await connection.send(_http.request(method, path, body_of(body)))
            head = await connection.read(_http.read_head(connection.buffer))
            answer = await connection.read(_http.read_body(head, connection.buffer))
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)
        return answer_of(head, answer)

    async def _stream(self, path: str) -> AsyncIterator[bytes]:
        connection = await AsyncConnection.open(self.address)
        try:
            await connection.send(_http.request("GET", path))
            head = await connection.read(_http.read_head(connection.buffer))
            if head.status != 200:
                answer_of(head, await connection.read(_http.read_body(head, connection.buffer)))
            while piece := await connection.read(_http.read_piece(head, connection.buffer)):
                yield piece
        finally:
            connection.close()

    async def _open(self, path: str) -> AsyncSocket:
        connection = await AsyncConnection.open(self.address)
        try:
            request, accept = _http.upgrade(path)
            await connection.send(request)
            head = await connection.read(_http.read_head(connection.buffer))
            if head.status != 101:
                answer_of(head, await connection.read(_http.read_body(head, connection.buffer)))
            if head.headers.get(b"sec-websocket-accept") != accept:
                raise ConnectionLostError("the control process opened no WebSocket")
        except BaseException:
            connection.close()
            raise
        return AsyncSocket(connection)

    async def _pieces(self, path: str) -> AsyncIterator[bytes]:
        async with await self._open(path) as opened:
            while (message := await opened.receive()) is not None:
                yield message.encode() if isinstance(message, str) else message

    async def _events(self, path: str) -> AsyncIterator[dict[str, Any]]:
        async for piece in self._pieces(path):
            yield json.loads(piece)
