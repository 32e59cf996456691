"""The measured side of bench.streams: server, door, hub, link and meters in one process; told what to do by a socket.

Lines that it is told: `<notifications a second> <clients> <seconds>`, or `count`. Accounts are kept in memory.
"""

import asyncio
import socket
import sys
import time
from typing import Any

import orjson
import uvloop

from actors.config import StreamsConfig
from tests.streams.world import ACCOUNT, Sockets, open_sockets

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
                await notify(sockets, int(rate) / int(clients), float(seconds))


async def notify(sockets: Sockets, per_second: float, seconds: float) -> None:
    """The node tells a new balance so many times a second: the time of it, in microseconds."""
    began, slot = time.monotonic(), sockets.node.slot
    for number in range(int(per_second * seconds)):
        await asyncio.sleep(max(0.0, began + number / per_second - time.monotonic()))
        value: dict[str, Any] = {"lamports": int(time.monotonic() * 1e6), "data": ["", "base64"], "owner": ACCOUNT}
        value |= {"executable": False, "rentEpoch": 0, "space": 0}
        await sockets.node.notify("accountSubscribe", {"context": {"slot": slot + number}, "value": value})


if __name__ == "__main__":
    uvloop.run(serve(socket.socket(fileno=int(sys.argv[1]))))
