"""Directs moves of virtual shards until they are spread evenly over as many owners as are wanted, in blocks.

Implements: design, "Owners, for every kind of actor". A shell; which shards move decides ownership/spread.py, and how
one moves moving.py. In blocks, as each front prefers a replica for a block: so a replica has calls for few owners. The
first owner runs this. Everything is read anew each time, so it may end anywhere. One at a time directs, and renewing.py
is another that does: else shards that one moves away to replace their owner would be moved back to it.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from actors.accounts.holders_store import RouteTable
from actors.accounts.moving import Handover
from actors.accounts.stored import StoreUnavailable
from actors.config import StorageConfig
from actors.hosting import ActorUnreachable
from actors.ownership.api import Commanded, OwnershipUnavailable
from actors.ownership.moves import Aim, HolderAway, MovesStalled, move_slices
from actors.ownership.spread import blocks
from actors.storage.connections import Lock, alone
from actors.units import VIRTUAL_SHARDS

logger = logging.getLogger(__name__)

KIND = "account-owners"
SHARDS_AT_ONCE = 32  # Shards in one move. Their accounts wait for it, some hundredths of a second.
_STEPS_OF_LOOK = 30  # Between two looks for owners without shards: a minute (host.py).

# Calls a method of the owner with this name. Raises ActorUnreachable.
AskOwner = Callable[..., Awaitable[Any]]


# Whether nobody else directs moves, for as long as the block runs.
Alone = Callable[[], AbstractAsyncContextManager[Lock | bool]]

_DIRECTING = 0x6F77_6E65_7273  # "owners"; any fixed number that no other program uses in this database.

# What keeps a move from being made now.
NOT_NOW = (HolderAway, MovesStalled, ActorUnreachable, StoreUnavailable, OwnershipUnavailable)


def alone_at(storage: StorageConfig) -> AbstractAsyncContextManager[Lock]:
    """An Alone of all processes with this database. Raises StoreUnavailable."""
    return alone(storage, _DIRECTING, "directing moves of accounts", StoreUnavailable)


class ShardMover:
    """Has owners hand shards over. name_of: the name of the owner with an index."""

    def __init__(
        self, routes: Callable[[], Awaitable[RouteTable]], ask: AskOwner, name_of: Callable[[int], str]
    ) -> None:
        self._routes, self._ask, self._name_of = routes, ask, name_of
        self._handovers: dict[tuple[int, ...], tuple[str, Handover]] = {}

    async def move(self, names: Sequence[str], aim: Aim) -> int:
        """Move shards until they are where `aim` wants them among these owners; returns how many were moved. Raises one
        of NOT_NOW: what was moved stays moved."""
        try:
            return await move_slices(
                VIRTUAL_SHARDS, names, self._holders, self._give, self._take, SHARDS_AT_ONCE, aim=aim
            )
        finally:
            self._handovers.clear()

    async def _holders(self) -> Mapping[int, str]:
        return {shard: self._name_of(index) for shard, index in enumerate((await self._routes()).owners)}

    async def _give(self, giver: str, shards: Sequence[int]) -> None:
        handover = await self._asked(giver, "give", list(shards))
        self._handovers[tuple(shards)] = giver, handover

    async def _take(self, taker: str, shards: Sequence[int]) -> None:
        giver, handover = self._handovers.get(tuple(shards), ("", None))
        if handover is None:
            raise HolderAway("the owner of its shards does not answer; it takes them along where it starts again")
        if giver == taker:
            await self._asked(taker, "take_back", list(shards))
            return
        await self._asked(taker, "take", list(shards), handover)
        await self._asked(giver, "given", list(shards))

    async def _asked(self, name: str, method: str, *arguments: Any) -> Any:
        try:
            answer = await self._ask(name, method, *arguments)
        except ActorUnreachable as error:
            raise HolderAway(str(error)) from error
        if isinstance(answer, str):
            raise HolderAway(answer)
        return answer


class Balancing:
    """name_of: the name of the owner with an index. place: starts the owners with these indexes that do not run.
    has_others: whether other owners than these run. remove_others: ends them; they have no shards."""

    def __init__(
        self,
        routes: Callable[[], Awaitable[RouteTable]],
        ask: AskOwner,
        place: Callable[[Sequence[int]], Awaitable[None]],
        has_others: Callable[[Sequence[int]], Awaitable[bool]],
        remove_others: Callable[[Sequence[int]], Awaitable[None]],
        name_of: Callable[[int], str],
        alone: Alone,
    ) -> None:
        self._routes, self._name_of, self._alone = routes, name_of, alone
        self._place, self._has_others, self._remove_others = place, has_others, remove_others
        self._mover = ShardMover(routes, ask, name_of)
        self._steps_to_look = 0

    async def step(self, commanded: Commanded) -> None:
        """Move all shards that are not where they shall be; what cannot be done now is left to the next step."""
        wanted = commanded.wanted
        try:
            routes = (await self._routes()).owners
            if not routes:
                return
            if self._are_as_wanted(routes, wanted):
                await self._look_for_others(wanted)
                return
            async with self._alone() as is_alone:
                if is_alone:
                    await self._spread(wanted)
        except NOT_NOW as error:
            logger.warning("shards are not spread evenly yet: %s", error)

    def _are_as_wanted(self, routes: bytes, wanted: int) -> bool:
        target = blocks(VIRTUAL_SHARDS, {}, self._names(wanted)).values()
        return [self._name_of(index) for index in routes] == list(target)

    async def _look_for_others(self, wanted: int) -> None:
        """End owners without shards. A process that renewed owners leaves one when it is killed before it gave that one
        shards, or behind that."""
        self._steps_to_look -= 1
        if self._steps_to_look > 0:
            return
        self._steps_to_look = _STEPS_OF_LOOK
        if not await self._has_others(range(wanted)):
            return
        async with self._alone() as is_alone:
            if is_alone and self._are_as_wanted((await self._routes()).owners, wanted):
                await self._remove_others(range(wanted))

    async def _spread(self, wanted: int) -> None:
        # Holders beyond the wanted number, too: one that ended with the whole of Ray must run again to give its shards.
        await self._place(sorted({*range(wanted), *(await self._routes()).owners}))
        moved = await self._mover.move(self._names(wanted), blocks)
        if moved:
            logger.info("%d shards were moved; %d owners have all of them", moved, wanted)
            await self._remove_others(range(wanted))

    def _names(self, wanted: int) -> list[str]:
        return [self._name_of(index) for index in range(wanted)]
