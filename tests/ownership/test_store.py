"""Both stores of ownership: a newer claim refuses older writes, and a command holds while its setting does."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import asyncpg
import pytest
from pydantic import SecretStr

from actors.config import StorageConfig
from actors.ownership.api import FENCED_SQLSTATE, Owned, OwnershipUnavailable, SliceLost
from actors.ownership.store import OwnershipStore, PostgresOwnership, opened_ownership
from actors.storage.connections import connect_postgres
from tests.databases import emptied
from tests.ownership.memory_store import MemoryOwnership

Check = Callable[[str, int, int], Awaitable[None]]
CHECK = "SELECT ownership_check($1, $2, $3)"


@pytest.fixture
async def pool(postgres_url: str, owner_url: str) -> AsyncIterator[asyncpg.Pool]:
    async with emptied(postgres_url, owner_url, "TRUNCATE ownership, actor_counts") as opened:
        yield opened


@pytest.fixture(params=["memory", "postgres"])
def stores(request: pytest.FixtureRequest, pool: asyncpg.Pool) -> tuple[OwnershipStore, Check]:
    """A store, and the check that an owner's write makes."""
    if request.param == "memory":
        memory = MemoryOwnership()

        async def check_memory(kind: str, number: int, epoch: int) -> None:
            memory.check(kind, number, epoch)

        return memory, check_memory

    async def check(kind: str, number: int, epoch: int) -> None:
        try:
            await pool.execute(CHECK, kind, number, epoch)
        except asyncpg.PostgresError as error:
            assert error.sqlstate == FENCED_SQLSTATE, error
            raise SliceLost from error

    return PostgresOwnership(pool), check


async def test_a_claim_takes_all_its_slices_by_one_new_epoch(stores: tuple[OwnershipStore, Check]) -> None:
    store, _ = stores
    assert await store.holders("racers") == {}
    first = await store.claim("racers", [0, 1, 2], "one")
    second = await store.claim("racers", [1, 2], "two")
    assert first < second
    assert await store.holders("racers") == {0: Owned("one", first), 1: Owned("two", second), 2: Owned("two", second)}


async def test_kinds_do_not_know_each_other(stores: tuple[OwnershipStore, Check]) -> None:
    store, check = stores
    epoch = await store.claim("racers", [5], "one")
    await store.claim("classifiers", [5], "other")
    await check("racers", 5, epoch)
    assert await store.holders("racers") == {5: Owned("one", epoch)}


async def test_a_former_owner_is_refused_and_a_slice_that_stayed_is_not(stores: tuple[OwnershipStore, Check]) -> None:
    """Also where the name is the same: a process that was cut off has the name of its successor."""
    store, check = stores
    before = await store.claim("racers", [0, 1], "one")
    after = await store.claim("racers", [1], "one")
    await check("racers", 0, before)
    await check("racers", 1, after)
    for number, epoch in ((1, before), (0, after), (2, after)):  # The last one was never claimed.
        with pytest.raises(SliceLost):
            await check("racers", number, epoch)


async def test_a_command_holds_until_the_setting_changes(stores: tuple[OwnershipStore, Check]) -> None:
    """A new deployment with another number wins, and going back to the earlier setting does not wake an old command."""
    store, _ = stores
    assert await store.wanted("racers", 1) == 1
    await store.set_wanted("racers", 3, 1)
    await store.set_wanted("classifiers", 9, 1)
    assert [await store.wanted("racers", 1), await store.wanted("racers", 1)] == [3, 3]
    await store.set_wanted("racers", 4, 1)
    assert await store.wanted("racers", 1) == 4
    assert await store.wanted("racers", 2) == 2
    assert await store.wanted("racers", 1) == 1
    assert await store.wanted("classifiers", 1) == 9


async def waits_for_an_advisory_lock(pool: asyncpg.Pool) -> None:
    """Return once a session of this database waits for a lock of ownership."""
    waiting = (
        "SELECT count(*), pg_sleep(0.01) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database ="
        " (SELECT oid FROM pg_database WHERE datname = current_database())"
    )
    async with asyncio.timeout(20):
        while not await pool.fetchval(waiting):
            pass


async def test_a_claim_waits_for_a_write_under_way(pool: asyncpg.Pool) -> None:
    """What the write does is done when the new owner begins to read."""
    store = PostgresOwnership(pool)
    epoch = await store.claim("racers", [1], "one")
    async with pool.acquire() as writer:
        async with writer.transaction():
            await writer.execute(CHECK, "racers", 1, epoch)
            claim = asyncio.create_task(store.claim("racers", [1], "two"))
            await waits_for_an_advisory_lock(pool)
            assert (await store.holders("racers"))[1].holder == "one"
        assert await claim > epoch


async def test_a_write_that_waited_for_a_claim_is_refused(pool: asyncpg.Pool) -> None:
    """It began with the old epoch, and must not read the holders from before the claim."""
    store = PostgresOwnership(pool)
    epoch = await store.claim("racers", [1], "one")
    async with pool.acquire() as claimer, claimer.transaction():
        await claimer.execute("SELECT ownership_claim('racers', ARRAY [1], 'two')")
        write = asyncio.create_task(pool.execute(CHECK, "racers", 1, epoch))
        await waits_for_an_advisory_lock(pool)
    with pytest.raises(asyncpg.PostgresError) as refused:
        await write
    assert refused.value.sqlstate == FENCED_SQLSTATE


async def test_an_owner_of_many_slices_is_told_those_that_it_still_has(pool: asyncpg.Pool) -> None:
    """ownership_still(): for a write of whatever its owner holds, by the epochs of several claims."""
    store = PostgresOwnership(pool)
    one = await store.claim("racers", [0, 1, 2], "one")
    two = await store.claim("racers", [3, 4], "one")
    await store.claim("racers", [1, 4], "other")
    ask = "SELECT ownership_still('racers', $1, $2)"
    assert await pool.fetchval(ask, [0, 1, 2, 3, 4], [one, one, one, two, two]) == [0, 2, 3]
    assert await pool.fetchval(ask, [], []) == []


async def test_a_database_that_is_away_is_told_as_that(postgres_url: str) -> None:
    pool = await connect_postgres(postgres_url, connections_max=1, application="tests")
    pool.terminate()
    store = PostgresOwnership(pool)
    for asked in (
        store.claim("racers", [1], "one"),
        store.holders("racers"),
        store.wanted("racers", 1),
        store.set_wanted("racers", 1, 1),
    ):
        with pytest.raises(OwnershipUnavailable):
            await asked


async def test_a_short_task_opens_the_store_by_the_settings(pool: asyncpg.Pool, postgres_url: str) -> None:
    del pool  # It has emptied the tables.
    async with opened_ownership(StorageConfig(postgres_url=SecretStr(postgres_url)), "tests") as store:
        assert await store.wanted("racers", 2) == 2
