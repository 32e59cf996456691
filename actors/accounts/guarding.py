"""Each owner looks at the next one, and has Ray start that one anew when it hangs.

Implements: design, "Owners, for every kind of actor" (one that hangs). A shell. Ray starts again only what has ended,
and an owner's shards cannot be moved without it: what memory alone knows of them would be lost for calls under way. A
new process under the same name knows what to do, as after a crash; its next epoch fences whatever the old one does.

Exactly one owner looks at each, so none is ended twice. With one owner nobody does.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import Any

from actors.accounts.stored import StoreUnavailable
from actors.ownership.silence import AGAIN_SECONDS, LOOK_SECONDS, Silence

logger = logging.getLogger(__name__)

ANSWER_SECONDS = 5.0  # As long as a call waits for an owner.
_STARTING_SECONDS = 20.0  # For the new process; it is not looked at meanwhile.


def next_of(index: int, indexes: Collection[int]) -> int | None:
    """Return the index after this one, in a ring. None: there is no other one."""
    others = sorted(set(indexes) - {index})
    return next((other for other in others if other > index), others[0]) if others else None


class Guarding:
    """index: of this owner. owners: reads the indexes of those that have shards. hangs: asks one, and returns whether
    it lives, as far as Ray knows, and has not answered within ANSWER_SECONDS. restart: has Ray end one, and start it
    anew; blocks."""

    def __init__(
        self,
        index: int,
        owners: Callable[[], Awaitable[Collection[int]]],
        hangs: Callable[[int], Awaitable[bool]],
        restart: Callable[[int], Any],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._index, self._owners, self._hangs, self._restart = index, owners, hangs, restart
        self._sleep = sleep
        self._silence = Silence()

    async def run(self) -> None:
        """Until cancelled. Ray that is away, and a bug, must not end it."""
        pause = LOOK_SECONDS
        while True:
            await self._sleep(pause)
            try:
                pause = await self.look()
            except StoreUnavailable:
                pause = LOOK_SECONDS  # The other owners cannot serve either.
            except Exception:
                logger.exception("looking at the next owner failed")
                pause = LOOK_SECONDS

    async def look(self) -> float:
        """Look once. Returns the seconds to wait for the next look."""
        following = next_of(self._index, await self._owners())
        if following is None:
            return LOOK_SECONDS
        name = str(following)
        if self._silence.heard({name: not await self._hangs(following)}):
            logger.error("account owner %d does not answer: it is ended, and started anew", following)
            await asyncio.to_thread(self._restart, following)
            self._silence.forgive([name])
            return _STARTING_SECONDS
        return AGAIN_SECONDS if self._silence.is_in_doubt([name]) else LOOK_SECONDS
