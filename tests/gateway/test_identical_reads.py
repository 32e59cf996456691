"""Identical reads through the real door, the real owner of accounts and a raw node: one request, each his own price."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator

from actors.clock import SystemClock
from actors.config import UpstreamConfig
from actors.upstream.api import Nodes

from ..upstream.nodes import Exchange, RawNode, running
from .world import World, a_world, call

MANY = 1_000
BLOCK = b'{"jsonrpc":"2.0","result":{"blockhash":"' + b"x" * 2_000 + b'"},"id":1}'


@contextlib.asynccontextmanager
async def behind(node: RawNode, **settings: object) -> AsyncIterator[World]:
    limits = {"requests_per_second": 1_000_000, "concurrency": 100_000}
    async with running(node):
        nodes = Nodes(UpstreamConfig(node_url=node.url, **settings), SystemClock(), lambda *_: None)
        async with a_world(nodes, accounts=limits) as world:
            yield world
        await nodes.close()


async def test_a_thousand_identical_calls_of_get_block_are_at_most_two_requests():
    """Each caller has the block under its own id and pays the published price; later ones find it kept."""
    gate = asyncio.Event()

    async def answer(exchange: Exchange) -> None:
        if exchange.number:
            await gate.wait()
        await exchange.send(exchange.response(BLOCK))

    node = RawNode(answer)
    async with behind(node) as world:
        customer = await world.customer(30_001)
        # So that there is a connection: a thousand clients in the node's own process keep it from taking one in time.
        await world.rpc(customer, call("getVersion"))
        calls = [asyncio.create_task(world.rpc(customer, call("getBlock", 5, id=number))) for number in range(MANY)]
        await asyncio.sleep(0.2)
        gate.set()
        answered = await asyncio.gather(*calls)
        assert {one.status_code for one in answered} == {200}, Counter(one.text[:200] for one in answered)
        assert [one.json()["id"] for one in answered] == list(range(MANY))
        assert {len(one.json()["result"]["blockhash"]) for one in answered} == {2_000}
        marks = Counter(one.headers["x-cache"] for one in answered)
        assert marks["miss"] <= 2
        assert marks["coalesced"] + marks["hit"] + marks["miss"] == MANY
        assert {one.headers["x-node"] for one in answered} == {"node-1"}
        assert await world.balance(customer) == 30_000 - 25 * MANY
        later = await world.rpc(customer, call("getBlock", 5))
        assert later.headers["x-cache"] == "hit"
        assert await world.balance(customer) == 30_000 - 25 * MANY - 13  # The last one is a hit.
        assert len(node.exchanges) - 1 <= 2


async def test_an_operator_may_keep_the_names_of_nodes_to_himself():
    """upstream.node_header = false: no X-Node on any answer."""
    async with behind(RawNode(), node_header=False) as world:
        customer = await world.customer(10)
        answered = await world.rpc(customer, call("getVersion"))
        assert "x-node" not in answered.headers
        assert answered.headers["x-cache"] == "miss"


async def test_a_client_who_leaves_leaves_the_others_their_answer():
    """Also when it was its request that all were waiting for; it pays nothing, as nothing was answered to it."""
    gate, arrived = asyncio.Event(), asyncio.Event()

    async def answer(exchange: Exchange) -> None:
        arrived.set()
        await gate.wait()
        await exchange.send(exchange.response(BLOCK))

    async with behind(RawNode(answer)) as world:
        customer = await world.customer(1_000)
        calls = [asyncio.create_task(world.rpc(customer, call("getBlock", 5))) for _ in range(10)]
        await arrived.wait()
        calls[0].cancel()
        gate.set()
        answered = await asyncio.gather(*calls, return_exceptions=True)
        assert isinstance(answered[0], asyncio.CancelledError)
        assert [one.status_code for one in answered[1:]] == [200] * 9
        await world.door.close()
        assert await world.balance(customer) == 1_000 - 9 * 25
