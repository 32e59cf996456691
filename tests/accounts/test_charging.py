"""Hold and settle in one turn: as the two messages would, also for a request that comes twice or to a successor."""

import pytest

from actors.accounts import commits
from actors.accounts.api import SetLimits, SetStatus
from actors.accounts.hourly_commands import ChangeHourlyLimit
from actors.accounts.ledger import EntryType
from actors.calls import ChargeReply, ChargeRequest, KeyProof, SettleRequest
from tests.accounts.making import ALICE, BOB, hold, key_proof, operation, settle
from tests.accounts.shards import World, ask, run_ready


def charge(number: int, charged: int, ceiling: int = 5, epoch: int = 1, proof: KeyProof | None = None) -> ChargeRequest:
    end = settle(number, charged, ceiling=ceiling)
    fields = (end.operation, end.pubkey, epoch, end.method, end.ceiling, end.charged, end.outcome, end.held_at)
    return ChargeRequest(hold(number, ceiling, proof=proof), SettleRequest(*fields))


def debits(world: World) -> list[bytes]:
    return [entry.operation for entry, _ in world.store.rows[ALICE].entries if entry.type == EntryType.DEBIT]


async def test_a_charge_is_a_hold_and_its_post_in_one_turn(world: World) -> None:
    """Money rule 1: it takes a unit of the rate, and the reply waits for the group commit."""
    shard = await world.shard()
    proof = await world.customer(shard, ALICE, 100)
    epoch = (await shard.health())["epoch"]
    found = shard.charge_now(charge(1, 5, epoch=epoch, proof=proof))
    assert isinstance(found, tuple) and found[1] is not None and not found[1].done()
    reply: ChargeReply = found[0]
    await found[1]
    assert reply.held.figures is not None and reply.settled is not None
    assert (reply.held.verdicts, reply.settled.ok, reply.settled.credits_remaining) == ((None,), True, 95)
    assert (reply.held.figures.credits_remaining, reply.held.figures.rate_remaining) == (95, 99)
    assert debits(world) == [operation(1)] and not shard._accounts[ALICE].holds
    await shard.stop()


async def test_charges_that_are_asked_ahead_together_are_written_together(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each tells how many follow, and nothing else would say so, as none is held; the last one ends the wait."""
    monkeypatch.setattr(commits, "LINGER_SECONDS", 3_600.0)
    shard = await world.shard()
    proof = await world.customer(shard, ALICE, 100)
    epoch, ends = (await shard.health())["epoch"], []
    for coming in (2, 1, 0):
        asked = charge(coming + 1, 5, epoch=epoch, proof=proof)
        found = shard.charge_now(ChargeRequest(asked.hold, asked.settle, coming))
        assert isinstance(found, tuple) and found[0].held.slots > 0
        ends.append(found[1])
        await run_ready()
        assert ends[0].done() == (coming == 0)
    assert len(set(map(id, ends))) == 1 and len(debits(world)) == 3
    await shard.stop()


@pytest.mark.parametrize("successor", [False, True])
async def test_a_charge_that_comes_twice_is_made_once(world: World, successor: bool) -> None:
    """Threat 19: by the owner that made it, and by one that has to ask the ledger."""
    shard = await world.shard()
    proof = await world.customer(shard, ALICE, 100)
    request = charge(1, 5, epoch=(await shard.health())["epoch"], proof=proof)
    assert (await ask(shard.charge_now, request)).settled.ok
    second = await world.shard() if successor else shard
    again: ChargeReply = await ask(second.charge_now, request)
    assert again.settled is not None and again.settled.ok and again.settled.credits_remaining == 95
    assert debits(world) == [operation(1)] and not second._accounts[ALICE].holds
    await shard.stop()
    if successor:
        await second.stop()


async def test_a_charge_that_was_voided_is_refused_however_late_it_comes(world: World) -> None:
    """Its replica gave it up: whoever asks for it later gets no answer for nothing, and pays nothing."""
    shard = await world.shard()
    proof = await world.customer(shard, ALICE, 100)
    epoch = (await shard.health())["epoch"]
    assert (await ask(shard.void_now, settle(1, 5))).ok
    successor = await world.shard()
    for owner in (shard, successor):
        if not (await owner.health())["fenced"]:
            late: ChargeReply = await ask(owner.charge_now, charge(1, 5, epoch=epoch, proof=proof))
            assert late.settled is not None and not late.settled.ok
    assert debits(world) == [] and world.store.rows[ALICE].head.balance == 100
    await shard.stop()
    await successor.stop()


async def test_what_costs_nothing_is_released_and_leaves_no_entry(world: World) -> None:
    shard = await world.shard()
    proof = await world.customer(shard, ALICE, 100)
    epoch = (await shard.health())["epoch"]
    reply, future = shard.charge_now(charge(1, 0, epoch=epoch, proof=proof))  # type: ignore[misc]
    assert (reply.settled.ok, reply.settled.credits_remaining, future) == (True, 100, None)
    assert debits(world) == [] and not shard._accounts[ALICE].holds
    await shard.stop()


@pytest.mark.parametrize("asks_store", [False, True])
async def test_a_charge_needs_no_slot(world: World, asks_store: bool) -> None:
    """decisions, "Calls asked ahead": its node was asked while slots were free. A batch may have taken them all since,
    which would have waited for this call's slot if this call had held one."""
    shard = await world.shard()
    proof = await world.customer(shard, ALICE, 100)
    await shard.ask(SetLimits(ALICE, 100, 2))
    epoch = (await shard.health())["epoch"]
    assert (await ask(shard.hold_now, hold(1, 5, 5, proof=proof))).verdicts == (None, None)
    request = charge(3, 5, epoch=epoch + asks_store, proof=proof)
    found: ChargeReply = await ask(shard.charge_now, request)
    assert found.settled is not None and found.settled.ok and found.held.slots == 0
    assert debits(world) == [operation(3)] and len(shard._accounts[ALICE].holds) == 2
    assert (await ask(shard.hold_now, hold(4, 5, proof=proof))).verdicts == ("CONCURRENCY_LIMITED",)
    await shard.stop()


async def test_a_reply_tells_what_the_hourly_limit_leaves(world: World) -> None:
    """So that no call is asked ahead which the limit refuses; also the reply to a free call, which goes on at the
    limit."""
    shard = await world.shard()
    proof = await world.customer(shard, ALICE, 100)
    assert (await ask(shard.hold_now, hold(1, 5, proof=proof))).hour_left is None
    await shard.ask(ChangeHourlyLimit(ALICE, 20))
    epoch = (await shard.health())["epoch"]
    assert (await ask(shard.charge_now, charge(2, 5, epoch=epoch, proof=proof))).held.hour_left == 10
    assert (await ask(shard.hold_now, hold(3, 0, proof=proof))).hour_left == 10
    await shard.stop()


async def test_a_refused_hold_charges_nothing_and_says_why(world: World) -> None:
    """Credits, status, and a key that belongs to another account than the one that was known."""
    shard = await world.shard()
    proof = await world.customer(shard, ALICE, 4)
    other = await world.customer(shard, BOB, 100)
    epoch = (await shard.health())["epoch"]
    poor: ChargeReply = await ask(shard.charge_now, charge(1, 5, epoch=epoch, proof=proof))
    assert (poor.held.verdicts, poor.settled) == (("INSUFFICIENT_CREDITS",), None)
    elsewhere: ChargeReply = await ask(shard.charge_now, charge(2, 5, epoch=epoch, proof=other))
    assert (elsewhere.held.refusal, elsewhere.settled) == ("SERVICE_TEMPORARILY_UNAVAILABLE", None)
    await shard.ask(SetStatus(ALICE, "suspended", "a test"))
    suspended: ChargeReply = await ask(shard.charge_now, charge(3, 1, ceiling=1, epoch=epoch, proof=proof))
    assert (suspended.held.refusal, suspended.settled) == ("METHOD_NOT_ALLOWED", None)
    unknown: ChargeReply = await ask(shard.charge_now, charge(4, 1, ceiling=1, epoch=epoch, proof=key_proof(b"c" * 32)))
    assert (unknown.held.refusal, unknown.settled) == ("AUTH_FAILED", None)
    assert debits(world) == [] and not shard._accounts[ALICE].holds and not shard._accounts[BOB].holds
    await shard.stop()
