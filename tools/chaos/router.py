#!/usr/bin/env python3
"""A small router for the chaos test: sends each connection to the next of several servers on this machine, or to another one if that
refuses it.

    tools/chaos/router.py PORT SERVER_PORT SERVER_PORT ...

It forwards bytes and does not read them, so a client sees what a server answers. If one side closes its connection, the other side's is
closed too. If all servers refuse, the client gets status 503. Prints {"port": PORT} when it listens, and exits with status 0 after
SIGTERM, once its connections have ended, or DRAIN_SECONDS later.
"""

import asyncio
import json
import signal
import sys

DRAIN_SECONDS = 30
PIECE = 1 << 16
BUSY = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Router:
    def __init__(self, servers):
        self.servers, self.next = servers, 0  # ports; index of the server that gets the next connection
        self.connections = set()

    async def connect(self):
        """A connection to the next server that accepts one, or None."""
        first = self.next
        self.next = (first + 1) % len(self.servers)
        for i in range(len(self.servers)):
            try:
                return await asyncio.open_connection("127.0.0.1", self.servers[(first + i) % len(self.servers)])
            except OSError:
                pass
        return None

    async def serve(self, reader, writer):
        task = asyncio.current_task()
        self.connections.add(task)
        try:
            await self.relay(reader, writer)
        except OSError:  # one side has reset its connection
            pass
        finally:
            writer.close()
            self.connections.discard(task)

    async def relay(self, reader, writer):
        server = await self.connect()
        if server is None:
            await reader.read(PIECE)  # closing with unread bytes would reset the connection
            writer.write(BUSY)
            return await writer.drain()
        pumps = [asyncio.create_task(send_on(reader, server[1])), asyncio.create_task(send_back(server[0], writer))]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in pumps:
                one.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            server[1].close()
        return None


async def send_on(reader, writer):
    """Forwards bytes of a client until it closes its connection. A server that reads no more may still send its answer, so the rest is
    dropped then."""
    reads = True
    while data := await reader.read(PIECE):
        try:
            if reads:
                writer.write(data)
                await writer.drain()
        except OSError:
            reads = False


async def send_back(reader, writer):
    """Forwards the answer of a server until the server closes its connection."""
    while data := await reader.read(PIECE):
        writer.write(data)
        await writer.drain()


async def run(port, servers):
    router = Router(servers)
    ending = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ending.set)
    listener = await asyncio.start_server(router.serve, "127.0.0.1", port, backlog=1024)
    print(json.dumps({"port": listener.sockets[0].getsockname()[1]}), flush=True)
    await ending.wait()
    listener.close()
    if router.connections:
        await asyncio.wait(router.connections, timeout=DRAIN_SECONDS)


if __name__ == "__main__":
    asyncio.run(run(int(sys.argv[1]), [int(port) for port in sys.argv[2:]]))
