"""The first owner spreads the shards over as many owners as are wanted, and ends those that are not."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from actors.accounts.balancing import Balancing
from actors.accounts.holders_store import route_table
from actors.accounts.moving import Handover
from actors.hosting import ActorUnreachable
from actors.ownership.api import Commanded
from tests.accounts.memory_holders import by_holder


class Cluster:
    def __init__(self, owners: int, wanted: int) -> None:
        self.holders = [number * owners // 1024 for number in range(1024)]
        self.wanted, self.running = wanted, set(range(owners))
        self.silent: set[int] = set()
        self.others_direct = False
        self.refusing: set[int] = set()
        self.calls: list[tuple[str, int, int]] = []
        self.balancing = Balancing(self.routes, self.ask, self.place, self.has_others, self.remove, str, self.alone)

    async def routes(self) -> Any:
        return route_table(by_holder({shard: (holder, 1) for shard, holder in enumerate(self.holders)}))

    async def step(self) -> None:
        await self.balancing.step(Commanded(self.wanted, 1))

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[bool]:
        yield not self.others_direct

    async def place(self, indexes: Sequence[int]) -> None:
        self.running |= set(indexes)

    async def has_others(self, kept: Sequence[int]) -> bool:
        return not self.running <= set(kept)

    async def remove(self, kept: Sequence[int]) -> None:
        assert set(self.holders) <= set(kept), "an owner that has accounts was ended"
        self.running &= set(kept)

    async def ask(self, name: str, method: str, shards: Sequence[int], *more: Any) -> Any:
        await asyncio.sleep(0)
        owner = int(name)
        if owner in self.silent or owner not in self.running:
            raise ActorUnreachable(name)
        self.calls.append((method, owner, len(shards)))
        if method == "give":
            return Handover(owner, 1)
        if method == "take":
            if owner in self.refusing:
                return "no"
            assert more[0].giver == self.holders[shards[0]]
            for shard in shards:
                self.holders[shard] = owner
        return None

    def counts(self) -> list[int]:
        return [self.holders.count(owner) for owner in sorted(set(self.holders))]


async def test_shards_follow_the_wanted_number_both_ways() -> None:
    cluster = Cluster(2, 3)
    await cluster.step()
    assert cluster.counts() == [342, 341, 341] and cluster.running == {0, 1, 2}
    assert max(count for _, _, count in cluster.calls) <= 32
    assert [method for method, _, _ in cluster.calls[:3]] == ["give", "take", "given"]
    calls = list(cluster.calls)
    await cluster.step()
    assert cluster.calls == calls
    cluster.wanted = 1
    await cluster.step()
    assert set(cluster.holders) == {0} and cluster.running == {0}


async def test_nothing_is_moved_while_another_process_directs_moves() -> None:
    """It may have moved the shards of an owner away to replace that owner (renewing.py)."""
    cluster = Cluster(2, 2)
    cluster.holders = [2] * 512 + [1] * 512
    cluster.running, cluster.others_direct = {0, 1, 2}, True
    await cluster.step()
    assert cluster.calls == [] and cluster.running == {0, 1, 2}
    cluster.others_direct = False
    await cluster.step()
    assert cluster.counts() == [512, 512] and cluster.running == {0, 1}


async def test_shards_of_a_release_that_mixed_them_are_put_in_blocks() -> None:
    """As the fronts prefer replicas: neighbours have one owner. Numbers are even before and after."""
    cluster = Cluster(2, 2)
    cluster.holders = [number % 2 for number in range(1024)]
    await cluster.step()
    assert cluster.holders == [0] * 512 + [1] * 512
    assert {method for method, _, _ in cluster.calls} == {"give", "take", "given"}


async def test_an_owner_that_does_not_answer_keeps_its_shards_until_it_does() -> None:
    """It is started again by Ray, and takes them along; they are taken from nobody."""
    cluster = Cluster(3, 2)
    cluster.silent = {2}
    await cluster.step()
    assert cluster.holders.count(2) == 341 and 2 in cluster.running
    cluster.silent = set()
    await cluster.step()
    assert cluster.counts() == [512, 512] and cluster.running == {0, 1}


async def test_a_taker_that_cannot_gives_the_shards_back() -> None:
    cluster = Cluster(2, 3)
    cluster.refusing = {2}
    await cluster.step()
    assert cluster.counts() == [342, 682], "the others have their blocks, and the second what is to be the third's"
    assert ("take_back", 1, 32) in cluster.calls


async def test_an_owner_that_a_killed_renewal_left_without_shards_is_ended() -> None:
    """Within a minute, and not while another process renews owners: it may be about to give that one shards."""
    cluster = Cluster(2, 2)
    await cluster.step()
    cluster.running, cluster.others_direct = {0, 1, 2}, True
    for _ in range(60):
        await cluster.step()
    assert cluster.running == {0, 1, 2}
    cluster.others_direct = False
    for _ in range(30):
        await cluster.step()
    assert cluster.running == {0, 1} and cluster.calls == []


async def test_an_owner_beyond_the_wanted_number_that_ended_with_ray_is_started_for_its_shards() -> None:
    """A renewal, or a smaller number, was under way when all of Ray ended: nobody else places that owner, and without
    it its accounts had none for ever."""
    cluster = Cluster(3, 2)
    cluster.running = {0, 1}
    await cluster.step()
    assert cluster.counts() == [512, 512] and cluster.running == {0, 1}
