"""One subscription at the node, and what a loss of the node costs: nothing, or a clear end."""

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from solders.keypair import Keypair

from actors.clock import SystemClock
from actors.geyser_proto import api, geyser_pb2
from actors.grpc_http2.client_call import CallFailed
from actors.streams.yellowstone import feed as geyser_feed
from actors.streams.yellowstone.feed import GeyserFeed
from actors.streams.yellowstone.outbox import GeyserOutbox
from actors.streams.yellowstone.pace import GeyserPace
from actors.streams.yellowstone.reader import GeyserReader
from actors.streams.yellowstone.requests import WantedStream
from bench.yellowstone_servers import started
from devnode.geyser.filters import read_filter
from devnode.geyser.outbox import Outbox
from devnode.geyser.settings import NO_LIMITS
from tests.streams.geyser_world import (
    GeyserWorld,
    contents,
    geyser_world,
    settled,
    traffic,
    until_slot,
)


@pytest.mark.parametrize("cuts", [1, 4])
async def test_a_node_that_breaks_off_costs_no_update_and_repeats_none(world: GeyserWorld, cuts: int) -> None:
    """Upstream loss is repaired by from_slot: what a client beside it got from the node itself, the client got too."""
    payer = world.local.wallet()
    outbox = Outbox()
    witness = world.hub.join(outbox)
    client = world.client()
    await client.ask(traffic())
    await settled(world, client)
    world.hub.subscribe(witness, read_filter(traffic(), NO_LIMITS), None)
    first = world.local.chain.levels.building.slot
    for _ in range(cuts):
        for step in range(6):
            world.local.land(world.local.transfer(payer, Keypair().pubkey(), 10**7))
            if step == 3:
                await world.stop_node()
            world.local.beat()
        await world.listen_again()
        await world.until(lambda count=client.arrived: client.arrived > count)  # type: ignore[misc]
    last = world.local.chain.levels.building.slot - 1
    world.local.finalize()
    got = contents(await until_slot(client, last, geyser_pb2.SLOT_FINALIZED))
    world.hub.pump()
    wanted = contents([geyser_pb2.SubscribeUpdate.FromString(await outbox.next()) for _ in range(len(outbox))])
    live = [one for one in got if first <= one[1] <= last]
    assert len(live) == len(set(live)), "an update came twice"
    assert set(live) == {one for one in wanted if first <= one[1] <= last}


async def test_what_the_node_cannot_give_again_ends_the_stream_with_the_slot(tmp_path: Path) -> None:
    """No silent gap: a node whose replay has moved on while it was away."""
    async with geyser_world(tmp_path) as world:
        client = world.client()
        await client.ask(traffic())
        await settled(world, client)
        await world.stop_node()
        world.local.beat(400)
        world.hub.logs.clear()
        world.local.beat(3)
        await world.listen_again()
        code, text = await client.end()
        assert code is grpc.StatusCode.DATA_LOSS
        assert "are lost" in text and "of the slots from" in text


async def _ends_at_no_charge(world: GeyserWorld) -> None:
    """A new stream, on an account that has paid for nothing yet."""
    client = world.client()
    await client.ask(traffic())
    code, text = await client.end()
    assert code is grpc.StatusCode.UNAVAILABLE and "nothing is charged" in text
    await world.until(lambda: not world.account.held)
    assert world.account.posted == {}


async def test_a_node_that_is_away_ends_a_new_stream_at_no_charge(tmp_path: Path) -> None:
    """What was never established costs nothing."""
    async with geyser_world(tmp_path, connect_seconds=0.2) as world:
        await world.stop_node()
        await _ends_at_no_charge(world)
        await world.listen_again()


async def _babble(port: int, message: bytes) -> grpc.aio.Server:
    """Start a node that answers each subscription with this message, again and again."""

    async def answer(requests: Any, context: Any) -> None:
        while True:
            await context.write(message)
            await asyncio.sleep(0.05)

    handlers = {api.SUBSCRIBE.name: grpc.stream_stream_rpc_method_handler(answer)}
    return await started(port, handlers, [("grpc.so_reuseport", 0)])


_PING = geyser_pb2.SubscribeUpdate(ping=geyser_pb2.SubscribeUpdatePing()).SerializeToString()


_STRANGE = geyser_pb2.SubscribeUpdate(filters=["nobody's"], slot=geyser_pb2.SubscribeUpdateSlot(slot=9))


@pytest.mark.parametrize("message", [b"\xff\xff", _PING, _STRANGE.SerializeToString()])
async def test_a_node_that_never_takes_a_stream_up_is_not_paid_for(tmp_path: Path, message: bytes) -> None:
    """Unreadable bytes, bare pings and updates of other filters are no subscription, however long they come."""
    async with geyser_world(tmp_path, connect_seconds=0.5) as world:
        await world.stop_node()
        babbling = await _babble(world.node_port, message)
        await _ends_at_no_charge(world)
        await babbling.stop(None)
        await world.listen_again()
        again = world.client()
        await again.ask(traffic())
        await settled(world, again)


@pytest.mark.parametrize("kind", ["away", "silent", "unreadable"])
async def test_a_node_that_stays_away_ends_its_streams(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Streams end after resume_seconds, new ones after connect_seconds and free; also when the node takes connections
    and never says anything, so that each call is cut for its silence, or sends what cannot be read."""
    monkeypatch.setattr(geyser_feed, "_SILENCE_SECONDS", 0.1)
    monkeypatch.setattr(geyser_feed, "_LOOK_SECONDS", 0.02)
    async with geyser_world(tmp_path, resume_seconds=1.0, connect_seconds=0.3) as world:
        client = world.client()
        await client.ask(traffic())
        await settled(world, client)
        posted = dict(world.account.posted)
        await world.stop_node()
        silent = babbling = None
        if kind == "unreadable":
            babbling = await _babble(world.node_port, b"\x0a\x01a\xff\xff")  # A filter, and then no update.
        if kind == "silent":
            silent = await asyncio.start_server(lambda *_: None, "127.0.0.1", world.node_port)
        late = world.client()
        other = geyser_pb2.SubscribeRequest()
        other.blocks_meta["metas"].SetInParent()
        await late.ask(other)
        code, text = await late.end()
        assert code is grpc.StatusCode.UNAVAILABLE and "nothing is charged" in text
        code, text = await client.end()
        assert code is grpc.StatusCode.UNAVAILABLE and "subscribe again with from_slot" in text
        await world.until(lambda: not world.account.held)
        assert world.account.posted == posted
        if silent is not None:
            silent.close()
        if babbling is not None:
            await babbling.stop(None)
        await world.listen_again()


class PlayedCall:
    """A subscription at a node that sends these updates as fast as they are read."""

    def __init__(self, payloads: list[bytes]) -> None:
        self._payloads = iter(payloads)

    def write(self, request: bytes) -> None: ...

    async def read(self) -> list[bytes]:
        for payload in self._payloads:
            return [payload]
        await asyncio.Event().wait()
        raise AssertionError("nothing more comes")

    def fail(self, text: str) -> None: ...

    def close(self) -> None: ...


class PlayedStreams:
    """Streams of one subscription with many names, each of them with what it was sent."""

    def __init__(self, streams: int, updates: int) -> None:
        names = {f"t{number}": f"name {number}" for number in range(600)}
        self._wanted = WantedStream(b"key", names, geyser_pb2.PROCESSED, None)
        numbered = [
            geyser_pb2.SubscribeUpdate(filters=names, block_meta=geyser_pb2.SubscribeUpdateBlockMeta(slot=slot))
            for slot in range(1, updates + 1)
        ]
        payloads = [update.SerializeToString() for update in numbered]

        async def opened() -> Any:
            return PlayedCall(payloads)

        self.feed = GeyserFeed(self._wanted, opened, SystemClock(), 60.0, 60.0)
        self.outboxes = [GeyserOutbox(updates + 1, 1 << 30) for _ in range(streams)]
        self._readers = [self.reader(outbox) for outbox in self.outboxes]
        for reader in self._readers:
            self.feed.join(reader)
            reader.release()

    def reader(self, outbox: GeyserOutbox) -> GeyserReader:
        return GeyserReader(self._wanted, outbox, 1 << 30)

    def replace(self, number: int) -> None:
        """As GeyserStream does with a request that is equal to the one before it."""
        old, new = self._readers[number], self.reader(self.outboxes[number])
        self._readers[number] = new
        self.feed.join(new, old)
        old.stop()
        new.release()
        self.feed.leave(old)

    def waiting(self) -> list[int]:
        return [len(outbox) for outbox in self.outboxes]

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():  # noqa: ASYNC110 - the passes of the loop are what is looked at.
            await asyncio.sleep(0)

    async def sent(self) -> list[list[int]]:
        return [await self.sent_to(outbox) for outbox in self.outboxes]

    async def sent_to(self, outbox: GeyserOutbox) -> list[int]:
        payloads = [await outbox.next() for _ in range(len(outbox))]
        return [geyser_pb2.SubscribeUpdate.FromString(payload).block_meta.slot for payload in payloads]


@pytest.mark.threat(62)
async def test_an_update_is_given_to_some_of_its_streams_at_a_time() -> None:
    """Threat 62: a hundred streams with many names each were given an update in one step."""
    streams = PlayedStreams(100, 3)
    streams.feed.start()
    while min(streams.waiting()) < 3:
        before = sum(streams.waiting())
        await asyncio.sleep(0)
        assert sum(streams.waiting()) - before <= 20
    streams.feed.stop()
    assert await streams.sent() == [[1, 2, 3]] * 100


@pytest.mark.parametrize("seed", range(20))
async def test_filters_replaced_while_an_update_is_given_lose_and_double_nothing(seed: int) -> None:
    """The new filters go on where the old ones stopped, whether or not these had the update already."""
    streams, chance, replaced_between = PlayedStreams(40, 5), random.Random(seed), 0
    streams.feed.start()
    for _ in range(300):
        await asyncio.sleep(0)
        replaced_between += len(set(streams.waiting())) > 1
        for number in chance.sample(range(40), 12):
            streams.replace(number)
    streams.feed.stop()
    assert replaced_between > 5
    assert await streams.sent() == [[1, 2, 3, 4, 5]] * 40


async def test_who_joins_while_an_update_is_given_begins_with_the_next_one() -> None:
    streams = PlayedStreams(40, 2)
    streams.feed.start()
    await streams.until(lambda: max(streams.waiting()) > 0)
    late = GeyserOutbox(10, 1 << 30)
    reader = streams.reader(late)
    streams.feed.join(reader)
    reader.release()
    await streams.until(lambda: min(streams.waiting()) == 2 and len(late) == 1)
    streams.feed.stop()
    assert await streams.sent_to(late) == [2]


@pytest.mark.threat(62)
async def test_feeds_that_lose_the_node_at_once_come_back_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threat 62: each of 2,000 has a call to begin, in the same pass of the loop as the pause is over for all."""
    monkeypatch.setattr(geyser_feed, "_RETRY_SECONDS", 0.05)
    opened = 0

    async def lost() -> Any:
        nonlocal opened
        opened += 1
        raise CallFailed(grpc.StatusCode.UNAVAILABLE, "lost")

    pace, wanted = GeyserPace(), WantedStream(b"key", {"t": "name"}, geyser_pb2.PROCESSED, None)
    feeds = [GeyserFeed(wanted, lost, SystemClock(), 60.0, 60.0, pace=pace) for _ in range(300)]
    for feed in feeds:
        feed.start()
    most = 0
    while opened < 600:
        before = opened
        await asyncio.sleep(0)
        most = max(most, opened - before)
    for feed in feeds:
        feed.stop()
    assert most <= 10
