"""Notices of deposits over a real socket."""

import asyncio
from typing import Any

import orjson
from websockets.asyncio.server import serve

from actors.deposits.usdc.subscription import DepositSubscription


async def test_every_notice_wakes_and_a_lost_socket_is_opened_again() -> None:
    """Notices are lost while it is disconnected, so a reconnect wakes the watcher too."""
    asked: list[Any] = []
    woken = asyncio.Semaphore(0)
    pauses: list[float] = []

    async def node(socket: Any) -> None:
        asked.append(orjson.loads(await socket.recv()))
        await socket.send('{"jsonrpc":"2.0","id":1,"result":5}')
        await socket.send('{"jsonrpc":"2.0","method":"logsNotification","params":{}}')
        if len(asked) > 1:
            await socket.wait_closed()

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        await asyncio.sleep(0)

    async with serve(node, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        heard = DepositSubscription(f"ws://127.0.0.1:{port}", "account", woken.release, sleep)
        heard.start()
        for _ in range(4):
            await woken.acquire()
        assert heard.connected
        await heard.stop()
    assert [request["method"] for request in asked] == ["logsSubscribe"] * 2
    assert asked[0]["params"] == [{"mentions": ["account"]}, {"commitment": "finalized"}]
    assert pauses == [1.0]  # It had stood: the next try is soon.


async def test_a_node_without_a_socket_is_tried_ever_more_rarely() -> None:
    pauses: list[float] = []
    enough = asyncio.Event()

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 6:
            enough.set()
        await asyncio.sleep(0)

    heard = DepositSubscription("ws://127.0.0.1:1", "account", lambda: None, sleep)
    heard.start()
    await enough.wait()
    await heard.stop()
    assert pauses[:6] == [1.0, 2.0, 5.0, 15.0, 30.0, 30.0] and not heard.connected


async def test_notices_come_from_the_node_of_now() -> None:
    """A drained node is left; without one that has a WebSocket the watcher looks by itself, and a new one wakes it."""
    served: list[int] = []
    woken = asyncio.Semaphore(0)

    async def node(socket: Any) -> None:
        await socket.recv()
        served.append(socket.local_address[1])
        await socket.send('{"jsonrpc":"2.0","id":1,"result":5}')
        await socket.wait_closed()

    async with serve(node, "127.0.0.1", 0) as first, serve(node, "127.0.0.1", 0) as second:
        ports = [next(iter(server.sockets)).getsockname()[1] for server in (first, second)]
        heard = DepositSubscription(None, "account", woken.release, lambda _: asyncio.sleep(0))
        heard.start()
        for port in ports:
            heard.use(f"ws://127.0.0.1:{port}")
            await woken.acquire()
            assert heard.connected
        assert served == ports
        heard.use(None)
        async with asyncio.timeout(10):
            while heard.connected:  # noqa: ASYNC110 - the end of a socket tells nobody.
                await asyncio.sleep(0.002)
        await heard.stop()
    assert served == ports
