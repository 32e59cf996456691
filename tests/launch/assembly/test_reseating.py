"""Guards that actors come back to machines that have too few of them, one at a time, and stay there."""

import contextlib
from collections.abc import AsyncIterator, Collection, Mapping
from typing import Any

import pytest

from actors import actor_moves, hosting
from actors.clock import ManualClock
from actors.config import Config
from actors.launch.assembly import reseating
from actors.launch.assembly.reseating import AGAIN_SECONDS, MOVES_MAX, SETTLED_SECONDS, RayCluster, Reseating
from actors.release import RELEASE
from actors.small_actors import Spec

HEAD, ONE, TWO = "head", "one", "two"


class Machines:
    """The machines that are alive, and where each actor is. holds: names that somebody else moves back at once.
    useless: machines on which no actor works. rooted: names of actors that cannot move. lost: actors that were ended,
    and not started again."""

    def __init__(self, seats: dict[str, str], *alive: str) -> None:
        self.alive, self.where = list(alive), seats
        self.moved: list[tuple[str, str]] = []
        self.answers, self.holds, self.is_alone = True, set[str](), True
        self.useless, self.rooted, self.lost = set[str](), set[str](), list[str]()

    async def machines(self) -> Mapping[str, Mapping[str, Any]]:
        resources: dict[str, dict[str, float]] = {HEAD: {"node:__internal_head__": 1.0}}
        return {name: {"NodeID": name, "Alive": True, "Resources": resources.get(name, {})} for name in self.alive}

    async def names(self) -> tuple[Collection[str], Collection[str]]:
        return {*self.where, *self.lost}, set(self.where)

    async def seats(self) -> Mapping[str, str]:
        if not self.answers:
            raise hosting.ActorUnreachable("one of them")
        return dict(self.where)

    async def start(self, name: str) -> None:
        self.lost.remove(name)
        self.where[name] = HEAD

    async def move(self, name: str, node: str, stay: Collection[str]) -> bool:
        if not self.is_alone:
            return False
        self.moved.append((name, node))
        if node in self.useless or name in self.rooted:
            raise hosting.ActorUnreachable(name)
        if name not in self.holds:
            self.where[name] = node
        return True


class World:
    def __init__(self, machines: Machines) -> None:
        self.machines, self.clock, self.is_leaving = machines, ManualClock(), False
        self.reseating = Reseating(machines, self.clock, lambda: self.is_leaving)

    async def looks(self, count: int, seconds: float = 10.0) -> list[tuple[str, str]]:
        """The moves of so many looks."""
        before = len(self.machines.moved)
        for _ in range(count):
            await self.reseating.look()
            self.clock.advance(seconds)
        return self.machines.moved[before:]


async def test_actors_of_a_lost_machine_come_back_when_it_does() -> None:
    """One at a time, and only once the machines have stayed the same for a while: Ray restarts actors meanwhile."""
    world = World(Machines({"account-shard-0": ONE, "account-shard-1": ONE, "send-racer": ONE}, HEAD, ONE))
    assert await world.looks(9) == []
    world.machines.alive.append(TWO)
    assert await world.looks(1 + int(SETTLED_SECONDS / 10) - 1) == []
    assert await world.looks(1) == [("account-shard-1", TWO)]
    assert await world.looks(9) == [], "three actors on two machines: neither has two more"


async def test_the_head_keeps_no_actor_where_there_is_a_worker() -> None:
    world = World(Machines({"account-shard-0": HEAD, "account-shard-1": ONE}, HEAD, ONE, TWO))
    assert await world.looks(9) == [("account-shard-0", TWO)]


async def test_one_machine_alone_keeps_all() -> None:
    world = World(Machines({"account-shard-0": HEAD}, HEAD))
    assert await world.looks(9) == []


async def test_nothing_moves_while_an_actor_is_silent_or_this_process_leaves() -> None:
    """An actor that is away may be on its way to another machine; a replica that is being replaced has the settings of
    before."""
    world = World(Machines({"account-shard-0": HEAD}, HEAD, ONE))
    world.machines.answers = False
    assert await world.looks(9) == []
    world.machines.answers, world.is_leaving = True, True
    assert await world.looks(9) == []
    world.is_leaving = False
    assert await world.looks(2) == [("account-shard-0", ONE)]


async def test_a_machine_on_which_no_actor_works_is_tried_rarely() -> None:
    """Such a machine may have no way to a store, or other code. Each try takes an actor away from where it works."""
    world = World(Machines({"send-racer": HEAD, "deposit-watcher": HEAD}, HEAD, ONE))
    world.machines.is_alone = False
    assert await world.looks(9) == [], "another replica moves one now"
    world.machines.is_alone, world.machines.useless = True, {ONE}
    assert len(await world.looks(int(AGAIN_SECONDS / 10))) == 1
    world.machines.useless.clear()
    assert len(await world.looks(9)) == 2


async def test_an_actor_that_cannot_move_does_not_keep_the_others_where_they_are() -> None:
    """Such an actor came first each time, for ever: an owner of accounts beside 255 others, say, for which there is no
    index of one more. It is tried again after the others, and as rarely as before."""
    world = World(Machines({"account-shard-0": HEAD, "send-racer": HEAD, "webhook-dispatcher": HEAD}, HEAD, ONE))
    world.machines.rooted.add("account-shard-0")
    moves = await world.looks(int(3 * AGAIN_SECONDS / 10))
    assert moves[:3] == [("account-shard-0", ONE), ("send-racer", ONE), ("webhook-dispatcher", ONE)]
    assert moves[3:] == [("account-shard-0", ONE)] * 2


async def test_an_actor_that_was_lost_on_its_way_is_started_again() -> None:
    """Whoever moved it ended in the middle. Not one that was never seen to run, nor one that starts by itself."""
    world = World(Machines({"send-racer": ONE, "deposit-watcher": ONE}, HEAD, ONE))
    world.machines.lost.append("never seen")
    await world.looks(2)
    del world.machines.where["send-racer"]
    world.machines.lost.append("send-racer")
    await world.looks(1)
    assert "send-racer" in world.machines.lost
    await world.looks(1)
    assert world.machines.lost == ["never seen"] and "send-racer" in world.machines.where


async def test_what_becomes_uneven_later_is_found() -> None:
    """Another number of actors, on the same machines."""
    world = World(Machines({"account-shard-0": ONE}, HEAD, ONE, TWO))
    assert await world.looks(9) == []
    world.machines.where |= {"account-shard-1": ONE, "account-shard-2": ONE}
    assert len(await world.looks(int(AGAIN_SECONDS / 10))) == 1


async def test_an_actor_that_is_always_put_back_is_left_there_and_the_others_move() -> None:
    """Until the machines change."""
    world = World(Machines({"send-racer": HEAD, "webhook-dispatcher": HEAD}, HEAD, ONE))
    world.machines.holds.add("send-racer")
    moves = await world.looks(30)
    assert moves == [("send-racer", ONE)] * MOVES_MAX + [("webhook-dispatcher", ONE)]
    world.machines.alive.append(TWO)
    world.machines.holds.clear()
    await world.looks(9)
    assert world.machines.where["send-racer"] != HEAD


async def test_an_actor_is_started_again_while_whoever_moved_it_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that hangs still has the lock for moves: its connection to the database stands."""
    spec, started = Spec("send-racer", f"{RELEASE} of now", object, ()), list[Spec]()

    @contextlib.asynccontextmanager
    async def not_alone(*_: Any) -> AsyncIterator[bool]:
        yield False

    monkeypatch.setattr(reseating, "alone", not_alone)
    monkeypatch.setattr(actor_moves, "kept", lambda _: spec)
    monkeypatch.setattr(actor_moves, "start_missing", started.append)
    await RayCluster(Config()).start("send-racer")
    assert started == [spec]
