"""50 clients at once that speak HTTP/1.1 on one connection each, and 20 WebSockets."""

import asyncio
import sys

import uvloop
import websockets

HOST, PORT = sys.argv[1], int(sys.argv[2])


async def fetch(number):
    reader, writer = await asyncio.open_connection(HOST, PORT)
    total = 0
    for i in range(40):
        path = f"/{number}/{i}"
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        assert f"x-path: {path}\r\n".encode() in head, head
        while size := int(await reader.readline(), 16):
            total += len((await reader.readexactly(size + 2)).strip())
        await reader.readline()
    writer.close()
    await writer.wait_closed()
    return total


async def chat(number):
    async with websockets.connect(f"ws://{HOST}:{PORT}/") as socket:
        for i in range(50):
            message = bytes([number, i % 256]) * (i * 100 + 1)
            await socket.send(message)
            assert await socket.recv() == message[::-1]
    return 50


async def main():
    print("answers' bytes:", sum(await asyncio.gather(*(fetch(i) for i in range(50)))))
    print("messages:", sum(await asyncio.gather(*(chat(i) for i in range(20)))))


uvloop.install()
asyncio.run(main())
