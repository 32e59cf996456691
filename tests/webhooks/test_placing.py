"""Dispatchers are placed as many as are wanted, with even shares, and none is ended while it holds a slice."""

from typing import Any

import pytest

from actors import hosting
from actors.config import Config, StorageConfig, WebhooksConfig
from actors.ownership.api import Commanded, OwnershipUnavailable
from actors.webhooks import host, placing
from actors.webhooks.host import place_dispatchers
from actors.webhooks.placing import is_even, shares
from actors.webhooks.slices import KIND
from tests.ownership.memory_store import MemoryOwnership

FIRST, SECOND, THIRD = "webhook-dispatcher", "webhook-dispatcher-1", "webhook-dispatcher-2"


class Cluster:
    """Dispatchers of a cluster. silent: those that do not answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store, self.silent = MemoryOwnership(), set[str]()
        self.placed: list[str] = []
        self.kept: set[str] | None = None
        self.steps: list[tuple[str, str]] = []
        monkeypatch.setattr(host, "opened_ownership", lambda *_: self)
        monkeypatch.setattr(hosting, "place_with_settings", self._place)
        monkeypatch.setattr(hosting, "remove_others", self._remove_others)
        monkeypatch.setattr(hosting, "ask", self._ask)
        monkeypatch.setattr(placing, "_AGAIN_SECONDS", 0.0)

    async def __aenter__(self) -> MemoryOwnership:
        return self.store

    async def __aexit__(self, *_: Any) -> None: ...

    def _place(self, actor_class: type, name: str, *_: Any) -> None:
        self.placed.append(name)

    def _remove_others(self, prefix: str, names: set[str]) -> None:
        assert prefix == FIRST
        self.kept = names

    async def _ask(self, reference: Any, method: str, slices: list[int], wait_seconds: float) -> None:
        name = reference._name
        if name in self.silent:
            raise hosting.ActorUnreachable(method)
        self.steps.append((method, name))
        if method == "take":
            await self.store.claim(KIND, slices, name)

    async def place(self, dispatchers: int) -> int:
        opener: Any = None
        config = Config(storage=StorageConfig(), webhooks=WebhooksConfig(dispatchers=dispatchers))
        return await place_dispatchers(config, opener, opener, opener)

    async def shares(self) -> dict[str, int]:
        return shares(await self.store.holders(KIND))


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(monkeypatch)


async def test_dispatchers_come_and_go_with_even_shares(cluster: Cluster) -> None:
    for count, held in (
        (1, {FIRST: 64}),
        (3, {FIRST: 22, SECOND: 21, THIRD: 21}),
        (1, {FIRST: 64}),
    ):
        assert await cluster.place(count) == count
        assert await cluster.shares() == held and cluster.kept == set(held)
        assert is_even(await cluster.store.holders(KIND), count)
        assert not is_even(await cluster.store.holders(KIND), count + 1)
    assert cluster.steps == [
        ("take", FIRST),
        *[("give", FIRST), ("take", SECOND)],
        *[("give", FIRST), ("take", THIRD)],
        *[("give", SECOND), ("take", FIRST)],
        *[("give", THIRD), ("take", FIRST)],
    ]
    before = await cluster.store.holders(KIND)
    await cluster.place(1)
    assert await cluster.store.holders(KIND) == before  # A second replica of a deployment moves nothing.


async def test_an_operators_number_wins_until_the_setting_changes(cluster: Cluster) -> None:
    """And the first dispatcher reads which setting it was given under."""
    await cluster.store.set_wanted(KIND, 3, 1)
    assert await cluster.place(1) == 3
    assert await cluster.store.commanded(KIND) == Commanded(3, 1)
    assert await cluster.place(2) == 2
    assert await cluster.store.commanded(KIND) == Commanded(2, 2)


async def test_a_dispatcher_that_does_not_answer_keeps_what_it_has_until_the_next_time(cluster: Cluster) -> None:
    """Nobody is ended: one that is wanted no more may hold what the silent one should take."""
    await cluster.place(1)
    cluster.silent, cluster.kept = {SECOND}, None
    await cluster.place(2)
    assert await cluster.shares() == {FIRST: 64} and cluster.kept is None
    cluster.silent = set()
    await cluster.place(2)
    assert await cluster.shares() == {FIRST: 32, SECOND: 32}


async def test_slices_of_one_that_is_gone_are_taken_all_the_same(cluster: Cluster) -> None:
    await cluster.place(2)
    cluster.silent = {SECOND}
    await cluster.place(1)
    assert await cluster.shares() == {FIRST: 64} and cluster.kept == {FIRST}


async def test_without_the_store_those_of_the_settings_are_placed_and_nothing_moves(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: Any) -> int:
        raise OwnershipUnavailable

    monkeypatch.setattr(cluster.store, "wanted", away)
    assert await cluster.place(2) == 2
    assert cluster.placed == [FIRST, SECOND] and cluster.steps == [] and cluster.kept is None
