"""Guards who has which shard in the database: one owner each, by epochs that only grow."""

import asyncio

import asyncpg
import pytest

from actors.accounts.holders_store import Giver, RouteTable, route_table
from actors.accounts.store import AccountStore, PostgresAccountStore
from actors.accounts.stored import Fenced, NotGiven
from actors.clock import ManualClock
from actors.units import VirtualShard
from tests.accounts.shards import SHARDS
from tests.accounts.test_store import debits, opened_in

FIRST, SECOND = SHARDS[:512], SHARDS[512:]


async def test_shards_are_spread_once_and_stay_where_they_are(store: AccountStore) -> None:
    """Whatever number of owners is named later."""
    assert await store.holders.routes() == RouteTable()
    assert tuple(await store.holders.assigned(0, 2)) == FIRST
    assert tuple(await store.holders.assigned(1, 5)) == SECOND
    assert await store.holders.assigned(2, 3) == []
    assert (await store.holders.routes()).owners == bytes(512) + b"\1" * 512
    assert not await store.has_owner(SHARDS), "nobody has taken them yet"


async def test_an_owner_adopts_what_its_giver_left(store: AccountStore) -> None:
    """With the next epoch for all that it has then. The giver writes the rest as before, and these no more."""
    await store.holders.assigned(0, 2)
    old, mine = await store.take_over("a", FIRST, False), await store.take_over("b", SECOND, False)
    given = FIRST[:3]
    epoch = await store.holders.adopt("b", 1, mine, SECOND, given, Giver(0, old))
    assert epoch > max(old, mine)
    await store.check_owner(epoch, [*SECOND, *given])
    await store.check_owner(old, FIRST[3:])
    with pytest.raises(Fenced):
        await store.check_owner(old, given)
    table = await store.holders.routes()
    assert [table.owners[shard] for shard in given] == [1, 1, 1] and table.epochs == (old, epoch)
    assert set(await store.holders.assigned(1, 2)) == {*SECOND, *given}


async def test_what_is_not_where_its_giver_left_it_is_adopted_by_nobody(store: AccountStore) -> None:
    """The giver has taken it back by another epoch, or somebody else has it."""
    await store.holders.assigned(0, 2)
    old, mine = await store.take_over("a", FIRST, False), await store.take_over("b", SECOND, False)
    given = FIRST[:3]
    again = await store.holders.adopt("a", 0, old, FIRST[3:], given, Giver(0, None))
    for giver in (Giver(0, old), Giver(2, again)):
        with pytest.raises(NotGiven):
            await store.holders.adopt("b", 1, mine, SECOND, given, giver)
    await store.check_owner(mine, SECOND)
    with pytest.raises(Fenced):
        await store.holders.adopt("a", 0, old, FIRST[3:], given, Giver(0, None))


async def test_an_adoption_waits_for_a_write_of_the_giver(postgres_pool: asyncpg.Pool) -> None:
    """Money rule 12: what the giver wrote is there when the taker reads, and nothing comes later."""
    store = PostgresAccountStore(postgres_pool)
    await store.prepare(ManualClock().now_ms())
    await store.holders.assigned(0, 1)
    epoch = await store.take_over("a", SHARDS, False)
    account = await opened_in(store, epoch)
    async with postgres_pool.acquire() as connection, connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock_shared(1667851875, $1)", epoch)
        adopting = asyncio.ensure_future(
            store.holders.adopt("b", 1, 0, [], [VirtualShard(account.shard)], Giver(0, epoch))
        )
        await asyncio.sleep(0.1)
        assert not adopting.done()
    assert await adopting > epoch
    with pytest.raises(Fenced):
        await store.write(epoch, debits(account, 1))
    await store.close()


def test_a_table_names_the_newest_epoch_of_each_owner() -> None:
    rows = [(2, 9, list(range(1_000, 1_024))), (0, 5, list(range(999, -1, -1)))]
    assert route_table(rows) == RouteTable(bytes(1_000) + bytes([2]) * 24, (5, 0, 9))
    assert route_table(rows[1:]) == RouteTable()
