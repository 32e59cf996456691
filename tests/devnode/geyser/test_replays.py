"""One subscriber with and without a replay of past slots, while the chain goes on."""

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from solders.keypair import Keypair

from actors.geyser_proto import geyser_pb2
from devnode.geyser.filters import LEVELS as COMMITMENTS
from devnode.geyser.filters import Filter, SlotFilter
from devnode.geyser.messages import SlotUpdate
from devnode.geyser.outbox import Outbox
from devnode.geyser.refusals import NO_REPLAY, NOTHING_TO_REPLAY, no_longer_available
from devnode.geyser.replays import GrpcSubscription
from tests.devnode.local_node import ROOT_DEPTH, LocalNode

from .listening import Listener, Request, Streaming, Update, kinds
from .samples import CREATED_MS
from .test_hub import everything

ACCOUNTS_AND_SLOTS = Filter(slots=(SlotFilter("it", False, False),))


def status(slot: int) -> SlotUpdate:
    return SlotUpdate(slot, slot - 1, geyser_pb2.SLOT_CONFIRMED, CREATED_MS)


def test_during_a_replay_only_replayed_slots_have_live_statuses() -> None:
    """The status of a slot that is not replayed yet comes with its replay."""
    subscription = GrpcSubscription(Outbox())
    subscription.subscribe(ACCOUNTS_AND_SLOTS, 5)
    subscription.send(status(5))
    assert len(subscription.outbox) == 0
    subscription.send_replayed(status(5))
    subscription.replayed(5)
    subscription.send(status(5))
    subscription.send(status(6))
    assert len(subscription.outbox) == 2
    subscription.end_replay()
    subscription.send(status(6))
    assert len(subscription.outbox) == 3


LEVELS = [geyser_pb2.PROCESSED, geyser_pb2.CONFIRMED, geyser_pb2.FINALIZED]


async def settled(listener: Listener) -> list[Update]:
    """Wait for the end of the replay and take all its updates."""
    for _ in range(200):  # The replay needs at most one turn of the loop for each slot.
        await asyncio.sleep(0)
    assert listener.subscription.replayed_slot is None
    return await listener.updates()


def without_times(updates: list[Update]) -> list[bytes]:
    for one in updates:
        one.ClearField("created_at")
    return [one.SerializeToString(deterministic=True) for one in updates]


def busy(local: LocalNode, slots: int) -> None:
    """Seal slots with one transfer each."""
    payer = local.wallet()
    for _ in range(slots):
        local.land(local.transfer(payer, Keypair().pubkey(), 10**7))
        local.beat()


@pytest.mark.parametrize("level", LEVELS)
async def test_a_replay_equals_the_live_updates(streaming: Streaming, level: int) -> None:
    """Each slot has the same contents in the same order; at processed, this chain writes no account twice in a slot."""
    local = streaming.local
    then = streaming.listen(everything(level))
    busy(local, 4)
    local.finalize()
    lived = await then.updates()
    request = everything(level)
    first = request.from_slot = streaming.hub.logs.first_slot or 0
    again = await settled(streaming.listen(request))
    contents = [one for one in lived if not one.HasField("slot")]
    replayed = [one for one in again if not one.HasField("slot")]
    assert without_times(contents) == without_times(replayed)
    assert len(contents) > 20 and first > 0
    # Every status comes once, behind the contents of its slot.
    assert sorted(without_times([one for one in again if one.HasField("slot")])) == sorted(
        without_times([one for one in lived if one.HasField("slot") and one.slot.slot >= first])
    )


async def test_within_a_slot_statuses_come_last(streaming: Streaming) -> None:
    """A replay has Yellowstone's order."""
    local = streaming.local
    busy(local, 1)
    local.finalize()
    request = everything()
    request.from_slot = streaming.hub.logs.first_slot or 0
    updates = await settled(streaming.listen(request))
    slots = [
        one.slot.slot or one.block_meta.slot for one in updates if one.HasField("slot") or one.HasField("block_meta")
    ]
    assert slots == sorted(slots)
    at = kinds(updates).index("block_meta")
    assert kinds(updates)[at - 1 : at + 2] == ["block", "block_meta", "slot"]


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=st.integers(1, 6), steps=st.lists(st.integers(0, 3), max_size=8), level=st.sampled_from(LEVELS))
async def test_no_update_is_missed_or_repeated(streaming: Streaming, before: int, steps: list[int], level: int) -> None:
    """While slots are sealed during the replay, each block still comes once, in order, without a gap."""
    local, hub = streaming.local, streaming.hub
    local.beat(before)
    hub.pump()
    request = everything(level)
    reached = hub.logs.next_after(-1, COMMITMENTS[level])
    request.from_slot = hub.logs.first_slot or 0
    listener = streaming.listen(request)
    if reached is None:
        assert await listener.end() == NOTHING_TO_REPLAY
        return
    updates = await listener.updates()
    for beats in steps:
        local.beat(beats)
        hub.pump()
        await asyncio.sleep(0)
        updates += await listener.updates()
    updates += await settled(listener)
    local.finalize()
    updates += await listener.updates()
    slots = [one.block_meta.slot for one in updates if one.HasField("block_meta")]
    assert slots == list(range(request.from_slot, slots[-1] + 1))
    statuses = [(one.slot.slot, one.slot.status) for one in updates if one.HasField("slot")]
    assert len(statuses) == len(set(statuses))
    newest = local.chain.levels.building.slot - 1
    assert {slot for slot, status in statuses if status == geyser_pb2.SLOT_CONFIRMED} >= set(
        range(request.from_slot, newest + 1)
    )


async def test_a_replay_of_the_slot_being_built_goes_on_live(streaming: Streaming) -> None:
    """The first updates of the slot come from its log, the others live."""
    local = streaming.local
    payer = local.wallet()
    local.land(local.transfer(payer, Keypair().pubkey(), 10**7))
    request = Request(from_slot=local.chain.levels.building.slot)
    request.transactions["it"].SetInParent()
    listener = streaming.listen(request)
    local.land(local.transfer(payer, Keypair().pubkey(), 10**7 + 1))
    streaming.hub.pump()
    again = await settled(listener)
    local.land(local.transfer(payer, Keypair().pubkey(), 10**7 + 2))
    found = [one.transaction.transaction.index for one in again + await listener.updates()]
    assert found == [0, 1, 2]


async def test_a_replay_before_the_oldest_slot_is_refused(streaming: Streaming) -> None:
    """The error names the oldest slot."""
    first = streaming.hub.logs.first_slot or 0
    request = everything()
    request.from_slot = first - 1
    assert await streaming.listen(request).end() == no_longer_available(first - 1, first)


async def test_a_replay_from_a_future_slot_is_refused(streaming: Streaming) -> None:
    """A slot must have reached the level: a slot that is only processed is refused at finalized."""
    slot = streaming.local.chain.levels.building.slot
    for level, at in ((geyser_pb2.PROCESSED, slot + 1), (geyser_pb2.FINALIZED, slot)):
        request = everything(level)
        request.from_slot = at
        assert await streaming.listen(request).end() == NOTHING_TO_REPLAY


async def test_replay_can_be_switched_off(local: LocalNode) -> None:
    """With replay_slots=0 every replay is refused."""
    streaming = Streaming(local, replay_slots=0)
    request = everything()
    request.from_slot = local.chain.levels.building.slot
    assert await streaming.listen(request).end() == NO_REPLAY


async def test_old_slots_are_dropped(local: LocalNode) -> None:
    """The set number of slots is kept, with the one being built."""
    streaming = Streaming(local, replay_slots=6)
    local.beat(20)
    streaming.hub.pump()
    # The oldest slot is dropped when one becomes final, after the newest was opened.
    assert local.chain.levels.building.slot - (streaming.hub.logs.first_slot or 0) + 1 == 6 >= ROOT_DEPTH


async def test_another_request_ends_a_replay(streaming: Streaming) -> None:
    """The new request's filters hold from then on."""
    local = streaming.local
    busy(local, 3)
    local.finalize()
    request = everything()
    request.from_slot = streaming.hub.logs.first_slot or 0
    listener = streaming.listen(request)
    metas = Request()
    metas.blocks_meta["it"].SetInParent()
    listener.ask(metas)
    await asyncio.sleep(0)
    local.beat()
    assert kinds(await listener.updates()) == ["block_meta"]


async def test_slots_are_kept_for_a_running_replay(local: LocalNode) -> None:
    """Slots that the replay still needs are kept, and dropped when it has sent them."""
    streaming = Streaming(local, replay_slots=8)
    local.beat(20)
    streaming.hub.pump()
    first = streaming.hub.logs.first_slot or 0
    request = Request(from_slot=first)
    request.blocks_meta["it"].SetInParent()
    listener = streaming.listen(request)
    local.beat(20)
    streaming.hub.pump()
    assert streaming.hub.logs.first_slot == first
    updates = await settled(listener)
    newest = local.chain.levels.building.slot
    assert [one.block_meta.slot for one in updates] == list(range(first, newest))
    local.beat()
    streaming.hub.pump()
    assert (streaming.hub.logs.first_slot or 0) > first


@pytest.mark.parametrize("ends", ["leave", "ask"])
async def test_a_cancelled_replay_keeps_no_slots(local: LocalNode, ends: str) -> None:
    """A task that is cancelled before its first turn never runs, so its hold must end without it."""
    streaming = Streaming(local, replay_slots=8)
    local.beat(20)
    streaming.hub.pump()
    first = streaming.hub.logs.first_slot or 0
    listener = streaming.listen(Request(from_slot=first))
    if ends == "leave":
        streaming.hub.leave(listener.subscription)
    else:
        listener.ask(Request())
    local.beat(5)
    streaming.hub.pump()
    assert streaming.hub.logs.first_slot == first + 5


async def test_a_lost_fork_has_its_statuses_only(streaming: Streaming) -> None:
    """At confirmed, a replay has no transactions of a lost fork, as live."""
    local = streaming.local
    payer = local.wallet()
    slot = local.chain.levels.building.slot
    then = streaming.listen(everything(geyser_pb2.CONFIRMED))
    local.land(local.transfer(payer, Keypair().pubkey(), 10**7))
    local.lose()
    local.beat(2)
    lived = [one.slot.status for one in await then.updates() if one.HasField("slot") and one.slot.slot == slot]
    request = everything(geyser_pb2.CONFIRMED)
    request.from_slot = slot - 1
    updates = await settled(streaming.listen(request))
    replayed = [one.slot.status for one in updates if one.HasField("slot") and one.slot.slot == slot]
    assert [status for status in replayed if status in lived] == lived
    assert "transaction" not in kinds(updates)
