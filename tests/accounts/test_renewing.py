"""Owners of another release are replaced while their accounts are served by one more owner."""

import asyncpg
import pytest
from pydantic import SecretStr

from actors.accounts.balancing import ShardMover, alone_at
from actors.accounts.renewing import OWNERS_MAX, Overtaken, Renewing
from actors.config import StorageConfig
from actors.hosting import ActorUnreachable
from tests.accounts.test_balancing import Cluster


class Renewed(Cluster):
    """started: by index, in their order. An owner that is started while it has shards leaves them unserved."""

    def __init__(self, owners: int) -> None:
        super().__init__(owners, owners)
        self.started: list[int] = []
        self.never_starts: set[int] = set()
        self.speaks_after: dict[int, int] = {}  # Of a silent owner: after how many pauses it gives again.
        self.renewing = Renewing(ShardMover(self.routes, self.ask, str), self.start, self.end, str, self.pause)

    async def pause(self, _seconds: float) -> None:
        self.speaks_after = {owner: left - 1 for owner, left in self.speaks_after.items()}
        self.silent -= {owner for owner, left in self.speaks_after.items() if left <= 0}

    async def start(self, index: int) -> None:
        assert index not in self.holders, "an owner that has accounts was ended"
        if index in self.never_starts:
            raise ActorUnreachable(str(index))
        self.started.append(index)
        self.running.add(index)

    async def end(self, index: int) -> None:
        assert index not in self.holders, "an owner that has accounts was ended"
        self.running.remove(index)


@pytest.mark.parametrize("owners", [1, 3])
async def test_each_owner_is_replaced_without_its_accounts_and_has_them_again(owners: int) -> None:
    """The first owner, which directs moves, is replaced first; nothing else moves; and the one more is ended."""
    cluster = Renewed(owners)
    before = list(cluster.holders)
    assert await cluster.renewing.renew(range(owners), owners)
    assert cluster.started == [owners, *range(owners)]
    assert cluster.holders == before and cluster.running == set(range(owners))
    assert max(count for _, _, count in cluster.calls) <= 32
    assert sum(count for method, _, count in cluster.calls if method == "take") == 2 * 1024


async def test_only_those_that_are_outdated_are_replaced() -> None:
    cluster = Renewed(3)
    assert await cluster.renewing.renew([2], 3)
    assert cluster.started == [3, 2] and not {0, 1} & {owner for _, owner, _ in cluster.calls}


async def test_an_owner_that_does_not_give_keeps_its_accounts() -> None:
    """One of a release that knows no moves, or one that hangs: whoever places the owners ends it."""
    cluster = Renewed(2)
    cluster.silent = {1}
    assert not await cluster.renewing.renew(range(2), 2)
    assert cluster.started == [2, 0] and cluster.counts() == [512, 512]


async def test_an_owner_that_refunds_the_charges_of_a_dead_replica_is_waited_for() -> None:
    """Such an owner gives no shards for some ten seconds. A renewal that does not wait ends it with its accounts, and
    so all owners after it."""
    cluster = Renewed(2)
    before = list(cluster.holders)
    cluster.silent, cluster.speaks_after = {0}, {0: 2}
    assert await cluster.renewing.renew(range(2), 2)
    assert cluster.started == [2, 0, 1] and cluster.holders == before


async def test_a_successor_that_does_not_start_leaves_the_accounts_served() -> None:
    """By the one more owner, which then is not ended; the first owner moves them when it directs again."""
    cluster = Renewed(2)
    cluster.never_starts = {0}
    assert not await cluster.renewing.renew(range(2), 2)
    assert cluster.holders.count(2) == 512 and 2 in cluster.running


async def test_no_owner_beyond_the_routes_is_started() -> None:
    cluster = Renewed(1)
    assert not await cluster.renewing.renew([0], OWNERS_MAX)
    assert cluster.started == []


async def test_one_process_directs_moves_at_a_time(postgres_url: str) -> None:
    """For as long as its block runs, also where that ends with an error."""
    storage = StorageConfig(postgres_url=SecretStr(postgres_url))
    with pytest.raises(ActorUnreachable):
        async with alone_at(storage) as first:
            async with alone_at(storage) as second:
                assert first and not second
            raise ActorUnreachable
    async with alone_at(storage) as third:
        assert third


@pytest.mark.parametrize("checks", [0, 1, 2])
async def test_no_owner_is_ended_once_another_process_may_direct_moves(checks: int) -> None:
    """A database that restarts forgets the lock, and the first owner gives the accounts back meanwhile: an owner that
    was ended then had accounts, and these waited for its next process."""
    cluster = Renewed(2)
    left = iter([True] * checks)

    async def is_alone() -> bool:
        return next(left, False)

    with pytest.raises(Overtaken):
        await cluster.renewing.renew(range(2), 2, is_alone)
    assert cluster.started == [2, 0, 1][: 1 + checks] and 2 in cluster.running


async def test_a_lock_that_the_database_has_forgotten_is_noticed(postgres_url: str) -> None:
    storage = StorageConfig(postgres_url=SecretStr(postgres_url))
    async with alone_at(storage) as mine:
        assert mine and await mine.is_held()
        connection = await asyncpg.connect(postgres_url)
        await connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND pid <> pg_backend_pid()"
        )
        await connection.close()
        assert not await mine.is_held()
        async with alone_at(storage) as other:
            assert other
