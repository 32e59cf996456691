"""Owners are placed at the same time, and nobody who has accounts is ended."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest
from pydantic import SecretStr

from actors import actor_moves, hosting
from actors.accounts import placing
from actors.accounts.balancing import KIND, alone_at
from actors.accounts.host import USES
from actors.accounts.renewing import Renewing
from actors.actor_settings import fingerprint
from actors.config import AccountsConfig, Config, StorageConfig
from actors.small_actors import Spec
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
        monkeypatch.setattr(hosting, "names", lambda prefix: list(running))
        monkeypatch.setattr(hosting, "place_with_settings", place)


def config(owners: int) -> Config:
    return Config(accounts=AccountsConfig(shard_actors=owners))


async def test_several_owners_are_placed_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """And each learns how many there are at first."""
    cluster = Cluster(monkeypatch, [], 3)
    await placing.place_owners(config(3))
    assert cluster.placed == {f"account-shard-{index}": (index, 3) for index in range(3)}


async def test_fewer_owners_are_wanted_and_those_that_have_accounts_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first owner ends them when their accounts have been moved (balancing.py)."""
    cluster = Cluster(monkeypatch, [f"account-shard-{index}" for index in (0, 1, 10, 2)], 1)
    _answering(monkeypatch, {})
    await placing.place_owners(config(2))
    assert cluster.placed == {}
    command = await cluster.ownership.commanded(KIND)
    assert command is not None and command.wanted == 2


async def test_an_operators_number_outlives_deployments_until_the_setting_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(monkeypatch, [], 2)
    await cluster.ownership.set_wanted(KIND, 2, 1)
    await placing.place_owners(config(1))
    assert len(cluster.placed) == 2
    assert await cluster.ownership.wanted(KIND, 4) == 4


OURS, OLD = fingerprint(config(1), USES), "0.1.0 of before"


def _answering(monkeypatch: pytest.MonkeyPatch, others: dict[str, str | None]) -> None:
    """Owners answer that they have these settings, unless `others` says what they answer. None: nothing."""

    async def ask_each(references: Iterable[Any], *_: Any) -> list[str | None]:
        return [others.get(reference._name, OURS) for reference in references]

    monkeypatch.setattr(hosting, "ask_each", ask_each)


@pytest.mark.parametrize(("theirs", "renewed"), [(OLD, True), (None, False), (OURS, False)])
async def test_owners_of_another_release_are_renewed_before_any_is_ended(
    monkeypatch: pytest.MonkeyPatch, theirs: str | None, renewed: bool
) -> None:
    """None: it does not answer."""
    cluster, seen = Cluster(monkeypatch, ["account-shard-0"], 1), list[set[str]]()
    _answering(monkeypatch, {"account-shard-0": theirs})

    async def renew(*_: Any) -> bool:
        seen.append(set(cluster.placed))
        return True

    monkeypatch.setattr(placing, "_renew", renew)
    await placing.place_owners(config(1))
    assert seen == ([set()] if renewed else [])
    assert cluster.placed == {}, "and whoever renewed them has ended those that it could not renew"


async def test_owners_that_cannot_be_renewed_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the database does not answer, or another process moves accounts for ten minutes."""
    cluster = Cluster(monkeypatch, ["account-shard-0", "account-shard-1"], 1)
    _answering(monkeypatch, {"account-shard-1": OLD})

    async def renew(*_: Any) -> bool:
        return False

    monkeypatch.setattr(placing, "_renew", renew)
    await placing.place_owners(config(2))
    assert cluster.placed == {"account-shard-1": (1, 2)}


async def test_the_one_more_of_another_replicas_renewal_is_not_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """All new replicas of a deployment start at once: one renews, the others see the one more owner, and wait. Each
    deployment left an owner more, without accounts."""
    running = ["account-shard-0", "account-shard-1"]
    cluster = Cluster(monkeypatch, running, 1)
    _answering(monkeypatch, {"account-shard-0": OLD})

    async def renew(*_: Any) -> bool:
        running.remove("account-shard-1")
        return True

    monkeypatch.setattr(placing, "_renew", renew)
    await placing.place_owners(config(1))
    assert cluster.placed == {}


@pytest.mark.parametrize("renews", [True, False])
async def test_only_one_process_at_a_time_ends_owners_with_their_accounts(
    monkeypatch: pytest.MonkeyPatch, postgres_url: str, renews: bool
) -> None:
    """A process that fails to renew ends them while no other may renew: that one's may have just been replaced."""
    cluster = Cluster(monkeypatch, ["account-shard-0"], 1)
    _answering(monkeypatch, {"account-shard-0": OLD})
    mine = config(1).model_copy(update={"storage": StorageConfig(postgres_url=SecretStr(postgres_url))})
    place, free = hosting.place_with_settings, list[bool]()

    async def is_free() -> bool:
        async with alone_at(mine.storage) as is_alone:
            return bool(is_alone)

    def watched(*arguments: Any) -> Any:
        free.append(asyncio.run(is_free()))
        return place(*arguments)

    async def renew(*_: Any) -> bool:
        return renews

    monkeypatch.setattr(hosting, "place_with_settings", watched)
    monkeypatch.setattr(Renewing, "renew", renew)
    await placing.place_owners(mine)
    assert free == ([] if renews else [False])
    assert len(cluster.placed) == len(free)


@pytest.mark.parametrize("told", ["of theirs", "of a deployment meanwhile"])
async def test_an_owner_moves_to_a_machine_with_its_own_settings(
    monkeypatch: pytest.MonkeyPatch, postgres_url: str, told: str
) -> None:
    """The process that moves an owner may be of an earlier or a later deployment. One more owner has its accounts
    meanwhile, and the same settings. While another process directs moves nothing is done, nor with an owner that was
    replaced."""
    Cluster(monkeypatch, ["account-shard-0", "account-shard-4"], 1)
    kept: list[str] = []
    started: list[tuple[str, str, tuple[Any, ...]]] = []
    monkeypatch.setattr(actor_moves, "keep", lambda spec: kept.append(spec.name))
    monkeypatch.setattr(actor_moves, "start_on", lambda spec, node: started.append((spec.name, node, spec.arguments)))

    async def asked(_: Any, method: str, **__: Any) -> Any:
        return told if method == "fingerprint" else {"machine": "10.0.0.1"}

    async def renew(self: Any, outdated: list[int], spare: int, _: Any) -> bool:
        for index in (spare, *outdated):
            await self._start(index)
        return True

    monkeypatch.setattr(hosting, "ask", asked)
    monkeypatch.setattr(actor_moves, "ask", asked)
    monkeypatch.setattr(Renewing, "renew", renew)
    mine = config(1).model_copy(update={"storage": StorageConfig(postgres_url=SecretStr(postgres_url))})
    spec = Spec("account-shard-4", "of theirs", object, ("settings", "of theirs", 4, 2))
    async with alone_at(mine.storage):
        assert not await placing.move_owner(mine, spec, "node")
    assert started == []
    if told != spec.fingerprint:
        with pytest.raises(hosting.ActorUnreachable):
            await placing.move_owner(mine, spec, "node")
        assert started == []
        return
    assert await placing.move_owner(mine, spec, "node")
    assert started == [
        ("account-shard-5", "node", ("settings", "of theirs", 5, 2)),
        ("account-shard-4", "node", ("settings", "of theirs", 4, 2)),
    ]
    assert kept == [name for name, *_ in started], "so one that is lost on the way is started again"


async def test_an_owner_whose_accounts_cannot_be_moved_is_said_to_stay(
    monkeypatch: pytest.MonkeyPatch, postgres_url: str
) -> None:
    """Each try starts one more owner, so it is not made again at once."""
    Cluster(monkeypatch, ["account-shard-0"], 1)

    async def asked(*_: Any, **__: Any) -> str:
        return "ours"

    async def renew(*_: Any) -> bool:
        return False

    monkeypatch.setattr(hosting, "ask", asked)
    monkeypatch.setattr(Renewing, "renew", renew)
    mine = config(1).model_copy(update={"storage": StorageConfig(postgres_url=SecretStr(postgres_url))})
    with pytest.raises(hosting.ActorUnreachable):
        await placing.move_owner(mine, Spec("account-shard-0", "ours", object, ("", "", 0, 1)), "node")
