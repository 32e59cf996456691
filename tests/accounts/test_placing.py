"""Owners are placed at the same time, and nobody who has accounts is ended."""

import contextlib
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from actors import hosting
from actors.accounts import placing
from actors.accounts.balancing import KIND
from actors.accounts.host import USES
from actors.actor_settings import fingerprint
from actors.config import AccountsConfig, Config
from tests.ownership.memory_store import MemoryOwnership


class Cluster:
    """ownership: the database's. running: names of actors of before."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, running: list[str], together: int) -> None:
        self.ownership = MemoryOwnership()
        self.placed: dict[str, tuple[Any, ...]] = {}
        meeting = threading.Barrier(together)

        @contextlib.asynccontextmanager
        async def opened(*_: Any) -> AsyncIterator[MemoryOwnership]:
            yield self.ownership

        def place(plain_class: type, name: str, config: Config, uses: Any, *arguments: Any) -> str:
            meeting.wait(timeout=20)
            self.placed[name] = arguments
            return name

        monkeypatch.setattr(placing, "opened_ownership", opened)
        monkeypatch.setattr(hosting, "names", lambda prefix: running)
        monkeypatch.setattr(hosting, "place_with_settings", place)


def config(owners: int) -> Config:
    return Config(accounts=AccountsConfig(shard_actors=owners))


async def test_several_owners_are_placed_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """And their references stand in the order of their indices; each learns how many there are at first."""
    cluster = Cluster(monkeypatch, [], 3)
    assert await placing.place_owners(config(3)) == [f"account-shard-{index}" for index in range(3)]
    assert cluster.placed == {f"account-shard-{index}": (index, 3) for index in range(3)}


async def test_fewer_owners_are_wanted_and_those_that_have_accounts_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are ended when their accounts have been moved (balancing.py), in the order of their numbers."""
    cluster = Cluster(monkeypatch, [f"account-shard-{index}" for index in (0, 1, 10, 2)], 4)
    assert await placing.place_owners(config(2)) == [f"account-shard-{index}" for index in (0, 1, 2, 10)]
    command = await cluster.ownership.commanded(KIND)
    assert command is not None and command.wanted == 2


async def test_an_operators_number_outlives_deployments_until_the_setting_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(monkeypatch, [], 2)
    await cluster.ownership.set_wanted(KIND, 2, 1)
    assert len(await placing.place_owners(config(1))) == 2
    assert await cluster.ownership.wanted(KIND, 4) == 4


@pytest.mark.parametrize(("theirs", "renewed"), [("0.1.0 of before", True), (None, False), ("", False)])
async def test_owners_of_another_release_are_renewed_before_any_is_ended(
    monkeypatch: pytest.MonkeyPatch, theirs: str | None, renewed: bool
) -> None:
    """None: it does not answer. Empty: it has these settings."""
    cluster, seen = Cluster(monkeypatch, ["account-shard-0"], 1), list[set[str]]()

    async def ask_each(*_: Any) -> list[str | None]:
        return [fingerprint(config(1), USES) if theirs == "" else theirs]

    async def renew(*_: Any) -> None:
        seen.append(set(cluster.placed))

    monkeypatch.setattr(hosting, "ask_each", ask_each)
    monkeypatch.setattr(placing, "_renew", renew)
    assert await placing.place_owners(config(1)) == ["account-shard-0"]
    assert seen == ([set()] if renewed else [])
