"""Directs moves of virtual shards until they are spread evenly over as many owners as are wanted, in blocks.

Implements: design, "Owners, for every kind of actor". A shell: ownership/spread.py decides which shards move, and
moving.py moves them. Shards are spread in blocks, because each front prefers one replica for a block, so that a replica
has calls for few owners. The first owner runs this. Each step reads everything again, so it may stop at any point, and
two that run at once do no harm.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from actors.accounts.holders_store import RouteTable
from actors.accounts.moving import Handover
from actors.accounts.stored import StoreUnavailable
from actors.hosting import ActorUnreachable
from actors.ownership.api import Commanded, OwnershipUnavailable
from actors.ownership.moves import HolderAway, MovesStalled, move_slices
from actors.ownership.spread import blocks
from actors.units import VIRTUAL_SHARDS

logger = logging.getLogger(__name__)

KIND = "account-owners"
SHARDS_AT_ONCE = 32  # Shards in one move. Their accounts wait for it, some hundredths of a second.

# Calls a method of the owner with this name. Raises ActorUnreachable.
AskOwner = Callable[..., Awaitable[Any]]


class Balancing:
    """Moves shards until they are spread as wanted.

    name_of: returns the name of the owner with an index. place: starts the owners with these indexes that do not run.
    remove: ends all other owners, which have no shards.
    """

    def __init__(
        self,
        routes: Callable[[], Awaitable[RouteTable]],
        ask: AskOwner,
        place: Callable[[Sequence[int]], Awaitable[None]],
        remove_others: Callable[[Sequence[int]], Awaitable[None]],
        name_of: Callable[[int], str],
    ) -> None:
        self._routes, self._ask = routes, ask
        self._place, self._remove_others, self._name_of = place, remove_others, name_of
        self._handovers: dict[tuple[int, ...], tuple[str, Handover]] = {}

    async def step(self, commanded: Commanded) -> None:
        """Move all shards that are at the wrong owner. Moves that fail are left to the next step."""
        try:
            wanted, routes = commanded.wanted, (await self._routes()).owners
            if not routes:
                return
            names = [self._name_of(index) for index in range(wanted)]
            if [self._name_of(index) for index in routes] == list(blocks(VIRTUAL_SHARDS, {}, names).values()):
                return
            await self._place(range(wanted))
            moved = await move_slices(
                VIRTUAL_SHARDS, names, self._holders, self._give, self._take, SHARDS_AT_ONCE, aim=blocks
            )
            if moved:
                logger.info("%d shards were moved; %d owners have all of them", moved, wanted)
                await self._remove_others(range(wanted))
        except (HolderAway, MovesStalled, ActorUnreachable, StoreUnavailable, OwnershipUnavailable) as error:
            logger.warning("shards are not spread evenly yet: %s", error)
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
