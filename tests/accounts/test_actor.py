import asyncio
import logging

import msgspec
import pytest

from actors.accounts.actor import AccountShard
from actors.accounts.api import AdjustCredits, OwnerUnavailable, ReadAccount
from actors.accounts.ledger import EntryType
from actors.calls import HoldReply
from actors.telemetry.logs import name_request
from actors.units import Credits
from tests.accounts.making import ALICE, BOB, hold, operation, settle
from tests.accounts.shards import World, answered, ask, run_ready

UNAVAILABLE = "SERVICE_TEMPORARILY_UNAVAILABLE"


def debits(world: World, pubkey: bytes = ALICE) -> list[bytes]:
    return [entry.operation for entry, _ in world.store.rows[pubkey].entries if entry.type == EntryType.DEBIT]


def balance(world: World, pubkey: bytes = ALICE) -> int:
    return world.store.rows[pubkey].head.balance


async def test_calls_in_memory_are_answered_without_a_task(world: World, shard: AccountShard) -> None:
    """The hot path: plain values, and one future for all settles that gather."""
    proof = await world.customer(shard, ALICE, 100)
    first = shard.hold_now(hold(1, 5, proof=proof))
    assert isinstance(first, HoldReply) and first.verdicts == (None,)
    assert first.figures is not None and first.figures.credits_remaining == 95
    shard.hold_now(hold(2, 5, proof=proof))
    one, two = shard.settle_now(settle(1, 5)), shard.settle_now(settle(2, 3, ceiling=5))
    assert isinstance(one, tuple) and isinstance(two, tuple)
    assert one[1] is two[1] and one[1] is not None and not one[1].done()
    writes = world.store.writes
    assert (await answered(one)).ok and (await answered(two)).credits_remaining == 92
    assert world.store.writes == writes + 1


async def test_an_answer_waits_for_the_ledger(world: World, shard: AccountShard) -> None:
    """Money rule 1: posted, durably, before the answer leaves; and a release waits for nothing."""
    proof = await world.customer(shard, ALICE, 100)
    world.store.gate = asyncio.Event()
    shard.hold_now(hold(1, 5, proof=proof))
    shard.hold_now(hold(2, 5, proof=proof))
    posted, released = shard.settle_now(settle(1, 5)), shard.settle_now(settle(2, 0, ceiling=5))
    assert isinstance(posted, tuple) and isinstance(released, tuple)
    await run_ready()
    assert posted[1] is not None and not posted[1].done()
    assert balance(world) == 100
    world.store.gate.set()
    assert (await answered(posted)).ok and balance(world) == 95
    assert debits(world) == [operation(1)]


async def test_the_same_settle_twice_posts_once(world: World, shard: AccountShard) -> None:
    """Threat 19: asked again, the recorded result, also while its group is still on the way."""
    proof = await world.customer(shard, ALICE, 100)
    shard.hold_now(hold(1, 5, proof=proof))
    world.store.gate = asyncio.Event()
    first = shard.settle_now(settle(1, 5))
    await run_ready()
    again = shard.settle_now(settle(1, 5))
    assert isinstance(first, tuple) and isinstance(again, tuple)
    assert again[1] is first[1]  # In flight: both wait for the same.
    world.store.gate.set()
    assert (await answered(again)).ok
    assert (await ask(shard.settle_now, settle(1, 5))).ok
    assert debits(world) == [operation(1)]


async def test_a_failed_commit_answers_nobody_and_resumes_from_the_ledger(world: World, shard: AccountShard) -> None:
    """Threat 41: memory that was ahead is dropped; asked again, the ledger's word counts."""
    proof = await world.customer(shard, ALICE, 100)
    epoch = (await shard.health())["epoch"]
    shard.hold_now(hold(1, 5, proof=proof))
    world.store.fail = ["before"]
    with pytest.raises(OwnerUnavailable):
        await ask(shard.settle_now, settle(1, 5))
    await run_ready()
    assert (await shard.health()) | {"accounts": 0} == await shard.health()
    assert (await shard.health())["epoch"] > epoch
    assert balance(world) == 100
    assert (await ask(shard.settle_now, settle(1, 5))).ok
    assert (balance(world), debits(world)) == (95, [operation(1)])


async def test_a_commit_whose_end_is_unknown_is_not_made_twice(world: World, shard: AccountShard) -> None:
    """The write was made and its answer lost: asked again, it counts as posted, once."""
    proof = await world.customer(shard, ALICE, 100)
    shard.hold_now(hold(1, 5, proof=proof))
    world.store.fail = ["after"]
    with pytest.raises(OwnerUnavailable):
        await ask(shard.settle_now, settle(1, 5))
    await run_ready()
    assert (await ask(shard.settle_now, settle(1, 5))).ok
    assert (balance(world), debits(world)) == (95, [operation(1)])


async def test_what_gathered_behind_a_failed_commit_fails_with_it(world: World, shard: AccountShard) -> None:
    proof = await world.customer(shard, ALICE, 100)
    other = await world.customer(shard, BOB, 100)
    world.store.gate = asyncio.Event()
    world.store.fail = ["before"]
    for number in (1, 2):
        shard.hold_now(hold(number, 5, proof=proof))
    shard.hold_now(hold(3, 5, proof=other))
    flying = shard.settle_now(settle(1, 5))
    await run_ready()
    behind = shard.settle_now(settle(2, 5))
    world.store.gate.set()
    for result in (flying, behind):
        with pytest.raises(OwnerUnavailable):
            await answered(result)
    await run_ready()
    # An account that had nothing unwritten keeps what it holds.
    reply = shard.hold_now(hold(3, 5, proof=other))
    assert isinstance(reply, HoldReply) and reply.figures is not None and reply.figures.credits_remaining == 95
    for number in (1, 2):
        assert (await ask(shard.settle_now, settle(number, 5))).ok
    assert sorted(debits(world)) == [operation(1), operation(2)]


async def test_a_broken_invariant_is_rebuilt_from_the_ledger(world: World, shard: AccountShard) -> None:
    """Style, "Errors": what broke is not trusted any more; what was on its way before stands; nobody must restart
    it."""
    proof = await world.customer(shard, ALICE, 100)
    other = await world.customer(shard, BOB, 100)
    for number in (1, 2):
        shard.hold_now(hold(number, 5, proof=proof))
    shard.hold_now(hold(3, 5, proof=other))
    world.store.gate = asyncio.Event()
    flying = shard.settle_now(settle(3, 5, pubkey=BOB))
    await run_ready()
    shard._accounts[ALICE].purse.batches[0].remaining = Credits(3)  # As if a bit had flipped.
    broken = shard.settle_now(settle(1, 5))
    with pytest.raises(OwnerUnavailable):
        await answered(broken)
    assert (await ask(shard.hold_now, hold(4, 5, proof=other))).refusal == UNAVAILABLE
    world.store.gate.set()
    assert (await answered(flying)).ok
    await run_ready()
    assert (await ask(shard.settle_now, settle(1, 5))).ok
    assert (await ask(shard.settle_now, settle(2, 5))).ok
    assert (balance(world), balance(world, BOB)) == (90, 95)


async def test_paid_calls_are_refused_while_the_store_is_away(world: World, shard: AccountShard) -> None:
    """Money rule 9 and threats 20 and 44: 503 while it lasts, reading goes on, and then all by itself again."""
    proof = await world.customer(shard, ALICE, 100)
    world.store.away = True
    shard.hold_now(hold(1, 5, proof=proof))
    with pytest.raises(OwnerUnavailable):
        await ask(shard.settle_now, settle(1, 5))
    await run_ready()
    refused = await ask(shard.hold_now, hold(2, 5, proof=proof))
    assert refused.refusal == UNAVAILABLE
    assert not (await shard.health())["committing"]
    with pytest.raises(OwnerUnavailable):
        await ask(shard.settle_now, settle(1, 5))
    with pytest.raises(OwnerUnavailable):
        await ask(shard.void_now, settle(1, 5))
    assert (await shard.ask(AdjustCredits(ALICE, 5, "", "x"))).refusal == UNAVAILABLE

    world.store.away = False
    await world.pauses.end()
    assert (await shard.health())["committing"]
    assert (await ask(shard.hold_now, hold(2, 5, proof=proof))).refusal is None
    assert (await ask(shard.settle_now, settle(1, 5))).ok
    assert debits(world) == [operation(1)]


async def test_an_idle_shard_notices_that_its_store_is_away(world: World, shard: AccountShard) -> None:
    """No call has to fail first."""
    proof = await world.customer(shard, ALICE, 100)
    world.store.away = True
    beating = asyncio.ensure_future(shard._commits.beat())
    await run_ready()
    assert (await ask(shard.hold_now, hold(1, 5, proof=proof))).refusal == UNAVAILABLE
    assert (await shard.ask(ReadAccount(proof))).value is not None  # The balance can still be read.
    world.store.away = False
    await world.pauses.end()
    await beating
    reply = await ask(shard.hold_now, hold(1, 5, proof=proof))
    assert reply.verdicts == (None,)


async def test_a_slow_store_admits_nothing_more(world: World, shard: AccountShard) -> None:
    proof = await world.customer(shard, ALICE, 100)
    world.store.gate = asyncio.Event()
    shard.hold_now(hold(1, 5, proof=proof))
    waiting = shard.settle_now(settle(1, 5))
    await run_ready()
    assert (await ask(shard.hold_now, hold(2, 5, proof=proof))).refusal is None
    world.clock.advance(4)
    assert (await ask(shard.hold_now, hold(3, 5, proof=proof))).refusal == UNAVAILABLE
    world.store.gate.set()
    assert (await answered(waiting)).ok
    assert (await ask(shard.hold_now, hold(3, 5, proof=proof))).refusal is None


async def test_a_former_owner_cannot_write_and_stops(world: World, shard: AccountShard) -> None:
    """Threats 21 and 40: the older owner's write is refused by the store, and it stops for good."""
    proof = await world.customer(shard, ALICE, 100)
    shard.hold_now(hold(1, 5, proof=proof))
    successor = await world.shard()
    with pytest.raises(OwnerUnavailable):
        await ask(shard.settle_now, settle(1, 5))
    assert (await shard.health())["fenced"]
    assert (await ask(shard.hold_now, hold(2, 5, proof=proof))).refusal == UNAVAILABLE
    with pytest.raises(OwnerUnavailable):
        await ask(shard.settle_now, settle(1, 5))
    assert (balance(world), debits(world)) == (100, [])
    # The replica asks the successor, which never granted this hold.
    assert (await ask(successor.settle_now, settle(1, 5))).ok
    assert debits(world) == [operation(1)]
    await successor.stop()


async def test_a_successor_posts_what_its_predecessor_granted(world: World, shard: AccountShard) -> None:
    """Design, "One billed call"; threats 16 and 17: one rule for holds that nobody in memory knows."""
    proof = await world.customer(shard, ALICE, 30)
    for number in (1, 2, 3):
        shard.hold_now(hold(number, 10, proof=proof))
    successor = await world.shard()
    assert (await ask(successor.settle_now, settle(1, 10))).ok
    assert (await ask(successor.settle_now, settle(1, 10))).ok
    reply = await ask(successor.hold_now, hold(9, 15, proof=proof))
    assert reply.verdicts == (None,)
    assert not (await ask(successor.settle_now, settle(2, 10))).ok  # 20 left, 15 of them held.
    assert not (await ask(successor.settle_now, settle(3, 5, ceiling=4))).ok
    world.clock.advance(121)
    assert not (await ask(successor.settle_now, settle(3, 5))).ok  # Too old to be believed.
    assert (await ask(successor.settle_now, settle(3, 0, ceiling=10))).ok
    assert (balance(world), debits(world)) == (20, [operation(1)])
    await successor.stop()


async def test_an_answer_that_could_not_leave_is_given_back_once(world: World, shard: AccountShard) -> None:
    """Money rule 2: a void of a posted call is one refund entry; of a held one a release; of an unknown one a mark."""
    proof = await world.customer(shard, ALICE, 30)
    for number in (1, 2):
        shard.hold_now(hold(number, 10, proof=proof))
    await ask(shard.settle_now, settle(1, 10))
    for _ in range(3):
        assert (await ask(shard.void_now, settle(1, 10))).ok
    assert (await ask(shard.void_now, settle(2, 10))).ok
    assert (await ask(shard.void_now, settle(3, 10))).ok
    types = [entry.type for entry, _ in world.store.rows[ALICE].entries if entry.type != EntryType.FACT]
    assert types == [EntryType.ADJUSTMENT, EntryType.DEBIT, EntryType.REFUND]
    successor = await world.shard()
    for number in (1, 2, 3):
        assert not (await ask(successor.settle_now, settle(number, 10))).ok
        assert (await ask(successor.void_now, settle(number, 10))).ok
    assert balance(world) == 30
    await successor.stop()


async def test_a_late_void_finds_what_memory_forgot(world: World, shard: AccountShard) -> None:
    """The owner was away for longer than it remembers operations; the charge is still given back."""
    proof = await world.customer(shard, ALICE, 30)
    shard.hold_now(hold(1, 10, proof=proof))
    await ask(shard.settle_now, settle(1, 10))
    world.clock.advance(1_000)
    successor = await world.shard()
    assert (await ask(successor.settle_now, settle(1, 10))).ok  # Posted, as it was.
    assert (await ask(successor.void_now, settle(1, 10))).ok
    assert balance(world) == 30
    await successor.stop()


async def test_accounts_load_once_however_many_ask(world: World, shard: AccountShard) -> None:
    """Two loads would each own a copy, and both would spend it."""
    proof = await world.customer(shard, ALICE, 26)
    successor = await world.shard()
    world.store.loads = 0
    replies = await asyncio.gather(*(ask(successor.hold_now, hold(number, 25, proof=proof)) for number in range(100)))
    assert world.store.loads == 1
    assert [reply.verdicts for reply in replies].count((None,)) == 1
    await successor.stop()


async def test_a_call_that_is_not_admitted_is_named_in_the_owners_log(
    world: World, shard: AccountShard, caplog: pytest.LogCaptureFixture
) -> None:
    """By the X-Request-Id that its client has, so that the operator finds why."""
    caplog.handler.addFilter(name_request)
    request = msgspec.structs.replace(hold(1, 5, proof=world.wallet(BOB)), request_id="a1-7")
    world.store.away = True
    with caplog.at_level(logging.INFO):
        reply = await asyncio.create_task(ask(shard.hold_now, request))
    caplog.handler.removeFilter(name_request)
    assert reply.refusal == UNAVAILABLE
    assert [vars(line).get("request_id") for line in caplog.records if "not admitted" in line.message] == ["a1-7"]
