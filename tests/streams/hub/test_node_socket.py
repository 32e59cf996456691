"""One connection to one node."""

import asyncio
from collections.abc import AsyncIterator

import orjson
import pytest

from actors.streams.hub.node_socket import NodeLost, NodeSocket
from tests.streams.fake_node import FakeNode


class Events:
    def __init__(self) -> None:
        self.up = asyncio.Event()
        self.down: asyncio.Queue[int] = asyncio.Queue()
        self.heard: asyncio.Queue[tuple[int, bytes]] = asyncio.Queue()

    def connected(self, index: int) -> None:
        self.up.set()

    def lost(self, index: int, slot: int, root: int) -> None:
        self.up.clear()
        self.down.put_nowait(slot)

    def notified(self, index: int, upstream_id: int, result: bytes) -> None:
        self.heard.put_nowait((upstream_id, result))


@pytest.fixture
async def node() -> AsyncIterator[FakeNode]:
    fake = FakeNode()
    await fake.start()
    yield fake
    await fake.stop()


async def test_the_number_is_known_before_the_first_notification(node: FakeNode) -> None:
    """Else a notification that comes right behind the answer would be nobody's."""
    events = Events()
    socket = NodeSocket(0, "one", node.url, events, 10)
    socket.start()
    await events.up.wait()
    order: list[str] = []
    heard = asyncio.Event()

    def notified(index: int, number: int, result: bytes) -> None:
        order.append(f"event {number}")
        heard.set()

    events.notified = notified  # type: ignore[method-assign]
    assert await socket.subscribe("rootSubscribe", b"[]", lambda number: order.append(f"number {number}")) == b""
    await node.notify("rootSubscribe", 70)
    async with asyncio.timeout(5):
        while "event 2" not in order:
            heard.clear()
            await heard.wait()
    assert order.index("number 2") < order.index("event 2")
    await socket.stop()


async def test_a_lost_connection_tells_its_newest_slot_and_comes_back(node: FakeNode) -> None:
    """From there on events may be missing."""
    events = Events()
    socket = NodeSocket(0, "one", node.url, events, 10)
    with pytest.raises(NodeLost):
        await socket.subscribe("rootSubscribe", b"[]", lambda _: None)
    socket.start()
    await events.up.wait()
    await node.new_slot(123)
    while orjson.loads((await events.heard.get())[1])["slot"] != 123:
        pass
    node.cut()
    async with asyncio.timeout(5):
        assert await events.down.get() == 123
        await events.up.wait()
    await socket.stop()
    assert not socket.is_up


async def test_a_connection_that_says_nothing_is_given_up(node: FakeNode) -> None:
    """Half-open connections are noticed by the slots that do not come."""
    events = Events()
    socket = NodeSocket(0, "one", node.url, events, 0.05)
    socket.start()
    async with asyncio.timeout(5):
        await events.up.wait()
        assert await events.down.get() == node.slot
    await socket.stop()


async def test_the_nodes_error_is_given_as_it_is(node: FakeNode) -> None:
    """Decisions, "Errors of the node"."""
    node.refuses["voteSubscribe"] = {"code": -32601, "message": "Method not found", "data": [1]}
    events = Events()
    socket = NodeSocket(0, "one", node.url, events, 10)
    socket.start()
    await events.up.wait()
    said = await socket.subscribe("voteSubscribe", b"[]", lambda _: None)
    assert orjson.loads(said) == node.refuses["voteSubscribe"]
    await socket.stop()
