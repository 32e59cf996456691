"""Moves actors to machines that have too few of them: off the head, and to a worker that has come (back).

Implements: launch/README.md, "A machine that returns"; design, "Owners, for every kind of actor". A shell, run by each
replica of a cluster; which actor moves decides seats.py. Ray starts the actors of a lost machine on others, and leaves
them there. One moves at a time. An owner of accounts moves while one more has its accounts (accounts/renewing.py);
every other actor ends, and goes on from the stores at its new place, as after a kill. Not here: replicas (Serve places
them) and actors that each machine has.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol

from actors import actor_moves, hosting
from actors.accounts.placing import is_owner, move_owner
from actors.accounts.stored import StoreUnavailable
from actors.background import Background
from actors.clock import Clock
from actors.config import Config
from actors.release import RELEASE
from actors.seats import next_move
from actors.small_actors import Spec
from actors.storage.connections import alone

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 10.0
SETTLED_SECONDS = 30.0  # So long the machines stay the same before an actor moves: Ray restarts some meanwhile.
AGAIN_SECONDS = 300.0  # Until the next look for moves, when all was well, or a move failed.
MOVES_MAX = 3  # Of one actor, while the machines stay the same: somebody else may place it elsewhere each time.
_STATE_SECONDS, _STARTED_SECONDS = 5.0, 60.0
_APPLICATION = "moving actors to other machines"
_MOVING = 0x7365_6174_73  # "seats"; any fixed number that no other program uses in this database.

Machines = Mapping[str, Mapping[str, Any]]  # Ray's description of each node that is alive, by its id.


class Cluster(Protocol):
    """Each method raises ActorUnreachable, or StoreUnavailable, where it cannot be done now."""

    async def machines(self) -> Machines: ...

    async def names(self) -> tuple[Collection[str], Collection[str]]:
        """Return the names of the actors that should run, and of those among them that do."""
        ...

    async def seats(self) -> Mapping[str, str]:
        """Return the node of each actor that may move, by the actor's name."""
        ...

    async def move(self, name: str, node: str, stay: Collection[str]) -> bool:
        """Start an actor on this node. False: another process moves one now, or has done so."""
        ...

    async def start(self, name: str) -> None:
        """Start an actor that does not run, on any node. Not one that runs by now."""
        ...


class Reseating:
    """is_leaving: whether this process leaves, and so moves nothing."""

    def __init__(self, cluster: Cluster, clock: Clock, is_leaving: Callable[[], bool] = lambda: False) -> None:
        self._cluster, self._clock, self._is_leaving = cluster, clock, is_leaving
        self._known: frozenset[str] = frozenset()
        self._not_before = 0.0  # Monotonic time of the next move.
        self._moves: Counter[str] = Counter()
        self._failed: set[str] = set()  # Actors whose latest move failed: others have their turn before them.
        self._seen: set[str] = set()  # Actors that ran once, and of those the ones that did not at the latest look.
        self._missing: set[str] = set()
        self._background = Background(logger, "looking for actors that are on the wrong machine failed")

    def start(self) -> None:
        self._background.repeat(self.look, _LOOK_SECONDS)

    async def stop(self) -> None:
        await self._background.stop()

    async def look(self) -> None:
        """Look once, and start or move one actor where that is due."""
        if self._is_leaving():
            return
        now = self._clock.monotonic()
        try:
            machines = await self._cluster.machines()
            if machines.keys() != self._known:
                self._known, self._not_before = frozenset(machines), now + SETTLED_SECONDS
                self._moves.clear()
                self._failed.clear()
            if len(machines) < 2:
                return
            if not await self._start_missing() and now >= self._not_before:
                await self._move_one(machines)
        except (hosting.ActorUnreachable, StoreUnavailable) as error:
            logger.warning("actors are not where they should be yet: %s", error)

    async def _start_missing(self) -> bool:
        """Start an actor that ran, should run, and does not at two looks: whoever moved it has ended in the middle."""
        should, do = await self._cluster.names()
        self._seen = (self._seen | set(do)) & set(should)
        missing = self._seen - set(do)
        lost = sorted(missing & self._missing)
        self._missing = missing
        if lost:
            logger.error("%s was ended on its way to another machine; it is started again", lost[0])
            await self._cluster.start(lost[0])
        return bool(missing)

    async def _move_one(self, machines: Machines) -> None:
        stay = {name for name, count in self._moves.items() if count >= MOVES_MAX} | self._failed
        move = next_move(await self._cluster.seats(), machines.values(), stay)
        if move is None:
            if self._failed:
                self._failed.clear()
                return
            self._not_before = self._clock.monotonic() + AGAIN_SECONDS
            return
        name, node = move
        try:
            has_moved = await self._cluster.move(name, node, stay)
        except hosting.ActorUnreachable:
            self._failed.add(name)
            self._not_before = self._clock.monotonic() + AGAIN_SECONDS
            raise
        if has_moved:
            self._moves[name] += 1
            logger.info("%s has moved to the machine %s", name, machines[node].get("NodeManagerAddress", node))
            if self._moves[name] == MOVES_MAX:
                logger.error("%s was moved %d times, and stays where it is from now on", name, MOVES_MAX)


class RayCluster:
    """The actors of this cluster. Needs a connected Ray."""

    def __init__(self, config: Config) -> None:
        self._config = config

    async def machines(self) -> Machines:
        return await asyncio.to_thread(actor_moves.machines)

    async def names(self) -> tuple[Collection[str], Collection[str]]:
        return await asyncio.to_thread(actor_moves.kept_and_running)

    async def seats(self) -> Mapping[str, str]:
        _, running = await self.names()
        names = sorted(running)
        states = await hosting.ask_each(map(hosting.Reference, names), "actor_state", _STATE_SECONDS)
        nodes = {str(node["NodeManagerAddress"]): id for id, node in (await self.machines()).items()}
        machines = [state and str(state["machine"]) for state in states]
        found = {name: nodes[machine] for name, machine in zip(names, machines, strict=True) if machine in nodes}
        if len(found) < len(names):
            raise hosting.ActorUnreachable(f"{', '.join(sorted(set(names) - set(found)))}: no answer")
        return found

    async def move(self, name: str, node: str, stay: Collection[str]) -> bool:
        async with alone(self._config.storage, _MOVING, _APPLICATION, StoreUnavailable) as is_alone:
            if not is_alone:
                return False
            seats = await self.seats()
            if next_move(seats, (await self.machines()).values(), stay) != (name, node):
                return False  # Another process moved an actor before this one had the lock.
            spec = await self._spec(name)
            if is_owner(name):
                return await move_owner(self._config, spec, node)
            await asyncio.to_thread(actor_moves.start_on, spec, node)
            await self._works(spec, node, seats[name])
            return True

    async def start(self, name: str) -> None:
        # Not alone: a process that hangs in the middle of a move keeps the lock, and the actor runs nowhere meanwhile.
        await asyncio.to_thread(actor_moves.start_missing, await self._spec(name))

    async def _spec(self, name: str) -> Spec:
        spec = await asyncio.to_thread(actor_moves.kept, name)
        # Of another release: its machines have other code by now, and a deployment follows.
        if spec is None or spec.fingerprint.split(" ")[0] != RELEASE:
            raise hosting.ActorUnreachable(f"{name}: it is of another release")
        return spec

    async def _works(self, spec: Spec, node: str, before: str) -> None:
        """Bring an actor back that cannot work at its new place: the machine may not reach a store, or have other code.
        It tells its state once it has opened its connections."""
        try:
            await actor_moves.works(spec.name, _STARTED_SECONDS)
        except hosting.ActorUnreachable as error:
            logger.error("%s does not start on the machine %s, and goes back: %s", spec.name, node, error)
            await asyncio.to_thread(actor_moves.start_on, spec, before, even_silent=True)
            raise
