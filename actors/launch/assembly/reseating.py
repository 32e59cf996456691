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
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from actors import hosting
from actors.accounts.placing import is_owner, move_owner
from actors.accounts.stored import StoreUnavailable
from actors.background import Background
from actors.clock import Clock
from actors.config import Config
from actors.seats import next_move
from actors.storage.connections import alone

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 10.0
SETTLED_SECONDS = 30.0  # So long the machines stay the same before an actor moves: Ray restarts some meanwhile.
MOVES_MAX = 3  # Of one actor, while the machines stay the same: somebody else may place it elsewhere each time.
_STATE_SECONDS = 5.0
_APPLICATION = "moving actors to other machines"
_MOVING = 0x7365_6174_73  # "seats"; any fixed number that no other program uses in this database.


class Cluster(Protocol):
    async def machines(self) -> Mapping[str, Mapping[str, Any]]:
        """Return Ray's description of each node that is alive, by its id."""
        ...

    async def seats(self) -> Mapping[str, str] | None:
        """Return the node of each actor that may move, by the actor's name. None: not all of them answer."""
        ...

    async def move(self, name: str, node: str) -> bool:
        """Start an actor on this node. False: another process moves one now. Raises ActorUnreachable,
        StoreUnavailable."""
        ...


class Reseating:
    """is_leaving: whether this process leaves, and so moves nothing."""

    def __init__(self, cluster: Cluster, clock: Clock, is_leaving: Callable[[], bool] = lambda: False) -> None:
        self._cluster, self._clock, self._is_leaving = cluster, clock, is_leaving
        self._known: frozenset[str] = frozenset()
        self._same_since, self._is_settled = 0.0, False
        self._moves: Counter[str] = Counter()
        self._background = Background(logger, "looking for actors that are on the wrong machine failed")

    def start(self) -> None:
        self._background.repeat(self.look, _LOOK_SECONDS)

    async def stop(self) -> None:
        await self._background.stop()

    async def look(self) -> None:
        """Look once, and move one actor where that is due."""
        if self._is_leaving():
            return
        machines = await self._cluster.machines()
        if machines.keys() != self._known:
            self._known, self._same_since, self._is_settled = frozenset(machines), self._clock.monotonic(), False
            self._moves.clear()
        if self._is_settled or len(machines) < 2 or self._clock.monotonic() - self._same_since < SETTLED_SECONDS:
            return
        try:
            seats = await self._cluster.seats()
            if seats is not None:
                await self._move_one(seats, machines)
        except (hosting.ActorUnreachable, StoreUnavailable) as error:
            logger.warning("an actor is not on another machine yet: %s", error)

    async def _move_one(self, seats: Mapping[str, str], machines: Mapping[str, Mapping[str, Any]]) -> None:
        move = next_move(seats, machines.values())
        self._is_settled = move is None or self._moves[move[0]] >= MOVES_MAX
        if move is None:
            return
        name, node = move
        if self._is_settled:
            logger.error("%s stays where it is: it was moved %d times, and was elsewhere again", name, MOVES_MAX)
            return
        if await self._cluster.move(name, node):
            self._moves[name] += 1
            logger.info("%s has moved to the machine %s", name, machines[node].get("NodeManagerAddress", node))


class RayCluster:
    """The actors of this cluster. Needs a connected Ray."""

    def __init__(self, config: Config) -> None:
        self._config = config

    async def machines(self) -> Mapping[str, Mapping[str, Any]]:
        return await asyncio.to_thread(hosting.machines)

    async def seats(self) -> Mapping[str, str] | None:
        names = list(await asyncio.to_thread(hosting.kept_specs))
        states = await hosting.ask_each(map(hosting.Reference, names), "actor_state", _STATE_SECONDS)
        nodes = {str(node["NodeManagerAddress"]): id for id, node in (await self.machines()).items()}
        pairs = [(name, state) for name, state in zip(names, states, strict=True) if state is not None]
        found = {name: nodes.get(str(state["machine"])) for name, state in pairs}
        known = {name: node for name, node in found.items() if node is not None}
        return known if len(known) == len(names) else None

    async def move(self, name: str, node: str) -> bool:
        async with alone(self._config.storage, _MOVING, _APPLICATION, StoreUnavailable) as is_alone:
            spec = (await asyncio.to_thread(hosting.kept_specs)).get(name)
            # Whoever had the lock before may have moved it.
            if not is_alone or spec is None or (await self.seats() or {}).get(name) == node:
                return False
            if is_owner(name):
                return await move_owner(self._config, spec, node)
            await asyncio.to_thread(hosting.start_on, spec, node)
            return True
