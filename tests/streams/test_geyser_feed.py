"""One subscription at the node, and what a loss of the node costs: nothing, or a clear end."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from solders.keypair import Keypair

from actors.geyser_proto import api, geyser_pb2
from actors.streams import geyser_feed
from bench.grpc_server import started
from devnode.geyser.filters import read_filter
from devnode.geyser.limits import NO_LIMITS
from devnode.geyser.outbox import Outbox

from .geyser_world import (
    GeyserWorld,
    contents,
    geyser_world,
    settled,
    traffic,
    until_slot,
)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[GeyserWorld]:
    async with geyser_world(tmp_path) as made:
        yield made


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
