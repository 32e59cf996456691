"""The measured side of `python -m bench streams`: server, door, hub, link and meters in one process.

Orders arrive over a socket: `<notifications a second> <clients> <seconds>`, or `count`. Accounts are kept in memory.
"""

import asyncio
import socket
import sys

import orjson
import uvloop

from actors.stream_config import StreamsConfig
from tests.streams.telling_node import notify
from tests.streams.world import open_sockets

_CREDITS = 10**9


async def serve(line: socket.socket) -> None:
    streams = StreamsConfig(sockets_per_account_max=20_000)
    limits = {"requests_per_second": 1_000_000, "concurrency": 100_000}
    async with open_sockets(streams=streams, accounts=limits) as sockets:
        wallet = await sockets.world.customer(credits=_CREDITS)
        line.sendall(orjson.dumps({"port": sockets.port, "api_key": wallet.api_key}) + b"\n")
        line.setblocking(False)
        loop = asyncio.get_running_loop()
        while told := await loop.sock_recv(line, 100):
            if told == b"count\n":
                await loop.sock_sendall(line, b"%d" % sockets.node.open_count("accountSubscribe"))
            else:
                rate, clients, seconds = told.split()
                await notify(sockets.node, int(rate) / int(clients), float(seconds))


if __name__ == "__main__":
    uvloop.run(serve(socket.socket(fileno=int(sys.argv[1]))))
