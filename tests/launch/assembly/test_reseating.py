"""Guards that actors come back to machines that have too few of them, one at a time, and stay there."""

from collections.abc import Mapping
from typing import Any

from actors import hosting
from actors.clock import ManualClock
from actors.launch.assembly.reseating import MOVES_MAX, SETTLED_SECONDS, Reseating

HEAD, ONE, TWO = "head", "one", "two"


class Machines:
    """Those that are alive, and where each actor is. holds: names that somebody else moves back at once."""

    def __init__(self, seats: dict[str, str], *alive: str) -> None:
        self.alive, self.where = list(alive), seats
        self.moved: list[tuple[str, str]] = []
        self.answers, self.holds, self.is_alone = True, set[str](), True

    async def machines(self) -> Mapping[str, Mapping[str, Any]]:
        resources: dict[str, dict[str, float]] = {HEAD: {"node:__internal_head__": 1.0}}
        return {name: {"NodeID": name, "Alive": True, "Resources": resources.get(name, {})} for name in self.alive}

    async def seats(self) -> Mapping[str, str] | None:
        return dict(self.where) if self.answers else None

    async def move(self, name: str, node: str) -> bool:
        if not self.is_alone:
            return False
        if node not in self.alive:
            raise hosting.ActorUnreachable(name)
        self.moved.append((name, node))
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
    """What is away may be on its way to another machine; a replica that is being replaced has the settings of
    before."""
    world = World(Machines({"account-shard-0": HEAD}, HEAD, ONE))
    world.machines.answers = False
    assert await world.looks(9) == []
    world.machines.answers, world.is_leaving = True, True
    assert await world.looks(9) == []
    world.is_leaving = False
    assert await world.looks(2) == [("account-shard-0", ONE)]


async def test_a_move_that_cannot_be_made_now_is_made_later() -> None:
    """Another replica moves one now; then the machine is gone in the moment of the move."""
    world = World(Machines({"send-racer": HEAD}, HEAD, ONE))
    world.machines.is_alone = False
    assert await world.looks(9) == []
    world.machines.is_alone = True
    described = await world.machines.machines()
    world.machines.alive.remove(ONE)
    await world.reseating._cluster.machines()
    world.machines.machines = lambda: _ready(described)  # type: ignore[method-assign]
    assert await world.looks(2) == []
    world.machines.alive.append(ONE)
    assert await world.looks(1) == [("send-racer", ONE)]


async def _ready(described: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Mapping[str, Any]]:
    return described


async def test_an_actor_that_is_always_put_back_is_left_there_until_the_machines_change() -> None:
    world = World(Machines({"send-racer": HEAD}, HEAD, ONE))
    world.machines.holds.add("send-racer")
    assert await world.looks(30) == [("send-racer", ONE)] * MOVES_MAX
    world.machines.alive.append(TWO)
    world.machines.holds.clear()
    assert len(await world.looks(9)) == 1 and world.machines.where["send-racer"] != HEAD
