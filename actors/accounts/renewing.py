"""Replaces owners of an earlier release, or with other settings, while their accounts are served by another one.

Implements: launch/README.md, "A new deployment"; design, "Owners, for every kind of actor". A shell; how a shard moves
is moving.py's. One more owner starts, takes the shards of each old one in turn, and gives them back to its successor.
An owner that was killed with its accounts would leave them unserved for as long as a process takes to start.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from actors.accounts.balancing import NOT_NOW, ShardMover
from actors.ownership.moves import Aim, HolderAway

logger = logging.getLogger(__name__)

OWNERS_MAX = 256  # The routes have a byte for each shard.
# An owner gives nothing while it waits for a replica that died, and refunds its charges: some seconds beyond ten.
_TRIES, _PAUSE_SECONDS = 3, 5.0

# Of one index. start: has an owner with the settings of now run there, in place of one with others, and waits for it.
Start = Callable[[int], Awaitable[None]]
Remove = Callable[[int], Awaitable[None]]


class Overtaken(Exception):
    """Another process may direct moves by now, and may have given accounts back to the owners that were to be replaced.
    The others and the one more run as before."""


async def _always() -> bool:
    return True


class Renewing:
    def __init__(
        self,
        mover: ShardMover,
        start: Start,
        remove: Remove,
        name_of: Callable[[int], str],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._mover, self._start, self._remove, self._name_of = mover, start, remove, name_of
        self._sleep = sleep

    async def renew(
        self, outdated: Sequence[int], spare: int, is_alone: Callable[[], Awaitable[bool]] = _always
    ) -> bool:
        """Replace the owners with these indexes. spare: an index that no owner has. is_alone: whether no other process
        may direct moves. Returns whether all were replaced without their accounts; the others run as before, and the
        next owner that directs takes the spare's shards. Raises Overtaken.
        """
        if spare >= OWNERS_MAX:
            return False
        try:
            await self._start(spare)
            # The first owner directs moves. It is the first here, so that no older one undoes those of a renewal that
            # ended in the middle.
            for index in sorted(outdated):
                await self._hand_over(index, spare)
                await self._end_alone(self._start, index, is_alone)
                await self._hand_over(spare, index)
            await self._end_alone(self._remove, spare, is_alone)
        except NOT_NOW as error:
            logger.warning("owners of accounts cannot be replaced one by one: %s", error)
            return False
        logger.info("%d owners of accounts were replaced; their accounts were served all the while", len(outdated))
        return True

    @staticmethod
    async def _end_alone(end: Start | Remove, index: int, is_alone: Callable[[], Awaitable[bool]]) -> None:
        """End an owner that has given its accounts away, and not one that has been given some since."""
        if not await is_alone():
            raise Overtaken(f"owner {index} was to be ended")
        await end(index)

    async def _hand_over(self, giver: int, taker: int) -> None:
        names = self._name_of(giver), self._name_of(taker)
        for tries_left in reversed(range(_TRIES)):
            try:
                await self._mover.move(names, to_successor(*names))
                return
            except HolderAway as error:
                if not tries_left:
                    raise
                logger.info("%s gives no accounts yet: %s", names[0], error)
            await self._sleep(_PAUSE_SECONDS)


def to_successor(giver: str, taker: str) -> Aim:
    """Every slice of the giver goes to the taker, and no other moves."""

    def aim(slices: int, holders: Mapping[int, str], _wanted: Sequence[str]) -> dict[int, str]:
        return {
            number: taker if holder == giver else holder
            for number in range(slices)
            if (holder := holders.get(number)) is not None
        }

    return aim
