"""From events of a chain to updates of subscribers."""

import logging
from itertools import pairwise

import pytest
from solders.keypair import Keypair
from solders.pubkey import Pubkey

from actors.geyser_proto import geyser_pb2, solana_storage_pb2
from devnode.chain.bus import AccountWritten
from devnode.encoding.addresses import SYSVAR_CLOCK
from devnode.faults.plan import CutConnections, Once, read_plan
from devnode.geyser.hub import GrpcHub
from devnode.geyser.refusals import CUT, LAGGED_RECEIVING
from tests.devnode.local_node import ROOT_DEPTH, LocalNode

from .listening import Listener, Request, Streaming, Update, kinds

PROCESSED, CONFIRMED, FINALIZED = geyser_pb2.PROCESSED, geyser_pb2.CONFIRMED, geyser_pb2.FINALIZED
FIRST_SHRED, COMPLETED = geyser_pb2.SLOT_FIRST_SHRED_RECEIVED, geyser_pb2.SLOT_COMPLETED
CREATED_BANK, DEAD = geyser_pb2.SLOT_CREATED_BANK, geyser_pb2.SLOT_DEAD


def everything(level: int = PROCESSED) -> Request:
    request = Request(commitment=level)
    for field in ("accounts", "slots", "transactions", "transactions_status", "blocks", "blocks_meta", "entry"):
        getattr(request, field)["it"].SetInParent()
    request.slots["it"].interslot_updates = True
    request.blocks["it"].include_accounts = True
    request.blocks["it"].include_entries = True
    return request


def statuses(updates: list[Update]) -> list[tuple[int, int]]:
    return [(one.slot.slot, one.slot.status) for one in updates if one.HasField("slot")]


async def test_a_whole_slot_at_processed(streaming: Streaming) -> None:
    """Yellowstone's order: writes and transactions as they happen, then entries, block, block meta, status; then the
    next slot begins."""
    local = streaming.local
    payer = local.wallet()
    slot = local.chain.levels.building.slot
    listener = streaming.listen(everything())
    record = local.land(local.transfer(payer, Keypair().pubkey(), 10**7))
    assert kinds(await listener.updates()) == ["account", "account", "transaction", "transaction_status"]
    local.beat()
    updates = await listener.updates()
    assert kinds(updates) == [
        "account",  # The leader's wallet, with its part of the fee.
        *("slot", "entry", "entry", "block", "block_meta", "slot"),
        *("slot", "slot", "account", "slot", "slot"),
    ]
    assert statuses(updates)[:4] == [
        *((slot, COMPLETED), (slot, PROCESSED)),
        *((slot + 1, FIRST_SHRED), (slot + 1, CREATED_BANK)),
    ]
    sent = updates[4].block
    (reward,) = sent.rewards.rewards
    assert (reward.lamports, reward.reward_type) == (2_500, solana_storage_pb2.RewardType.Fee)
    assert Pubkey.from_string(reward.pubkey) == local.keys.identity.pubkey()
    assert (sent.slot, sent.parent_slot, len(sent.entries)) == (slot, slot - 1, 2)
    assert [one.signature for one in sent.transactions] == [updates[4].block.transactions[0].signature]
    assert sent.transactions[0].index == record.position
    assert updates[9].account.account.pubkey == bytes(SYSVAR_CLOCK)


async def test_first_shred_and_completed_have_no_parent(streaming: Streaming) -> None:
    """As in Yellowstone, all other statuses of a slot name its parent."""
    listener = streaming.listen(everything())
    streaming.local.beat(2, skip=1)
    found = {(one.slot.slot, one.slot.status): one.slot for one in await listener.updates() if one.HasField("slot")}
    for (slot, status), sent in found.items():
        assert sent.HasField("parent") is (status not in (FIRST_SHRED, COMPLETED)), (slot, status)
    newest = max(slot for slot, status in found if status == CREATED_BANK)
    assert found[newest, CREATED_BANK].parent == newest - 2, "one slot was skipped"


@pytest.mark.parametrize("level", [CONFIRMED, FINALIZED])
async def test_contents_are_sent_when_the_slot_reaches_the_level(streaming: Streaming, level: int) -> None:
    """At confirmed and finalized, contents wait for the level; statuses are sent at once."""
    local = streaming.local
    payer = local.wallet()
    slot = local.chain.levels.building.slot
    listener = streaming.listen(everything(level))
    local.land(local.transfer(payer, Keypair().pubkey(), 10**7))
    assert await listener.updates() == []
    local.beat(1 if level == CONFIRMED else ROOT_DEPTH)
    updates = await listener.updates()
    at = statuses(updates).index((slot, level))
    assert (slot, PROCESSED) in statuses(updates)[:at]
    of_slot = [one for one in updates if slot in (one.block.slot, one.account.slot, one.transaction.slot)]
    assert [kind for kind in kinds(of_slot) if kind != "account"] == ["transaction", "block"]
    before = updates[
        : updates.index(next(one for one in updates if one.slot.slot == slot and one.slot.status == level))
    ]
    assert all(one in before for one in of_slot)


async def test_processed_has_every_write_and_confirmed_the_last(streaming: Streaming) -> None:
    """Two transfers to one account in a slot are two updates at processed, one at confirmed, one in the block."""
    local = streaming.local
    payer, receiver = local.wallet(), Keypair().pubkey()
    now, later = (Request(commitment=level) for level in (PROCESSED, CONFIRMED))
    for request in (now, later):
        request.accounts["it"].account.append(str(receiver))
    blocks = Request()
    blocks.blocks["it"].include_accounts = True
    blocks.blocks["it"].account_include.append(str(receiver))
    listeners = [streaming.listen(request) for request in (now, later, blocks)]
    for lamports in (10**7, 2 * 10**7):
        local.land(local.transfer(payer, receiver, lamports))
    local.beat()
    first, second, third = [await listener.updates() for listener in listeners]
    assert [one.account.account.lamports for one in first] == [10**7, 3 * 10**7]
    assert [one.account.account.lamports for one in second] == [3 * 10**7]
    assert [[acc.lamports for acc in one.block.accounts] for one in third] == [[3 * 10**7]]
    versions = [one.account.account.write_version for one in first]
    assert versions[0] < versions[1] == second[0].account.account.write_version


async def test_all_levels_have_the_same_transactions(streaming: Streaming) -> None:
    """Each level has every transaction once, in the same order."""
    local = streaming.local
    payer = local.wallet()
    listeners = [streaming.listen(everything(level)) for level in (PROCESSED, CONFIRMED, FINALIZED)]
    for number in range(6):
        local.land(local.transfer(payer, Keypair().pubkey(), 10**7 + number))
        if number % 2:
            local.beat()
    local.finalize()
    sent = [
        [one.transaction.transaction.signature for one in await listener.updates() if one.HasField("transaction")]
        for listener in listeners
    ]
    assert len(set(sent[0])) == 6
    assert sent[0] == sent[1] == sent[2]


async def test_each_subscriber_gets_only_matching_updates(streaming: Streaming) -> None:
    """Two subscribers have different filters, and a third has none."""
    local = streaming.local
    payer, other = local.wallet(), local.wallet()
    mine, theirs = Keypair().pubkey(), Keypair().pubkey()
    request, idle = Request(), streaming.listen()
    request.transactions["mine"].account_include.append(str(mine))
    request.accounts["theirs"].account.append(str(theirs))
    listener, unfiltered = streaming.listen(request), streaming.listen(everything())
    wanted = local.land(local.transfer(payer, mine, 10**7))
    local.land(local.transfer(other, theirs, 10**7))
    local.beat()
    updates = await listener.updates()
    assert [(list(one.filters), kind) for one, kind in zip(updates, kinds(updates), strict=True)] == [
        (["mine"], "transaction"),
        (["theirs"], "account"),
    ]
    assert updates[0].transaction.transaction.index == wanted.position
    assert await idle.updates() == []
    assert len(await unfiltered.updates()) > 10


async def test_a_later_request_replaces_all_filters(streaming: Streaming) -> None:
    """Earlier events go to the old filters, later ones to the new filters."""
    local = streaming.local
    payer = local.wallet()
    listener = streaming.listen(everything())
    local.land(local.transfer(payer, Keypair().pubkey(), 10**7))
    blocks = Request()
    blocks.blocks_meta["metas"].SetInParent()
    listener.ask(blocks)
    local.land(local.transfer(payer, Keypair().pubkey(), 10**7 + 1))
    local.beat()
    assert kinds(await listener.updates()) == ["account", "account", "transaction", "transaction_status", "block_meta"]
    listener.ask(Request())
    local.beat()
    assert await listener.updates() == []


async def test_a_subscriber_that_left_gets_no_update(streaming: Streaming) -> None:
    """Leaving twice changes nothing."""
    listener = streaming.listen(everything())
    streaming.hub.leave(listener.subscription)
    streaming.hub.leave(listener.subscription)
    streaming.local.beat()
    assert await listener.updates() == []


async def test_slots_before_the_hub_have_statuses_only(local: LocalNode) -> None:
    """The hub has no contents of slots before its start; their parents come from the archive."""
    listener = Streaming(local).listen(everything(FINALIZED))
    slot = local.chain.levels.building.slot
    local.beat()
    updates = [one for one in await listener.updates() if one.slot.slot < slot and one.HasField("slot")]
    assert [one.slot.status for one in updates] == [FINALIZED]
    assert updates[0].slot.parent == updates[0].slot.slot - 1


async def test_a_lost_fork_is_never_confirmed(streaming: Streaming) -> None:
    """Its transaction is sent at processed and never at the other levels."""
    local = streaming.local
    payer = local.wallet()
    slot = local.chain.levels.building.slot
    now, later = streaming.listen(everything()), streaming.listen(everything(CONFIRMED))
    local.land(local.transfer(payer, Keypair().pubkey(), 10**7))
    local.lose()
    local.finalize()
    assert "transaction" in kinds(await now.updates())
    updates = await later.updates()
    assert "transaction" not in kinds(updates)
    assert (slot, PROCESSED) in statuses(updates) and (slot, CONFIRMED) not in statuses(updates)
    metas = [one.block_meta for one in updates if one.HasField("block_meta")]
    assert all(a.slot == b.parent_slot for a, b in pairwise(metas))
    assert slot not in [meta.slot for meta in metas]


async def test_a_dead_slot_has_a_status_with_the_reason(streaming: Streaming) -> None:
    """It has no block, and only filters with interslot_updates get the status."""
    local = streaming.local
    slot = local.chain.levels.building.slot
    plain = Request()
    plain.slots["it"].SetInParent()
    listener, coarse = streaming.listen(everything()), streaming.listen(plain)
    local.lose(is_dead=True)
    updates = await listener.updates()
    (dead,) = [one.slot for one in updates if one.slot.status == DEAD]
    assert dead.slot == slot and "invalid" in dead.dead_error
    assert "block" not in kinds(updates)
    assert slot not in [found for found, _ in statuses(await coarse.updates())]


async def test_a_silent_stream_loses_updates(streaming: Streaming) -> None:
    """Subscribers get no update and no error; after the fault ends, updates continue."""
    local = streaming.local
    listener = streaming.listen(everything())
    local.node.faults.set(read_plan({"streams": {"grpc": {"silent": True}}}))
    local.beat(2)
    assert await listener.updates() == []
    local.node.faults.set(read_plan({}))
    local.beat()
    assert "block" in kinds(await listener.updates())


async def test_a_hub_that_falls_behind_ends_every_stream(
    streaming: Streaming, caplog: pytest.LogCaptureFixture
) -> None:
    """Every stream ends with an error; a new subscriber gets contents from the next slot on."""
    local, hub = streaming.local, streaming.hub
    first, second = streaming.listen(everything()), streaming.listen()
    event = AccountWritten(local.chain.levels.building.slot, SYSVAR_CLOCK, None, 0, None)
    with caplog.at_level(logging.WARNING, logger="devnode"):
        for _ in range(100_001):
            local.chain.bus.publish(event)
        hub.pump()
    assert "fell behind" in caplog.text
    for listener in (first, second):
        assert await listener.end() == LAGGED_RECEIVING
    again = streaming.listen(everything())
    local.beat()
    assert "block" not in kinds(await again.updates()), "the hub has only a part of this slot"
    local.beat()
    assert "block" in kinds(await again.updates())


async def test_a_cut_ends_every_stream_without_its_queued_updates(streaming: Streaming) -> None:
    """As a broken connection does: UNAVAILABLE; the other kind of stream is not touched."""
    first, second = streaming.listen(everything()), streaming.listen()
    assert streaming.hub.counts() == {"streams": 2, "filters": 7}
    streaming.local.beat(2)
    streaming.hub.pump()
    assert len(first.subscription.outbox) > 0
    streaming.local.node.faults.do_once(Once(cut_connections=CutConnections(pubsub=True)))
    assert not first.subscription.outbox.is_ended
    streaming.local.node.faults.do_once(Once(cut_connections=CutConnections(grpc=True)))
    assert len(first.subscription.outbox) == 0
    for listener in (first, second):
        assert await listener.end() == CUT
        streaming.hub.leave(listener.subscription)
    assert streaming.hub.counts() == {"streams": 0, "filters": 0}


async def test_a_slow_subscriber_alone_is_ended(streaming: Streaming) -> None:
    """Other subscribers still get updates."""
    slow, fast = streaming.listen(everything(), updates_max=3), streaming.listen(everything())
    streaming.local.beat(2)
    streaming.hub.pump()
    assert slow.subscription.outbox.is_ended
    assert len(await slow.updates()) == 3
    assert len(await fast.updates()) > 3


def test_updates_without_subscribers_are_not_encoded(streaming: Streaming, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub always listens, because a client may ask for a replay; without subscribers it must be cheap."""
    local = streaming.local

    def encode(*_: object) -> bytes:
        raise AssertionError("there is no subscriber")

    monkeypatch.setattr("devnode.geyser.messages.Update.payload", encode)
    local.land(local.transfer(local.wallet(), Keypair().pubkey(), 10**7))
    local.finalize()
    streaming.hub.pump()
    assert isinstance(streaming.hub, GrpcHub) and streaming.hub.logs.first_slot is not None
    _ = Listener(streaming.hub)
    local.beat()
    streaming.hub.pump()
