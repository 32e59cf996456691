"""Tests for both stores of x402 payments: a claim succeeds once, and open payments are found again."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from actors.deposits.x402.sponsor_limits import Standing
from actors.deposits.x402.states import PaymentKind, PaymentState, Record
from actors.deposits.x402.store import PaymentStore, PaymentsUnavailable, PostgresPaymentStore
from actors.storage.connections import connect_postgres
from tests.databases import emptied
from tests.deposits.memory_stores import MemoryPaymentStore

RECORD = Record(b"h" * 32, PaymentKind.STANDARD, PaymentState.CLAIMED, b"p" * 32, 100_000, b"half", b"", 1_000, 5_000)


def record(number: int, **changes) -> Record:
    return replace(RECORD, message_hash=bytes([number]) * 32, **changes)


@pytest.fixture(params=["memory", "postgres"])
async def store(request: pytest.FixtureRequest, postgres_url: str, owner_url: str) -> AsyncIterator[PaymentStore]:
    if request.param == "memory":
        yield MemoryPaymentStore()
        return
    async with emptied(postgres_url, owner_url, "TRUNCATE x402_payments") as pool:
        yield PostgresPaymentStore(pool)


async def test_a_payment_is_claimed_once(store):
    """Threat 24: of twenty at once one gets it, and the first record stays as it is."""
    claims = [replace(RECORD, created_at_ms=number) for number in range(20)]
    done = await asyncio.gather(*(store.claim(one, 0) for one in claims))
    assert sum(done) == 1
    kept = await store.find(RECORD.message_hash)
    assert kept == claims[done.index(True)]
    assert await store.find(b"x" * 32) is None


async def test_a_move_changes_how_far_it_has_come(store):
    """Payer, amount and kind of a claim never change."""
    await store.claim(RECORD, 0)
    moved = replace(RECORD, state=PaymentState.SENT, transaction=b"whole", signature=b"s" * 64, slot=7, reason="why")
    await store.move(replace(moved, payer=b"q" * 32, amount_base_units=1), 0)
    assert await store.find(RECORD.message_hash) == moved


async def test_a_late_word_moves_nothing_back(store):
    """Whoever looked before somebody else moved it on must not undo that: a credited payment that is taken for a sent
    one would never be taken back, and one that was given up as never sent must not be sent."""
    for come, late in [
        (PaymentState.SENT, PaymentState.CLAIMED),
        (PaymentState.CREDITED, PaymentState.SENT),
        (PaymentState.TAKEN_BACK, PaymentState.CREDITED),
        (PaymentState.FINAL, PaymentState.TAKEN_BACK),
        (PaymentState.ABANDONED, PaymentState.SENT),
    ]:
        await store.claim(RECORD, 0)
        assert await store.move(replace(RECORD, state=come, signature=b"s" * 64), 0)
        assert not await store.move(replace(RECORD, state=late, transaction=b"other"), 0)
        kept = await store.find(RECORD.message_hash)
        assert (kept.state, kept.signature, kept.transaction) == (come, b"s" * 64, b"half")
        await store.move(replace(kept, state=PaymentState.FAILED), 0)
        await store.forget(RECORD.created_at_ms + 1, RECORD.created_at_ms + 1)


async def test_due_payments_are_given_to_one_at_a_time(store):
    """A due payment is given once until its lease ends; an ended payment never."""
    for number, (state, look_at) in enumerate(
        [
            (PaymentState.SENT, 10),
            (PaymentState.CREDITED, 20),
            (PaymentState.SENT, 31),
            (PaymentState.FINAL, 1),
            (PaymentState.FAILED, 1),
        ]
    ):
        await store.claim(record(number, state=state), look_at)
    first, second = await asyncio.gather(store.due(30, 60, 10), store.due(30, 60, 10))
    assert sorted(one.message_hash[0] for one in [*first, *second]) == [0, 1]
    assert {one.message_hash[0] for one in await store.due(59, 90, 10)} == {2}
    assert {one.message_hash[0] for one in await store.due(60, 99, 10)} == {0, 1}


async def test_at_most_so_many_are_given(store):
    """The longest waiting first."""
    for number in range(5):
        await store.claim(record(number, state=PaymentState.SENT), 5 - number)
    assert {one.message_hash[0] for one in await store.due(10, 20, 2)} == {3, 4}


async def test_one_sponsored_payment_of_a_payer_and_of_a_source_is_under_way(store):
    """Threat 52: of ten at once one is claimed; it makes room when it has landed, failed or was given up."""
    claims = [record(number, source=b"s" * 32) for number in range(10)]
    done = await asyncio.gather(*(store.claim(one, 0) for one in claims))
    assert sum(done) == 1
    claimed, others = claims[done.index(True)], [one for one in claims if one is not claims[done.index(True)]]
    other_payer, other_source = (
        replace(others[0], payer=b"q" * 32),
        replace(others[1], source=b"t" * 32),
    )
    for state in (PaymentState.SENT, PaymentState.SENT, PaymentState.CREDITED):
        assert not await store.claim(other_payer, 0) and not await store.claim(other_source, 0)
        assert await store.move(replace(claimed, state=state, fee_lost=True), 0)
    assert await store.claim(other_payer, 0)
    assert not await store.claim(replace(others[2], payer=b"z" * 32), 0), "the token account is the same"
    assert await store.move(replace(other_payer, state=PaymentState.ABANDONED), 0)
    assert await store.claim(others[2], 0)
    assert await store.claim(replace(others[3], kind=PaymentKind.SELF_PAID), 0), "it costs the sponsor nothing"
    assert await store.claim(replace(others[4], payer=b"q" * 32, source=b"t" * 32), 0)


async def test_attempts_are_counted_by_payer_and_time(store):
    """Attempts are counted by wallet, and a self-paid payment is no attempt."""
    await store.claim(record(1, created_at_ms=100), 0)
    await store.claim(record(2, created_at_ms=200), 0)
    await store.claim(record(3, created_at_ms=200, payer=b"q" * 32), 0)
    await store.claim(record(4, created_at_ms=200, kind=PaymentKind.SELF_PAID), 0)
    found = [(await standing(store, minute_ms=minute_ms)).attempts for minute_ms in (100, 101, 201)]
    assert found == [2, 1, 0]
    assert (await standing(store, payer=b"z" * 32)).attempts == 0


async def test_failures_stay_with_the_wallet_and_its_token_account(store):
    """All failed sponsored payments count, open or ended and of any age; self-paid ones do not."""
    await store.claim(record(1, source=b"s" * 32), 0)
    await store.move(record(1, state=PaymentState.SENT, fee_lost=True), 0)
    await store.claim(record(2, payer=b"q" * 32, source=b"t" * 32, kind=PaymentKind.SELF_PAID), 0)
    await store.move(record(2, state=PaymentState.FAILED, fee_lost=True), 0)
    for mine in ({}, {"payer": b"z" * 32}, {"source": b"z" * 32}):
        assert (await standing(store, **{"source": b"s" * 32, **mine})).lost == 1
    assert (await standing(store, payer=b"q" * 32, source=b"t" * 32)).lost == 0
    await store.move(record(1, state=PaymentState.FAILED, fee_lost=True), 0)
    assert (await standing(store)).lost == 1


async def test_landed_payments_are_counted_as_far_as_they_matter(store):
    """Landed payments of the wallet, sponsored or standard, are counted up to one more than the failed ones."""
    assert (await standing(store)).landed == 0 and (await standing(store)).is_newcomer
    for number, state in enumerate(
        [PaymentState.CREDITED, PaymentState.FINAL, PaymentState.FINAL, PaymentState.TAKEN_BACK, PaymentState.ABANDONED]
    ):
        await store.claim(record(number, state=state, kind=PaymentKind(number % 3)), 0)
    assert (await standing(store)).landed == 1
    await store.claim(record(7, state=PaymentState.FAILED, fee_lost=True), 0)
    assert ((await standing(store)).landed, (await standing(store)).lost) == (2, 1)
    for number in (8, 9, 10):
        await store.claim(record(number, state=PaymentState.FAILED, fee_lost=True), 0)
    assert ((await standing(store)).landed, (await standing(store)).lost) == (3, 4)
    assert (await standing(store, payer=b"q" * 32)).landed == 0


async def test_newcomers_are_counted_together_and_by_address(store):
    """Failures of the last hour, and for an address also payments under way. Without an address the count is 0."""
    newcomers = {"newcomer": True, "brought_by": "9.9.9.9"}
    await store.claim(
        record(1, payer=b"1" * 32, created_at_ms=100, state=PaymentState.FAILED, fee_lost=True, **newcomers), 0
    )
    await store.claim(record(2, payer=b"2" * 32, created_at_ms=200, state=PaymentState.SENT, **newcomers), 0)
    await store.claim(
        record(3, payer=b"3" * 32, created_at_ms=200, state=PaymentState.SENT, fee_lost=True, newcomer=True), 0
    )
    await store.claim(record(4, payer=b"4" * 32, created_at_ms=200, state=PaymentState.FINAL, **newcomers), 0)
    await store.claim(record(5, payer=b"5" * 32, created_at_ms=200, state=PaymentState.FAILED, fee_lost=True), 0)

    async def counted(address: str, hour_ms: int) -> tuple[int, int]:
        found = await standing(store, address=address, hour_ms=hour_ms)
        return found.newcomers, found.at_address

    assert [await counted("9.9.9.9", since) for since in (100, 101, 201)] == [(2, 2), (1, 1), (0, 0)]
    assert [await counted(address, 100) for address in ("9.9.9.8", "")] == [(2, 0), (2, 0)]


async def standing(store: PaymentStore, **about) -> Standing:
    asked = {"payer": RECORD.payer, "source": b"?" * 32, "address": "", "minute_ms": 0, "hour_ms": 0} | about
    return await store.standing(**asked)


async def test_old_ends_are_forgotten_and_what_is_open_never(store):
    """Threat 24: the memory of duplicates is bounded, and no payment under way falls out of it. Payments that
    were never signed cost their senders nothing, so they are kept for a shorter time."""
    await store.claim(record(1, state=PaymentState.FINAL, created_at_ms=10), 0)
    await store.claim(record(2, state=PaymentState.CREDITED, created_at_ms=10), 0)
    await store.claim(record(3, state=PaymentState.FAILED, created_at_ms=99), 0)
    await store.claim(record(4, state=PaymentState.ABANDONED, created_at_ms=99), 0)
    await store.claim(record(5, state=PaymentState.CLAIMED, created_at_ms=10), 0)
    await store.claim(record(6, state=PaymentState.ABANDONED, created_at_ms=300), 0)
    assert await store.forget(50, 200) == 2
    kept = [number for number in range(1, 7) if await store.find(record(number).message_hash) is not None]
    assert kept == [2, 3, 5, 6]


async def test_a_lost_database_is_said_so(postgres_url):
    """A failed store raises, so that the caller stops."""
    pool = await connect_postgres(postgres_url, connections_max=1, application="test")
    store = PostgresPaymentStore(pool)
    await pool.close()
    for ask in (
        store.find(b"x"),
        store.claim(RECORD, 0),
        store.move(RECORD, 0),
        store.due(0, 0, 1),
        standing(store),
        store.forget(0, 0),
    ):
        with pytest.raises(PaymentsUnavailable):
            await ask
