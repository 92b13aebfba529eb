"""HTTP/3 by aioquic: `serve PORT` answers with a file or with what was sent; `fetch HOST PORT` asks."""

import asyncio
import hashlib
import sys

from aioquic.asyncio import QuicConnectionProtocol, connect, serve
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ProtocolNegotiated

FILE = open("file", "rb").read()


class Protocol(QuicConnectionProtocol):
    """What is common: bytes of each stream, until its end."""

    http = None

    def quic_event_received(self, event):
        if isinstance(event, ProtocolNegotiated):
            self.http, self.streams = H3Connection(self._quic), {}
        for got in self.http.handle_event(event) if self.http else ():
            if isinstance(got, HeadersReceived):
                self.streams[got.stream_id] = (dict(got.headers), bytearray())
            if isinstance(got, DataReceived):
                self.streams[got.stream_id][1].extend(got.data)
            if isinstance(got, (HeadersReceived, DataReceived)) and got.stream_ended:
                self.whole(got.stream_id, *self.streams.pop(got.stream_id))


class Server(Protocol):
    def whole(self, stream, headers, body):
        answer = FILE if headers[b":path"] == b"/file" else bytes(body[::-1])
        self.http.send_headers(stream, [(b":status", b"200"), (b"content-length", b"%d" % len(answer))])
        self.http.send_data(stream, answer, end_stream=True)
        self.transmit()


class Client(Protocol):
    def whole(self, stream, headers, body):
        self.waiting.pop(stream).set_result(bytes(body))

    async def ask(self, path, body=b""):
        if self.http is None:
            self.http, self.streams = H3Connection(self._quic), {}
        self.waiting = getattr(self, "waiting", {})
        stream = self._quic.get_next_available_stream_id()
        self.waiting[stream] = asyncio.get_running_loop().create_future()
        names = [(b":method", b"POST"), (b":scheme", b"https"), (b":authority", b"server"), (b":path", path)]
        self.http.send_headers(stream, names)
        self.http.send_data(stream, body, end_stream=True)
        answer = self.waiting[stream]
        self.transmit()
        return await answer


async def fetch(host, port, work):
    configuration = QuicConfiguration(alpn_protocols=H3_ALPN, server_name="server", cafile="cert")
    async with connect(host, port, configuration=configuration, create_protocol=Client) as client:
        return await work(client)


async def get(client):
    return hashlib.sha256(await client.ask(b"/file")).hexdigest()


async def post(client):
    body = bytes(range(256)) * 2000
    return await client.ask(b"/echo", body) == body[::-1]


async def small(client):
    for i in range(100):
        assert await client.ask(b"/echo", b"%d" % i) == (b"%d" % i)[::-1]
    return len(set(await asyncio.gather(*(client.ask(b"/echo", b"%04d" % i) for i in range(100)))))


async def main():
    if sys.argv[1] == "serve":
        configuration = QuicConfiguration(is_client=False, alpn_protocols=H3_ALPN)
        configuration.load_cert_chain("cert", "key")
        await serve("::", int(sys.argv[2]), configuration=configuration, create_protocol=Server)
        print("ready", flush=True)
        await asyncio.Future()
    host, port = sys.argv[2], int(sys.argv[3])
    print(hashlib.sha256(FILE).hexdigest() == await fetch(host, port, get))
    print(set(await asyncio.gather(*(fetch(host, port, post) for _ in range(10)))))
    print(await fetch(host, port, small))


asyncio.run(main())
