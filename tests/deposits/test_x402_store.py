"""One suite for both stores of x402 payments: a claim counts once, and what is open is found again."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from actors.deposits.x402_core import Kind, Record, State
from actors.deposits.x402_store import MemoryPaymentStore, PaymentStore, PaymentsUnavailable, PostgresPaymentStore
from actors.storage import connect_postgres, migrate, read_migrations

RECORD = Record(b"h" * 32, Kind.STANDARD, State.CLAIMED, b"p" * 32, 100_000, b"half", b"", 1_000, 5_000)


def record(number: int, **changes) -> Record:
    return replace(RECORD, message_hash=bytes([number]) * 32, **changes)


@pytest.fixture(params=["memory", "postgres"])
async def store(request: pytest.FixtureRequest, postgres_url: str) -> AsyncIterator[PaymentStore]:
    if request.param == "memory":
        yield MemoryPaymentStore()
        return
    pool = await connect_postgres(postgres_url, connections_max=4, application="test")
    await migrate(pool, read_migrations("actors.deposits"))
    await pool.execute("TRUNCATE x402_payments")
    yield PostgresPaymentStore(pool)
    await pool.close()


async def test_a_payment_is_claimed_once(store):
    """Hostile input 24: of twenty at once one gets it, and the first record stays as it is."""
    claims = [replace(RECORD, created_at_ms=number) for number in range(20)]
    done = await asyncio.gather(*(store.claim(one, 0) for one in claims))
    assert sum(done) == 1
    kept = await store.find(RECORD.message_hash)
    assert kept == claims[done.index(True)]
    assert await store.find(b"x" * 32) is None


async def test_a_move_changes_how_far_it_has_come(store):
    """What was claimed (payer, amount, kind) stays."""
    await store.claim(RECORD, 0)
    moved = replace(RECORD, state=State.SENT, transaction=b"whole", signature=b"s" * 64, slot=7, reason="why")
    await store.move(replace(moved, payer=b"q" * 32, amount_base_units=1), 0)
    assert await store.find(RECORD.message_hash) == moved


async def test_a_late_word_moves_nothing_back(store):
    """Whoever looked before somebody else moved it on must not undo that: a credited payment that is taken for a sent
    one would never be taken back, and one that was given up as never sent must not be sent."""
    for come, late in [
        (State.SENT, State.CLAIMED),
        (State.CREDITED, State.SENT),
        (State.TAKEN_BACK, State.CREDITED),
        (State.FINAL, State.TAKEN_BACK),
        (State.ABANDONED, State.SENT),
    ]:
        await store.claim(RECORD, 0)
        assert await store.move(replace(RECORD, state=come, signature=b"s" * 64), 0)
        assert not await store.move(replace(RECORD, state=late, transaction=b"other"), 0)
        kept = await store.find(RECORD.message_hash)
        assert (kept.state, kept.signature, kept.transaction) == (come, b"s" * 64, b"half")
        await store.move(replace(kept, state=State.FAILED), 0)
        await store.forget(RECORD.created_at_ms + 1)


async def test_due_payments_are_given_to_one_at_a_time(store):
    """Until their lease ends; ended ones never."""
    for number, (state, look_at) in enumerate(
        [(State.SENT, 10), (State.CREDITED, 20), (State.SENT, 31), (State.FINAL, 1), (State.FAILED, 1)]
    ):
        await store.claim(record(number, state=state), look_at)
    first, second = await asyncio.gather(store.due(30, 60, 10), store.due(30, 60, 10))
    assert sorted(one.message_hash[0] for one in [*first, *second]) == [0, 1]
    assert {one.message_hash[0] for one in await store.due(59, 90, 10)} == {2}
    assert {one.message_hash[0] for one in await store.due(60, 99, 10)} == {0, 1}


async def test_at_most_so_many_are_given(store):
    """The longest waiting first."""
    for number in range(5):
        await store.claim(record(number, state=State.SENT), 5 - number)
    assert {one.message_hash[0] for one in await store.due(10, 20, 2)} == {3, 4}


async def test_attempts_are_counted_by_payer_and_time(store):
    """The limit of one wallet does not touch another's."""
    await store.claim(record(1, created_at_ms=100), 0)
    await store.claim(record(2, created_at_ms=200), 0)
    await store.claim(record(3, created_at_ms=200, payer=b"q" * 32), 0)
    assert await store.attempts(RECORD.payer, 100) == 2
    assert await store.attempts(RECORD.payer, 101) == 1
    assert await store.attempts(b"z" * 32, 0) == 0


async def test_lost_fees_are_counted_over_all_payers(store):
    """Open or ended, paid for by the sponsor; what a payer pays for is its own loss."""
    await store.claim(record(1, created_at_ms=100), 0)
    await store.claim(record(2, created_at_ms=200, payer=b"q" * 32, kind=Kind.SPONSORED), 0)
    await store.claim(record(3, created_at_ms=200, kind=Kind.SELF_PAID), 0)
    await store.claim(record(4, created_at_ms=200), 0)
    assert await store.fees_lost(0) == 0
    await store.move(record(1, state=State.SENT, fee_lost=True), 0)
    await store.move(record(2, state=State.FAILED, fee_lost=True), 0)
    await store.move(record(3, state=State.FAILED, fee_lost=True), 0)
    assert (await store.find(record(1).message_hash)).fee_lost
    assert [await store.fees_lost(since_ms) for since_ms in (100, 101, 201)] == [2, 1, 0]
    await store.move(record(1, state=State.FINAL), 0)
    assert await store.fees_lost(100) == 1


async def test_old_ends_are_forgotten_and_what_is_open_never(store):
    """Hostile input 24: the memory of duplicates is bounded, and no payment under way falls out of it."""
    await store.claim(record(1, state=State.FINAL, created_at_ms=10), 0)
    await store.claim(record(2, state=State.CREDITED, created_at_ms=10), 0)
    await store.claim(record(3, state=State.FAILED, created_at_ms=99), 0)
    assert await store.forget(50) == 1
    assert await store.find(record(1).message_hash) is None
    assert await store.find(record(2).message_hash) is not None
    assert await store.find(record(3).message_hash) is not None


async def test_a_lost_database_is_said_so(postgres_url):
    """Never a guess: whoever asked must not go on."""
    pool = await connect_postgres(postgres_url, connections_max=1, application="test")
    store = PostgresPaymentStore(pool)
    await pool.close()
    for ask in (
        store.find(b"x"),
        store.claim(RECORD, 0),
        store.move(RECORD, 0),
        store.due(0, 0, 1),
        store.fees_lost(0),
        store.forget(0),
    ):
        with pytest.raises(PaymentsUnavailable):
            await ask
