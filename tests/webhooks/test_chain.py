"""Watching the chain: by the stream of a node and by its blocks, against the embedded chain inside the test."""

import asyncio
import json
from collections.abc import AsyncIterator

import grpc
import pytest
from solders.pubkey import Pubkey

from actors.clock import SystemClock
from actors.upstream.replies import NodeAnswer, made
from actors.webhooks.chain import ChainFollower
from devnode.geyser.calls import Calls
from devnode.geyser.service import Service
from devnode.geyser.settings import NO_LIMITS
from tests.devnode.geyser.listening import Streaming
from tests.devnode.local_node import LocalNode
from tests.sends.conftest import Here

from .outside import Receiver
from .world import WebhookWorld

SYSTEM = "1" * 32


@pytest.fixture
async def endpoint(local: LocalNode) -> AsyncIterator[str]:
    """The chain's Yellowstone gRPC on a real port."""
    streaming = Streaming(local)
    running = asyncio.create_task(streaming.hub.run())
    server = grpc.aio.server()
    service = Service(streaming.hub, Calls(local.node, streaming.hub), local.node.clock, NO_LIMITS, None)
    server.add_generic_rpc_handlers((service.handler(),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"http://127.0.0.1:{port}"
    await server.stop(None)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


class Watch:
    """A follower of the chain, and what reached the queue."""

    def __init__(self, world: WebhookWorld, local: LocalNode, endpoint: str | None) -> None:
        self.world, self.local, self.here = world, local, Here(local)
        self.endpoint = None if endpoint is None else (endpoint, None)
        self.follower = self.new_follower()

    def new_follower(self) -> ChainFollower:
        return ChainFollower(self.world.store, self.here, SystemClock(), self.endpoint)

    async def queued(self) -> list[tuple[str, str, dict]]:
        rows = await self.world.pool.fetch("SELECT filter_type, subject, body FROM webhook_events ORDER BY id")
        return [(row[0], row[1], json.loads(row[2])) for row in rows]

    async def until(self, count: int) -> list[tuple[str, str, dict]]:
        """The chain goes on until so many events are queued."""
        async with asyncio.timeout(30):
            while len(found := await self.queued()) < count:
                self.local.beat()
                await asyncio.sleep(0.02)
        return found

    async def _is_following(self) -> bool:
        return self.follower.is_streaming if self.endpoint else (await self.world.store.cursor()).slot is not None

    async def until_following(self) -> None:
        async with asyncio.timeout(30):
            while not await self._is_following():
                self.local.beat()
                await asyncio.sleep(0.02)


@pytest.fixture(params=["stream", "blocks"])
async def watch(
    request: pytest.FixtureRequest, world: WebhookWorld, local: LocalNode, endpoint: str
) -> AsyncIterator[Watch]:
    found = Watch(world, local, endpoint if request.param == "stream" else None)
    yield found
    await found.follower.stop()


async def test_successful_transactions_of_watched_accounts_are_queued_once(watch: Watch, target: Receiver) -> None:
    """Interface, rules 1 and 2: accounts and invoked programs; failed ones never; a restart loses and doubles none."""
    local, world = watch.local, watch.world
    customer = await world.gateway.customer(50)
    receiver = Pubkey.new_unique()
    await world.register(customer, target.url, filter_type="account", filter_value=str(receiver))
    watch.follower.start()
    await watch.until_following()
    payer = local.wallet()
    sent = local.transfer(payer, receiver, 5_000_000)
    local.call("sendTransaction", *_as_sent(sent))
    other = local.transfer(payer, Pubkey.new_unique(), 5_000_000)
    local.call("sendTransaction", *_as_sent(other))
    failing = local.transfer(local.wallet(), receiver, 10**18)
    local.call("sendTransaction", *_as_sent(failing))
    ((kind, subject, body),) = await watch.until(1)
    assert (kind, subject) == ("account", str(receiver))
    assert body["signature"] == str(sent.signatures[0])
    assert body["event"] == "transaction" and body["fee"] == 5_000
    assert str(receiver) in body["accounts"] and body["slot"] > 0
    assert {"account": str(receiver), "lamports": 5_000_000} in body["sol_transfers"]
    assert any("success" in line for line in body["logs"])
    # While nobody follows, another one lands; the next follower begins where this one stopped.
    await watch.follower.stop()
    missed = local.transfer(payer, receiver, 6_000_000)
    local.call("sendTransaction", *_as_sent(missed))
    local.beat(3)
    watch.follower = watch.new_follower()
    watch.follower.start()
    found = await watch.until(2)
    assert [body["signature"] for _, _, body in found] == [str(sent.signatures[0]), str(missed.signatures[0])]


async def test_a_webhook_that_is_made_later_is_watched_too(watch: Watch, target: Receiver) -> None:
    """One filter upstream serves all; it is changed while the stream goes on."""
    local, world = watch.local, watch.world
    customer = await world.gateway.customer(50)
    first, second = Pubkey.new_unique(), Pubkey.new_unique()
    await world.register(customer, target.url, filter_type="account", filter_value=str(first))
    watch.follower.start()
    await watch.until_following()
    await world.register(customer, target.url, filter_type="program", filter_value=SYSTEM)
    await world.register(customer, target.url, filter_type="account", filter_value=str(second))
    watch.follower.changed()
    async with asyncio.timeout(30):
        while str(second) not in watch.follower._watched:
            local.beat()
            await asyncio.sleep(0.02)
    await asyncio.sleep(0)
    sent = None
    async with asyncio.timeout(30):
        while len(found := await watch.queued()) < 2:
            if sent is None or local.chain.statuses.get(sent.signatures[0]):
                sent = local.transfer(local.wallet(), second, 5_000_000)
                local.call("sendTransaction", *_as_sent(sent))
            local.beat()
            await asyncio.sleep(0.02)
    assert {(kind, subject) for kind, subject, _ in found} == {("account", str(second)), ("program", SYSTEM)}


def _as_sent(transaction: object) -> tuple[str, dict[str, object]]:
    import base64

    return base64.b64encode(bytes(transaction)).decode(), {"encoding": "base64", "skipPreflight": True}  # type: ignore[call-overload]


class Told:
    """A node that tells one absurd slot."""

    def __init__(self, node: Here) -> None:
        self._node, self.lies = node, 1
        self.has_lied = asyncio.Event()

    async def call(self, method: str, params: bytes, timeout_ms: int) -> NodeAnswer:
        if method == "getSlot" and self.lies:
            self.lies -= 1
            self.has_lied.set()
            return made(b"1000000000000")
        return await self._node.call(method, params, timeout_ms)


@pytest.mark.parametrize("at_the_start", [True, False])
async def test_an_absurd_slot_hides_no_event_and_tells_no_gap(
    world: WebhookWorld, local: LocalNode, target: Receiver, at_the_start: bool
) -> None:
    """The place moves over listed blocks alone, and goes back to the chain from a place that is far beyond it."""
    watch = Watch(world, local, None)
    told = Told(watch.here)
    told.lies = int(at_the_start)
    customer, receiver = await world.gateway.customer(50), Pubkey.new_unique()
    await world.register(customer, target.url, filter_type="account", filter_value=str(receiver))
    watch.follower = ChainFollower(world.store, told, SystemClock(), None, sleep=lambda _: asyncio.sleep(0))
    watch.follower.start()
    try:
        await watch.until_following()
        told.lies = 1
        told.has_lied.clear()
        async with asyncio.timeout(30):
            await told.has_lied.wait()
        local.call("sendTransaction", *_as_sent(local.transfer(local.wallet(), receiver, 5_000_000)))
        ((_, _, body),) = await watch.until(1)
        assert body["event"] == "transaction"
    finally:
        await watch.follower.stop()
