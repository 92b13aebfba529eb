# Echoes streams on port 8000 and datagrams, reversed, on port 8001.
import asyncio


async def echo(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


class Reverse(asyncio.DatagramProtocol):
    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, address):
        self.transport.sendto(data[::-1], address)


async def main():
    loop = asyncio.get_running_loop()
    await loop.create_datagram_endpoint(Reverse, local_addr=("0.0.0.0", 8001))
    server = await asyncio.start_server(echo, "0.0.0.0", 8000)
    await server.serve_forever()


asyncio.run(main())
