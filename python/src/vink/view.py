"""A lab's picture below a notebook's cell, live: the page's canvas as a widget (https://anywidget.dev).

The widget's other half runs in the browser, which need not reach this computer: what it asks, this half asks the
control process, and answers come as messages of the notebook. It may look, and nothing else: requests that change
something are refused here.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import anywidget
import traitlets

from vink._transport import Socket, Transport
from vink.errors import ConnectionLostError, Error, NotFoundError, RefusedError


class View(anywidget.AnyWidget):
    """A lab's picture: machines, wires, and packets that are under way."""

    lab = traitlets.Unicode().tag(sync=True)
    """The lab's name."""
    height = traitlets.Int().tag(sync=True)
    """In CSS pixels."""

    def __init__(self, transport: Transport, lab: str, height: int) -> None:
        script, styles = (asset(transport, name) for name in ("/widget.js", "/widget.css"))
        # The page is free to ask for more than one thing at a time, and this program for others.
        self._transport = Transport(transport.address)
        self._lock = threading.Lock()
        self._sockets: dict[int, Socket] = {}
        super().__init__(lab=lab, height=height, _esm=script, _css=styles)
        self.on_msg(self._take)

    def close(self) -> None:
        """Takes the picture away."""
        with self._lock:
            sockets, self._sockets = list(self._sockets.values()), {}
        for socket in sockets:
            socket.close()
        super().close()

    def _take(self, _: object, message: Mapping[str, Any], buffers: Sequence[bytes]) -> None:
        """What the half in the browser says (ui/src/widget/comm.ts)."""
        match message:
            case {"request": int(number), "method": str(method), "path": str(path)}:
                status, body = self._answer(method, path)
                self.send({"request": number, "status": status, "body": body})
            case {"socket": int(number), "open": str(path)}:
                self._open(number, path)
            case {"socket": int(number), "text": str(text)}:
                if socket := self._sockets.get(number):
                    try:
                        socket.send(text)
                    except ConnectionLostError:
                        socket.close()
            case {"socket": int(number), "close": True}:
                if socket := self._sockets.get(number):
                    socket.close()

    def _answer(self, method: str, path: str) -> tuple[int, str]:
        """A request's status, and the body as JSON."""
        try:
            if method != "GET":
                raise RefusedError(403, "a picture in a notebook only shows", "change the lab in Python")
            self._check(path)
            return 200, json.dumps(self._transport._ask("GET", path))
        except RefusedError as refused:
            problem = {"error": refused.error, "hint": refused.hint, "paths": refused.paths}
            return refused.status, json.dumps(problem)
        except Error as error:
            return 503, json.dumps({"error": str(error)})

    def _check(self, path: str) -> None:
        """Whether it is this lab that is looked at."""
        parts = urlsplit(path)
        own = f"/v1/labs/{quote(self.lab, safe='')}"
        if parts.path == own or parts.path.startswith(f"{own}/"):
            return
        if parts.path == "/v1/events" and parse_qs(parts.query).get("lab") == [self.lab]:
            return
        raise RefusedError(403, f"a picture of lab {self.lab} shows nothing else", None)

    def _open(self, number: int, path: str) -> None:
        """Opens a WebSocket. It is there when this returns, since the next message may be for it."""
        try:
            self._check(path)
            socket = self._transport._open(path)
        except Error:
            self.send({"socket": number, "closed": True})
            return
        with self._lock:
            self._sockets[number] = socket
        threading.Thread(target=self._forward, args=(number, socket), daemon=True).start()

    def _forward(self, number: int, socket: Socket) -> None:
        """Passes on what comes by a WebSocket, until either side has enough."""
        with socket:
            while (message := socket.receive()) is not None:
                if isinstance(message, str):
                    self.send({"socket": number, "text": message})
                else:
                    self.send({"socket": number, "bytes": True}, [message])
        with self._lock:
            self._sockets.pop(number, None)
        self.send({"socket": number, "closed": True})


def asset(transport: Transport, name: str) -> str:
    """A file of the page that this vink carries."""
    try:
        return transport._text(name)
    except RefusedError as refused:
        raise NotFoundError(
            f"this vink was built without its page, so it has no {name}: make ui, and build it again"
        ) from refused
