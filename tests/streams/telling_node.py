"""A node for `python -m bench streams --product`: constant answers over HTTP, balances over WebSocket when told to.

Run: `python -m tests.streams.telling_node FD`. Orders arrive over that socket: `<notifications a second> <clients>
<seconds>`, or `count`. The first line that it writes has its ports. Every balance is the time at which it was sent, in
microseconds.
"""

import asyncio
import socket
import sys
import time
from typing import Any

import orjson
import uvloop

from bench.constant import SLOT, Connection
from tests.streams.fake_node import FakeNode
from tests.streams.world import ACCOUNT

_SLOT_SECONDS = 0.4


async def serve(line: socket.socket) -> None:
    node = FakeNode(SLOT)
    await node.start()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Connection, "127.0.0.1", 0)
    ports = {"http_port": server.sockets[0].getsockname()[1], "ws_port": node.port}
    line.sendall(orjson.dumps(ports) + b"\n")
    line.setblocking(False)
    slots = asyncio.create_task(_slots(node))
    while told := await loop.sock_recv(line, 100):
        if told == b"count\n":
            await loop.sock_sendall(line, b"%d" % node.open_count("accountSubscribe"))
        else:
            rate, clients, seconds = told.split()
            await notify(node, int(rate) / int(clients), float(seconds))
    slots.cancel()


async def _slots(node: FakeNode) -> None:
    """A node that tells no slot is given up."""
    while True:
        await asyncio.sleep(_SLOT_SECONDS)
        await node.new_slot(node.slot + 1)


async def notify(node: FakeNode, per_second: float, seconds: float) -> None:
    """Tell a new balance so many times a second: the time of it, in microseconds."""
    began, slot = time.monotonic(), node.slot
    for number in range(int(per_second * seconds)):
        await asyncio.sleep(max(0.0, began + number / per_second - time.monotonic()))
        value: dict[str, Any] = {"lamports": int(time.monotonic() * 1e6), "data": ["", "base64"], "owner": ACCOUNT}
        value |= {"executable": False, "rentEpoch": 0, "space": 0}
        await node.notify("accountSubscribe", {"context": {"slot": slot + number}, "value": value})


if __name__ == "__main__":
    uvloop.run(serve(socket.socket(fileno=int(sys.argv[1]))))
