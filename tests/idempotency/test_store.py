"""Both stores of Idempotency-Keys: one run at a time, one answer, and a bounded number of keys."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from actors.clock import ManualClock
from actors.idempotency.core import KEPT_MS, LEASE_MS, KeyRecord, began
from actors.idempotency.store import IdempotencyStore, KeysUnavailable, PostgresIdempotencyStore, forget_for_ever
from actors.storage.connections import connect_postgres
from tests.databases import emptied
from tests.idempotency.memory_store import MemoryIdempotencyStore

NOW = 1_700_000_000_000
MANY = 100


@pytest.fixture(params=["memory", "postgres"])
async def store(request: pytest.FixtureRequest, postgres_url: str, owner_url: str) -> AsyncIterator[IdempotencyStore]:
    if request.param == "memory":
        yield MemoryIdempotencyStore()
        return
    async with emptied(postgres_url, owner_url, "TRUNCATE idempotency_keys, idempotency_counts") as pool:
        yield PostgresIdempotencyStore(pool)


def a_record(number: int = 0, scope: bytes = b"a", key: str = "key", now_ms: int = NOW) -> KeyRecord:
    return began(scope, key, b"f" * 32, number.to_bytes(16, "big"), now_ms)


async def test_of_many_requests_at_once_one_has_the_key(store: IdempotencyStore) -> None:
    """All see the same record, and it stays."""
    found = await asyncio.gather(*(store.claim(a_record(number), NOW, MANY) for number in range(20)))
    assert len(set(found)) == 1 and found[0] in [a_record(number) for number in range(20)]
    assert await store.claim(a_record(99), NOW + 5, MANY) == found[0]


async def test_a_key_belongs_to_its_scope(store: IdempotencyStore) -> None:
    for number, scope in enumerate((b"a", b"b")):
        assert await store.claim(a_record(number, scope), NOW, MANY) == a_record(number, scope)


async def test_an_answer_is_kept_until_it_expires(store: IdempotencyStore) -> None:
    mine = a_record()
    await store.claim(mine, NOW, MANY)
    assert await store.keep(mine, b"answer", 2)
    assert not await store.keep(mine, b"another", 3)
    kept = replace(mine, answered=True, answer=b"answer", charged=2)
    assert await store.claim(a_record(1), NOW + KEPT_MS - 1, MANY) == kept
    assert not await store.take_over(kept, b"x" * 16, NOW)
    late = a_record(2, now_ms=NOW + KEPT_MS)
    assert await store.claim(late, NOW + KEPT_MS, MANY) == late


async def test_one_of_many_takes_a_dead_run_over(store: IdempotencyStore) -> None:
    """The one before can write nothing any more."""
    mine = a_record()
    await store.claim(mine, NOW, MANY)
    attempts = [number.to_bytes(16, "big") for number in range(1, 9)]
    taken = await asyncio.gather(*(store.take_over(mine, attempt, NOW + 2 * LEASE_MS) for attempt in attempts))
    assert sum(taken) == 1
    winner = attempts[taken.index(True)]
    assert not await store.keep(mine, b"late", 2)
    await store.forget(mine)
    await store.leave(mine)
    now_has_it = replace(mine, attempt=winner, lease_until_ms=NOW + 2 * LEASE_MS)
    assert await store.claim(a_record(50), NOW, MANY) == now_has_it
    assert await store.keep(now_has_it, b"answer", 2)


async def test_a_run_whose_outcome_is_open_can_be_taken_over_at_once(store: IdempotencyStore) -> None:
    mine = a_record()
    await store.claim(mine, NOW, MANY)
    await store.leave(mine)
    assert await store.claim(a_record(1), NOW, MANY) == replace(mine, lease_until_ms=0)


async def test_a_forgotten_key_is_new(store: IdempotencyStore) -> None:
    await store.claim(a_record(), NOW, MANY)
    await store.forget(a_record())
    assert await store.claim(a_record(1), NOW, MANY) == a_record(1)


async def test_a_scope_has_so_many_keys_and_others_are_not_affected(store: IdempotencyStore) -> None:
    """Keys that are forgotten or expired make room, in the count too."""
    for number in range(3):
        assert await store.claim(a_record(number, key=f"k{number}"), NOW + number, 3) is not None
    assert await store.claim(a_record(3, key="k3"), NOW, 3) is None
    assert await store.claim(a_record(4, key="k1"), NOW, 3) == a_record(1, key="k1", now_ms=NOW)
    assert await store.claim(a_record(5, b"b", "k3"), NOW, 3) is not None
    await store.forget(a_record(1, key="k1"))
    assert await store.claim(a_record(6, key="k3"), NOW, 3) is not None
    assert await store.forget_expired(NOW + KEPT_MS - 1, 10) == 0
    assert await store.forget_expired(NOW + KEPT_MS, 2) == 2
    assert await store.forget_expired(NOW + KEPT_MS, 10) == 2
    for number in range(3):
        assert await store.claim(a_record(number, key=f"n{number}"), NOW, 3) is not None
    assert await store.claim(a_record(9, key="n9"), NOW, 3) is None


async def test_a_database_that_is_away_is_told_as_such(postgres_url: str) -> None:
    """Whoever asks must know that the key may or may not be claimed."""
    pool = await connect_postgres(postgres_url, connections_max=1, application="test")
    await pool.close()
    with pytest.raises(KeysUnavailable):
        await PostgresIdempotencyStore(pool).claim(a_record(), NOW, MANY)


async def test_expired_keys_are_removed_whatever_happens() -> None:
    """The loop of every replica goes on after a store that was away."""
    store, clock = MemoryIdempotencyStore(), ManualClock()
    await store.claim(a_record(now_ms=clock.now_ms() - KEPT_MS), clock.now_ms() - KEPT_MS, MANY)
    store.away = True
    looks: list[int] = []

    async def sleep(seconds: float) -> None:
        looks.append(len(store.records))
        store.away = False
        if len(looks) == 2:
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await forget_for_ever(store, clock, sleep)
    assert looks == [1, 0]
