# A hundred streams at once, each with a megabyte out and in; datagrams; a blocking call in a thread.
import asyncio
import hashlib
import os
import urllib.request

SERVER = os.environ["SERVER"]


async def stream(number):
    sent = (b"%07d " % number) * 131072
    reader, writer = await asyncio.open_connection(SERVER, 8000)

    async def write():
        for i in range(0, len(sent), 100_000):
            writer.write(sent[i : i + 100_000])
            await writer.drain()
        writer.write_eof()

    _, received = await asyncio.gather(write(), reader.read())
    writer.close()
    return received == sent, hashlib.sha256(received).hexdigest()


class Ask(asyncio.DatagramProtocol):
    def __init__(self):
        self.answers = asyncio.Queue()

    def datagram_received(self, data, address):
        self.answers.put_nowait(data)


def refused():
    try:
        urllib.request.urlopen(f"http://{SERVER}:9/")
    except OSError as e:
        return str(e)


async def main():
    loop = asyncio.get_running_loop()
    done = await asyncio.gather(*map(stream, range(100)), loop.run_in_executor(None, refused))
    for line in done:
        print(line)
    transport, ask = await loop.create_datagram_endpoint(Ask, remote_addr=(SERVER, 8001))
    for i in range(10):
        transport.sendto(b"datagram %d" % i)
        print(await ask.answers.get())
    transport.close()


asyncio.run(main())
