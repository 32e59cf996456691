"""from_slot from the hub's window: each update once and then live ones, whatever the chain does meanwhile."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from solders.keypair import Keypair

from actors.geyser_proto import api, geyser_pb2
from tests.streams.geyser_world import Client, GeyserWorld, everything, geyser_world, settled

LEVELS = {
    geyser_pb2.PROCESSED: geyser_pb2.SLOT_PROCESSED,
    geyser_pb2.CONFIRMED: geyser_pb2.SLOT_CONFIRMED,
    geyser_pb2.FINALIZED: geyser_pb2.SLOT_FINALIZED,
}


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[GeyserWorld]:
    async with geyser_world(tmp_path, keeps_window=True) as made:
        await made.until(lambda: made.source.window.first_slot is not None)  # type: ignore[union-attr]
        yield made


@contextlib.asynccontextmanager
async def busy(world: GeyserWorld) -> AsyncIterator[None]:
    """A chain with a payment in each slot, which goes on."""
    payer = world.local.wallet(10**12)

    async def go_on() -> None:
        while True:
            for _ in range(2):
                world.local.land(world.local.transfer(payer, Keypair().pubkey(), 10**7))
                await asyncio.sleep(0.002)
            world.local.beat()
            await asyncio.sleep(0.005)

    going = asyncio.create_task(go_on())
    try:
        yield
    finally:
        going.cancel()
        await asyncio.gather(going, return_exceptions=True)


def key(update: Any) -> tuple[Any, ...]:
    """An update by its content. A replay has the last write of each account in a slot, so a write is its account."""
    kind = update.WhichOneof("update_oneof")
    copy = geyser_pb2.SubscribeUpdate()
    copy.CopyFrom(update)
    copy.ClearField("created_at")
    if kind == "account":
        return kind, copy.account.slot, tuple(copy.filters), copy.account.account.pubkey
    return kind, getattr(copy, kind).slot, tuple(copy.filters), copy.SerializeToString(deterministic=True)


async def read_until(client: Client, slot: int) -> list[Any]:
    """All updates, up to the final status of this slot."""
    found: list[Any] = []
    async with asyncio.timeout(60):
        while True:
            update = await client.next()
            assert not isinstance(update, tuple), update
            found.append(update)
            if update.slot.slot == slot and update.slot.status == geyser_pb2.SLOT_FINALIZED:
                return found


@pytest.mark.parametrize("level", LEVELS)
async def test_a_replay_has_every_update_once_and_goes_on_live(world: GeyserWorld, level: Any) -> None:
    """Against a client that has been at the node itself all the time: none missing, none extra, none twice, for clients
    that come while the chain goes on; the content of a slot comes before its status."""
    direct = world.direct()
    await direct.ask(everything(level))
    await settled(world, direct)
    start = world.local.chain.levels.building.slot + 1
    clients = []
    async with busy(world):
        for number in range(4):
            await asyncio.sleep(0.05)
            client = world.client()
            request = everything(level)
            request.from_slot = start + number
            await client.ask(request)
            clients.append(client)
        last = start + 15
        wanted = await read_until(direct, last)
        got = [await read_until(client, last) for client in clients]
    for number, updates in enumerate(got):
        first = start + number
        expected = {key(one) for one in wanted if first <= key(one)[1] <= last}
        found = Counter(key(one) for one in updates if first <= key(one)[1] <= last)
        assert expected - found.keys() == set() and found.keys() - expected == set()
        writes_apart = {one: count for one, count in found.items() if one[0] != "account" and count > 1}
        assert writes_apart == {}
        ended: set[int] = set()
        for update in updates:
            kind, slot = key(update)[:2]
            if kind == "slot":
                ended |= {slot} if update.slot.status == LEVELS[level] else set()
            elif first <= slot <= last:
                assert slot not in ended, (kind, slot)
    assert world.feeds.feeds_open == 1, "clients that have caught up share one subscription at the node"
    assert world.account.posted == {"grpc/Subscribe": 4}


async def test_bounds_are_true_and_what_is_older_is_refused(world: GeyserWorld) -> None:
    """SubscribeReplayInfo names the first slot that can be had; the slot before it is refused with Yellowstone's text,
    and costs nothing."""
    info = await world.call(api.SUBSCRIBE_REPLAY_INFO, geyser_pb2.SubscribeReplayInfoRequest())
    request = everything()
    request.from_slot = info.first_available
    client = world.client()
    await client.ask(request)
    await world.until(lambda: client.arrived > 50)
    slots = {key(await client.next())[1] for _ in range(50)}
    assert min(slots) == info.first_available
    posted = dict(world.account.posted)
    refused = world.client()
    request.from_slot = info.first_available - 1
    await refused.ask(request)
    code, text = await refused.end()
    assert code is grpc.StatusCode.OUT_OF_RANGE
    wanted = f"broadcast from {info.first_available - 1} is not available, last available: {info.first_available}"
    assert text == wanted
    assert world.account.posted == posted


async def test_a_loss_of_the_node_is_filled_or_ends_the_window(world: GeyserWorld) -> None:
    """Honest after a break: what the node can replay is filled, and a client's replay over the break misses nothing;
    what it cannot ends the window, so that a slot before the hole is refused."""
    assert world.source is not None
    start = world.local.chain.levels.building.slot + 1
    world.local.beat(3)
    await world.until(lambda: world.source.window.last_slot >= start + 2)  # type: ignore[union-attr]
    await world.stop_node()
    payer = world.local.wallet()
    landed = []
    for _ in range(5):
        landed.append(world.local.land(world.local.transfer(payer, Keypair().pubkey(), 10**7)).signature)
        world.local.beat()
    await world.listen_again()
    last = world.local.chain.levels.building.slot - 1
    await world.until(lambda: world.source.window.last_slot > last)  # type: ignore[union-attr]
    client = world.client()
    request = everything()
    request.from_slot = start
    await client.ask(request)
    async with busy(world):
        updates = await read_until(client, last)
    metas = [one.block_meta.slot for one in updates if one.HasField("block_meta")]
    assert metas[: last - start] == list(range(start, last))
    assert len({one.transaction.transaction.signature for one in updates if one.HasField("transaction")}) >= len(landed)
    await world.stop_node()
    world.local.beat(200)  # More than the node keeps.
    await world.listen_again()
    gone = world.source.window.first_slot
    await world.until(lambda: (world.source.window.first_slot or 0) > last)  # type: ignore[union-attr]
    assert gone is not None and gone <= start
    refused = world.client()
    await refused.ask(request)
    code, text = await refused.end()
    assert code is grpc.StatusCode.OUT_OF_RANGE and f"broadcast from {start} is not available" in text


async def test_a_request_during_a_replay_replaces_it(world: GeyserWorld) -> None:
    """As at the node: the replay stops, and the new filters apply from now on."""
    async with busy(world):
        client = world.client()
        request = everything()
        request.from_slot = world.source.window.first_slot  # type: ignore[union-attr,assignment]
        await client.ask(request)
        only = geyser_pb2.SubscribeRequest()
        only.blocks_meta["only metas"].SetInParent()
        await client.ask(only)
        await client.until_pong(1)
        metas = [await client.next() for _ in range(5)]
    assert {tuple(one.filters) for one in metas} == {("only metas",)}
    slots = [one.block_meta.slot for one in metas]
    assert slots == list(range(slots[0], slots[0] + 5))


async def test_each_replay_on_an_open_stream_costs_a_credit(world: GeyserWorld) -> None:
    """Threat 62: a replacement with from_slot makes the replica evaluate all past slots anew."""
    first = world.source.window.first_slot  # type: ignore[union-attr]
    client = world.client()
    await client.ask(everything())
    await settled(world, client)
    assert world.account.posted == {"grpc/Subscribe": 1}
    for number in range(2):
        await client.ask(geyser_pb2.SubscribeRequest(from_slot=first, slots=everything().slots))
        await client.until_pong(number + 1)
    assert world.account.posted == {"grpc/Subscribe": 3}
    await client.ask(geyser_pb2.SubscribeRequest(slots=everything().slots))
    await client.until_pong(3)
    assert world.account.posted == {"grpc/Subscribe": 3} and world.account.held == {}


@pytest.mark.parametrize("level", LEVELS)
async def test_a_stream_of_a_process_that_leaves_goes_on_elsewhere_without_a_gap(
    world: GeyserWorld, level: Any
) -> None:
    """It ends after what was queued, with UNAVAILABLE and a slot, in text and metadata. From there on the next stream
    has what is missing; what it has twice is of that slot and later ones, so that a client can leave it out."""
    direct, before = world.direct(), world.client()
    for client in (direct, before):
        await client.ask(everything(level))
        await settled(world, client)
    start = world.local.chain.levels.building.slot + 1
    async with busy(world):
        had = await read_until(before, start + 5)
        world.service.end_some(1)
        assert world.service.left == 0
        while not isinstance(update := await before.next(), tuple):
            had.append(update)
        code, text = update
        slot = int(dict(await before.call.trailing_metadata())["x-resume-from-slot"])
        assert code is grpc.StatusCode.UNAVAILABLE and f"subscribe again with from_slot {slot}, and leave out" in text
        after, request = world.client(), everything(level)
        request.from_slot = slot
        await after.ask(request)
        last = start + 20
        wanted, got = await read_until(direct, last), await read_until(after, last)
    first, again = ({key(one) for one in updates} for updates in (had, got))
    expected = {key(one) for one in wanted if start <= key(one)[1] <= last}
    assert {one for one in first | again if start <= one[1] <= last} == expected
    assert all(one[1] >= slot for one in again) and start < slot
    assert sum(world.account.posted.values()) == 2, "a credit for each stream, and no minute"
