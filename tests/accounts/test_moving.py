"""Shards that move between running owners: nothing is lost, nothing is charged twice, and nothing is refused for good.

The owners, their links and the replica's client are real; the stores are in memory."""

import asyncio
from typing import Any

import pytest

from actors.accounts import replicas as replicas_module
from actors.accounts.api import AdjustCredits, Describe, OwnerUnavailable, ReadAccount
from actors.accounts.key_requests import CreateKey, ListKeys
from actors.accounts.ledger import EntryType
from actors.accounts.moving import KEPT_SECONDS
from actors.accounts.named_keys import KeyLimits
from actors.accounts.operations import ChargeOperations, HoldOperations
from actors.calls import StreamTime, lasting_prefix
from actors.identity.credentials import parse_api_key
from actors.identity.store import IdentityStoreUnavailable
from actors.units import shard_of
from tests.accounts.making import ALICE, BOB, operation
from tests.accounts.moving_cluster import OWNERS, REPLICA, Cluster, running, until
from tests.accounts.shards import run_ready

HERS = [shard_of(ALICE)]


def elsewhere(cluster: Cluster, pubkey: bytes) -> int:
    return (cluster.world.store.holders.holders[shard_of(pubkey)] + 1) % OWNERS


async def test_a_hold_moves_with_its_account_and_is_posted_where_it_is_then() -> None:
    """Money rule 1: credits that are held stay held, so that nobody spends them twice; and the call ends as it would
    have."""
    async with running() as cluster:
        proof = await cluster.customer(ALICE, 10)
        first = cluster.request(proof, 6)
        held = await cluster.accounts.hold(first)
        await cluster.move(elsewhere(cluster, ALICE), HERS)
        second = await cluster.accounts.hold(cluster.request(proof, 6))
        assert second.verdicts == ("INSUFFICIENT_CREDITS",)
        assert second.figures is not None and second.figures.credits_remaining == 4
        assert (await cluster.accounts.settle(cluster.charge(held, first, 6))).ok
        assert (await cluster.accounts.ask(Describe(ALICE))).value.balance == 4  # type: ignore[union-attr]
        assert cluster.entries(ALICE, EntryType.DEBIT) == [first.operation]


async def test_what_a_named_key_holds_and_its_rate_move_with_its_account() -> None:
    """Decisions, "Named keys": the taker holds it to the same budget, and to the same second."""
    async with running() as cluster:
        await cluster.customer(ALICE, 1_000)
        limits = KeyLimits(credits_total=10, requests_per_second=3)
        made = (await cluster.accounts.ask(CreateKey(ALICE, "bot", limits))).value
        assert made is not None
        proof = parse_api_key(made.text)
        assert proof is not None
        first = cluster.request(proof, 6)
        held = await cluster.accounts.hold(first)
        await cluster.move(elsewhere(cluster, ALICE), HERS)
        second = await cluster.accounts.hold(cluster.request(proof, 5, 2, 1, 1))
        assert second.verdicts == ("KEY_BUDGET_EXCEEDED", None, None, "RATE_LIMITED")
        charge = cluster.charge(held, first, 6)
        assert charge.key == 0 and (await cluster.accounts.settle(charge)).ok  # The hold says whose it is.
        (state,) = (await cluster.accounts.ask(ListKeys(ALICE))).value or ()
        assert (state.spent_total, state.held) == (6, 3)


async def test_rate_and_slots_move_too_and_work_keeps_its_holds() -> None:
    """Interface, "Limits": a move gives nobody a second share of the same second."""
    async with running() as cluster:
        proof = await cluster.customer(ALICE, 1_000)
        await cluster.accounts.hold(cluster.request(proof, *[1] * cluster.world.config.concurrency))
        work = (operation(70),)
        assert (await cluster.accounts.ask(HoldOperations(ALICE, work, 5))).value == (True,)
        before = (await cluster.accounts.ask(ReadAccount(proof))).figures
        await cluster.move(elsewhere(cluster, ALICE), HERS)
        reply = await cluster.accounts.hold(cluster.request(proof, 1))
        assert reply.verdicts == ("CONCURRENCY_LIMITED",), "all slots are taken by the calls of before"
        assert reply.figures == before
        charged = await cluster.accounts.ask(ChargeOperations(ALICE, work, "webhook", 5))
        assert charged.value == (True,)


async def test_a_nonce_admits_one_request_on_either_side_of_a_move() -> None:
    """Money rule 11; threat 4."""
    async with running() as cluster:
        await cluster.customer(ALICE, 100)
        before, after = cluster.world.wallet(ALICE), cluster.world.wallet(ALICE)
        assert (await cluster.accounts.hold(cluster.request(before, 1))).refusal is None
        await cluster.move(elsewhere(cluster, ALICE), HERS)
        assert (await cluster.accounts.hold(cluster.request(before, 1))).refusal == "NONCE_REUSED"
        assert (await cluster.accounts.hold(cluster.request(after, 1))).refusal is None
        await cluster.move(elsewhere(cluster, ALICE), HERS)
        await cluster.move(elsewhere(cluster, ALICE), HERS)  # At the first one again.
        for used in (before, after):
            assert (await cluster.accounts.hold(cluster.request(used, 1))).refusal == "NONCE_REUSED"


async def test_unpaid_seconds_of_streams_move_too() -> None:
    async with running() as cluster:
        await cluster.customer(ALICE, 100)
        await cluster.accounts.stream_time(StreamTime(operation(1), ALICE, 40_000))
        await cluster.accounts.stream_time(StreamTime(operation(4), ALICE, 30_000, key=1))
        await cluster.move(elsewhere(cluster, ALICE), HERS)
        assert (await cluster.accounts.stream_time(StreamTime(operation(5), ALICE, None, key=1))).taken_ms == 30_000
        assert (await cluster.accounts.stream_time(StreamTime(operation(2), ALICE, None))).taken_ms == 40_000
        await cluster.move(elsewhere(cluster, ALICE), HERS)
        assert (await cluster.accounts.stream_time(StreamTime(operation(3), ALICE, None))).taken_ms == 0


async def test_charges_that_are_not_delivered_move_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Money rule 2: a replica that dies after a move is refunded what it had not delivered, and no more; one that
    lives, and says nothing of its own accord, is not given up."""
    monkeypatch.setattr(replicas_module, "RECALLED_SECONDS", 0.1)
    async with running() as cluster:
        proof = await cluster.customer(ALICE, 100)
        charges = []
        for _ in range(3):
            request = cluster.request(proof, 5)
            charges.append(cluster.charge(await cluster.accounts.hold(request), request))
            assert (await cluster.accounts.settle(charges[-1])).ok
        cluster.accounts.delivered(ALICE, charges[0].operation)
        taker = elsewhere(cluster, ALICE)
        await cluster.move(taker, HERS)
        await cluster.accounts._read_routes()
        cluster.accounts.delivered(ALICE, charges[1].operation)
        await until(lambda: len(cluster.owners[taker].shard.undelivered) == 1)
        await cluster.world.pauses.end()
        await asyncio.sleep(0.02)
        assert cluster.replicas == [REPLICA] and not cluster.entries(ALICE, EntryType.REFUND)
        assert cluster.accounts.may_leave(charges[2]) or await cluster.accounts.confirm(charges[2])
        server = cluster.owners[taker].server
        assert server._on_gone is not None
        server._on_gone(REPLICA)
        await until(lambda: cluster.entries(ALICE, EntryType.REFUND) == [charges[2].operation])


async def test_a_replica_that_dies_in_the_middle_of_a_move_is_refunded_by_the_taker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Money rule 2; the taker waits for it as a restarted owner does."""
    async with running() as cluster:
        proof = await cluster.customer(ALICE, 100)
        request = cluster.request(proof, 5)
        charge = cluster.charge(await cluster.accounts.hold(request), request)
        await cluster.accounts.settle(charge)
        held = cluster.request(proof, 7)
        await cluster.accounts.hold(held)
        giver, taker = cluster.world.store.holders.holders[HERS[0]], elsewhere(cluster, ALICE)
        handover = await cluster.give(giver, HERS)
        await cluster.accounts.stop()
        monkeypatch.setattr(cluster.accounts, "stop", run_ready)
        await cluster.owners[taker].shard.moving.take(HERS, handover)
        cluster.owners[giver].shard.moving.given(HERS)
        await cluster.world.pauses.end()
        await until(lambda: cluster.entries(ALICE, EntryType.REFUND) == [charge.operation])
        account = cluster.owners[taker].shard._accounts[ALICE]
        assert not account.holds and account.purse.balance == 100


async def test_a_replica_that_the_giver_has_given_up_is_given_up_by_the_taker() -> None:
    """Threat 57: it has refunded answers of the giver, and must not let them leave at the word of the taker."""
    async with running() as cluster:
        proof = await cluster.customer(ALICE, 100)
        request = cluster.request(proof, 5)
        charge = cluster.charge(await cluster.accounts.hold(request), request)
        await cluster.accounts.settle(charge)
        giver, taker = cluster.world.store.holders.holders[HERS[0]], elsewhere(cluster, ALICE)
        replicas = cluster.owners[giver].replicas
        replicas.gone(REPLICA)
        await replicas.voided()
        handover = await cluster.give(giver, HERS)
        assert replicas.fenced() == (REPLICA,)
        cluster.owners[taker].replicas.gone(REPLICA)
        await cluster.owners[taker].shard.moving.take(HERS, handover)
        await cluster.accounts._read_routes()
        assert not cluster.accounts.may_leave(charge)
        assert not await cluster.accounts.confirm(charge)
        await until(lambda: len(cluster.replicas) > 1)


async def test_a_giver_without_a_taker_takes_its_shards_back_and_a_late_taker_is_refused() -> None:
    """The one who directs the move ended between the steps: nobody waits longer than that."""
    async with running() as cluster:
        proof = await cluster.customer(ALICE, 100)
        giver, taker = cluster.world.store.holders.holders[HERS[0]], elsewhere(cluster, ALICE)
        handover = await cluster.give(giver, HERS)
        calling = asyncio.ensure_future(cluster.accounts.hold(cluster.request(proof, 5)))
        await asyncio.sleep(0.02)
        assert not calling.done(), "nobody serves the account, and nobody refuses its calls"
        cluster.world.clock.advance(KEPT_SECONDS)
        await cluster.owners[giver].shard.tick()
        assert (await calling).refusal is None
        with pytest.raises(OwnerUnavailable):
            await cluster.owners[taker].shard.moving.take(HERS, handover)
        assert not cluster.owners[taker].shard.held.has_account(ALICE)
        assert cluster.of(ALICE) is cluster.owners[giver]
        assert not any([(await owner.shard.health())["fenced"] for owner in cluster.owners])


async def test_a_taker_that_ends_in_the_middle_leaves_shards_to_its_successor() -> None:
    """They are its own in the database, and nobody's in memory."""
    async with running() as cluster:
        proof = await cluster.customer(ALICE, 100)
        giver, taker = cluster.world.store.holders.holders[HERS[0]], elsewhere(cluster, ALICE)
        handover = await cluster.give(giver, HERS)
        cluster.world.identity.away = True
        with pytest.raises(OwnerUnavailable):
            await cluster.owners[taker].shard.moving.take(HERS, handover)
        assert not cluster.owners[taker].shard.held.has_account(ALICE)
        cluster.world.identity.away = False
        cluster.world.clock.advance(60)
        await cluster.owners[taker].shard.tick()
        assert cluster.owners[taker].shard.held.has_account(ALICE)
        await cluster.owners[giver].kill()
        await cluster.owners[giver].start()
        assert not cluster.owners[giver].shard.held.has_account(ALICE)
        assert (await cluster.accounts.hold(cluster.request(proof, 5))).refusal is None


async def test_shards_stay_while_the_ledger_or_sessions_cannot_be_written() -> None:
    """Nothing is handed over that the stores do not have."""
    async with running() as cluster:
        proof = await cluster.customer(ALICE, 100)
        owner = cluster.of(ALICE)
        cluster.world.store.fail = ["before"]
        request = cluster.request(proof, 5)
        held = await cluster.accounts.hold(request)
        settling = asyncio.ensure_future(cluster.accounts.settle(cluster.charge(held, request)))
        await asyncio.sleep(0.005)

        async def away(*arguments: Any, **named: Any) -> None:
            raise IdentityStoreUnavailable("nobody listens")

        owner.shard._sessions._drops.add(b"closed")
        owner.shard._sessions._store.drop_session = away  # type: ignore[method-assign]
        with pytest.raises(OwnerUnavailable):
            await cluster.give(owner._index, HERS)
        assert owner.shard.held.admits(HERS[0])
        owner.shard._sessions._drops.clear()
        while not settling.done():
            await cluster.world.pauses.end()
            await asyncio.sleep(0.002)
        assert (await settling).ok
        assert (await cluster.accounts.hold(cluster.request(proof, 5))).refusal is None


async def test_operations_that_outlive_their_replica_are_no_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sends, and calls with a key of idempotency: nobody links under their prefix, so nobody is given up for it, and
    their charges stay, after a move and after a restart of the owner."""
    monkeypatch.setattr(replicas_module, "RECALLED_SECONDS", 0.02)
    async with running() as cluster:
        proof = await cluster.customer(ALICE, 100)
        cluster.replicas.append(lasting_prefix(REPLICA))
        first, second = cluster.request(proof, 5), cluster.request(proof, 5)
        charge = cluster.charge(await cluster.accounts.hold(first), first)
        assert (await cluster.accounts.settle(charge)).ok
        held = await cluster.accounts.hold(second)
        await cluster.move(elsewhere(cluster, ALICE), HERS)
        await asyncio.sleep(0.1)
        assert (await cluster.accounts.settle(cluster.charge(held, second))).ok
        owner = cluster.of(ALICE)
        await owner.shard.listed()
        await owner.kill()
        await owner.start()
        await asyncio.sleep(0.1)
        third = cluster.request(proof, 5)
        assert (await cluster.accounts.hold(third)).refusal is None
        assert not any(each.replicas.fenced() for each in cluster.owners)
        assert not cluster.entries(ALICE, EntryType.REFUND)
        assert cluster.entries(ALICE, EntryType.DEBIT) == [first.operation, second.operation]


async def test_commands_wait_for_the_taker() -> None:
    """An operator's and a page's: neither done twice nor refused."""
    async with running() as cluster:
        await cluster.customer(ALICE, 100)
        await cluster.customer(BOB, 50)
        giver, taker = cluster.world.store.holders.holders[HERS[0]], elsewhere(cluster, ALICE)
        handover = await cluster.give(giver, HERS)
        grant = AdjustCredits(ALICE, 7, "test", "once")
        asking = asyncio.ensure_future(cluster.accounts.ask(grant))
        several = asyncio.ensure_future(cluster.accounts.ask_many([Describe(BOB), grant, Describe(ALICE)]))
        await asyncio.sleep(0.05)
        assert not asking.done() and not several.done()
        await cluster.owners[taker].shard.moving.take(HERS, handover)
        replies: Any = [await asking, *await several]
        *told, read = [reply.value.balance for reply in replies]
        assert told == [107, 50, 107]
        assert read in (100, 107), "a reading need not wait for the commit of a grant beside it"
        assert (await cluster.accounts.ask(Describe(ALICE))).value.balance == 107
