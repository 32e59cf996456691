"""One operation, two owners, clocks that differ: debited once, refunded once; and requests sent to a wrong owner.

More of it, by way of the shard, is in test_actor.py.
"""

import pytest

from actors.accounts.actor import AccountShard
from actors.accounts.api import (
    AdjustCredits,
    CreditDeposit,
    Describe,
    IssueKey,
    OpenSession,
    OwnerUnavailable,
    PaidTransfer,
    ReadAccount,
    SetLimits,
    SetStatus,
    TakeBackDeposit,
)
from actors.accounts.credits import REFUND_GRACE_SECONDS
from actors.accounts.ledger import EntryType
from actors.units import VirtualShard, routing_bytes, virtual_shard
from tests.accounts.making import ALICE, BOB, hold, operation, settle
from tests.accounts.shards import SHARDS, WallClock, World, ask

DAY = 86_400
UNAVAILABLE = "SERVICE_TEMPORARILY_UNAVAILABLE"


def entries(world: World, kind: EntryType, pubkey: bytes = ALICE) -> list[bytes]:
    return [entry.operation for entry, _ in world.store.rows[pubkey].entries if entry.type == kind]


@pytest.mark.parametrize("behind", [140, 400, DAY, 400 * DAY, -140, -DAY])
async def test_a_former_owner_with_a_wrong_clock_leaves_no_second_debit(world: World, behind: int) -> None:
    """Threat 57: the answer to a settle was lost, and its replica asks the successor again eleven seconds later."""
    former = await world.shard(WallClock(world.clock, -behind))
    proof = await world.customer(former, ALICE, 100)
    held_at = world.clock.now()
    for number in (1, 2):
        former.hold_now(hold(number, 5, proof=proof))
        assert (await ask(former.settle_now, settle(number, 5, held_at=held_at))).ok
    world.clock.advance(11)
    successor = await world.shard()
    assert (await ask(successor.settle_now, settle(1, 5, held_at=held_at))).ok
    assert entries(world, EntryType.DEBIT) == [operation(1), operation(2)]
    assert world.store.rows[ALICE].head.balance == 90
    await former.stop()
    await successor.stop()


@pytest.mark.parametrize("pause", [1, 149, 151, 3_700, 3 * DAY, 40 * DAY])
async def test_an_operation_is_not_debited_again_however_late_it_comes(world: World, pause: int) -> None:
    """By an owner whose memory was lost, and by one that forgot; the replica's clock is as late as its message."""
    owner = await world.shard()
    proof = await world.customer(owner, ALICE, 100)
    for number in (1, 2):
        owner.hold_now(hold(number, 5, proof=proof))
        assert (await ask(owner.settle_now, settle(number, 5))).ok
    assert (await ask(owner.void_now, settle(2, 5))).ok
    world.clock.advance(pause)
    successor = await world.shard()
    for shard in (owner, successor):
        if not (await shard.health())["fenced"]:
            late = world.clock.now()
            settled = [(await ask(shard.settle_now, settle(number, 5, held_at=late))).ok for number in (1, 2)]
            assert settled == [True, False]
    assert entries(world, EntryType.DEBIT) == [operation(1), operation(2)]
    await owner.stop()
    await successor.stop()


async def test_a_refund_is_made_once_though_its_owner_was_behind(world: World) -> None:
    """The mark of the refund carries a time before its entry's; loading the account must not lose it."""
    first = await world.shard()
    proof = await world.customer(first, ALICE, 100)
    first.hold_now(hold(1, 5, proof=proof))
    assert (await ask(first.settle_now, settle(1, 5))).ok
    behind = await world.shard(WallClock(world.clock, -140))
    assert (await ask(behind.void_now, settle(1, 5))).ok
    world.clock.advance(11)
    last = await world.shard()
    assert (await ask(last.void_now, settle(1, 5))).ok
    assert not (await ask(last.settle_now, settle(1, 5))).ok
    assert entries(world, EntryType.REFUND) == [operation(1)]
    for shard in (first, behind, last):
        await shard.stop()


async def test_a_debit_that_only_the_store_remembers_stops_nobody_else(world: World) -> None:
    """The last line of defence: the write is refused, the owner reads the ledger again, and all go on."""
    shard = await world.shard()
    proof = await world.customer(shard, ALICE, 100)
    other = await world.customer(shard, BOB, 100)
    shard.hold_now(hold(1, 5, proof=proof))
    assert (await ask(shard.settle_now, settle(1, 5))).ok
    shard._accounts[ALICE].operations.drop(operation(1))  # As if memory had lost it alone.
    shard.hold_now(hold(1, 5, proof=proof))
    shard.hold_now(hold(2, 5, proof=other))
    with pytest.raises(OwnerUnavailable):
        await ask(shard.settle_now, settle(1, 5))
    while not (await shard.health())["committing"]:
        await world.pauses.end()
    assert (await ask(shard.settle_now, settle(1, 5))).ok
    assert (await ask(shard.settle_now, settle(2, 5, pubkey=BOB))).ok
    assert entries(world, EntryType.DEBIT) == [operation(1)]
    assert entries(world, EntryType.DEBIT, BOB) == [operation(2)]
    await shard.stop()


# --- refunds ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("forgets", [False, True])
@pytest.mark.parametrize("left", [5, REFUND_GRACE_SECONDS + DAY])
async def test_a_refund_keeps_the_expiry_of_its_batch(world: World, left: int, forgets: bool) -> None:
    """A batch that was spent to the last credit: brought back with its date, or for the grace where that is longer. By
    the owner that spent it, and by one that has to ask the store for it."""
    shard = await world.shard()
    proof = await world.customer(shard, ALICE, 100)
    expires_at = world.store.rows[ALICE].batches[1].expires_at
    world.clock.advance(expires_at - left - world.clock.now())
    shard.hold_now(hold(1, 100, proof=proof))
    assert (await ask(shard.settle_now, settle(1, 100, held_at=world.clock.now()))).ok
    if forgets:
        shard._activations.forget([shard._accounts[ALICE]])
    assert (await ask(shard.void_now, settle(1, 100))).ok
    (batch,) = (row for row in world.store.rows[ALICE].batches.values() if row.remaining)
    assert batch.remaining == 100
    assert batch.expires_at == max(expires_at, world.clock.now() + REFUND_GRACE_SECONDS)
    await shard.stop()


# --- the wrong owner ----------------------------------------------------------------------------------------------


async def halves(world: World) -> tuple[AccountShard, AccountShard]:
    """The owner of Alice's account, and the owner of all others."""
    hers = virtual_shard(routing_bytes(ALICE))
    right = await world.shard(shards=[hers])
    wrong = await world.shard(shards=[VirtualShard(shard) for shard in SHARDS if shard != hers])
    return right, wrong


async def test_a_misrouted_settle_is_to_be_asked_again_and_its_receiver_lives(world: World) -> None:
    """Threat 57: it would be refused by the database as a former owner's, which ends the process."""
    right, wrong = await halves(world)
    proof = await world.customer(right, ALICE, 100)
    right.hold_now(hold(1, 5, proof=proof))
    for misrouted in (wrong.settle_now, wrong.void_now):  # Whoever sent it asks again, the right owner by then.
        with pytest.raises(OwnerUnavailable):
            await ask(misrouted, settle(1, 5))
    other = await world.customer(wrong, BOB, 10)
    wrong.hold_now(hold(2, 1, proof=other))
    assert (await ask(wrong.settle_now, settle(2, 1, pubkey=BOB))).ok
    assert not (await wrong.health())["fenced"]
    assert (await ask(right.settle_now, settle(1, 5))).ok
    assert entries(world, EntryType.DEBIT) == [operation(1)]
    await right.stop()
    await wrong.stop()


async def test_a_misrouted_command_is_refused_and_its_receiver_lives(world: World) -> None:
    """Everything else that is asked of an account: nothing is read, written or opened by the wrong owner."""
    right, wrong = await halves(world)
    proof = await world.customer(right, ALICE, 100)
    before = world.store.rows[ALICE].head
    for answer in (
        await wrong.ask(AdjustCredits(ALICE, 5, "misrouted", "misrouted")),
        await wrong.ask(SetStatus(ALICE, "suspended", "misrouted")),
        await wrong.ask(SetLimits(ALICE, 1, 1)),
        await wrong.ask(Describe(ALICE)),
        await wrong.ask(ReadAccount(proof)),
        await wrong.ask(IssueKey(world.wallet(ALICE))),
        await wrong.ask(OpenSession(ALICE, b"challenge", world.clock.now())),
        await wrong.ask(CreditDeposit(ALICE, PaidTransfer(b"s" * 64, 0, 10_000, 7))),
        await wrong.ask(TakeBackDeposit(ALICE, b"s" * 64, 0, "misrouted")),
    ):
        assert answer.refusal == UNAVAILABLE, answer
    assert not (await wrong.health())["fenced"]
    assert world.store.rows[ALICE].head == before
    assert (await right.ask(ReadAccount(proof))).refusal is None
    await right.stop()
    await wrong.stop()
