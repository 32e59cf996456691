"""Each owner checks the next one, and has Ray restart it when it hangs.

Implements: design, "Owners, for every kind of actor" (one that hangs). A shell. Ray restarts only actors that have
ended, and an owner's shards cannot be moved without it: state that only its memory has would be lost for running calls.
A new process under the same name recovers as after a crash; its next epoch fences the old process.

Exactly one other owner checks each owner, so none is ended twice. A single owner is not checked.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import Any

from actors.accounts.stored import StoreUnavailable
from actors.ownership.silence import AGAIN_SECONDS, LOOK_SECONDS, Silence

logger = logging.getLogger(__name__)

ANSWER_SECONDS = 5.0  # As long as a call waits for an owner.
_STARTING_SECONDS = 20.0  # Time for the new process to start; it is not checked meanwhile.


def next_of(index: int, indexes: Collection[int]) -> int | None:
    """Return the next index in a ring. None: there is no other one."""
    others = sorted(set(indexes) - {index})
    return next((other for other in others if other > index), others[0]) if others else None


class Guarding:
    """Checks the next owner.

    index: of this owner. owners: reads the indexes of those that have shards. hangs: asks an owner; True: Ray reports
    it alive, but it did not answer within ANSWER_SECONDS. restart: has Ray end and restart an owner; blocks."""

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
        """Check until cancelled. An unavailable Ray, or a bug, must not end it."""
        pause = LOOK_SECONDS
        while True:
            await self._sleep(pause)
            try:
                pause = await self.look()
            except StoreUnavailable:
                pause = LOOK_SECONDS  # The other owners cannot serve in this case either.
            except Exception:
                logger.exception("looking at the next owner failed")
                pause = LOOK_SECONDS

    async def look(self) -> float:
        """Check once. Returns the seconds to wait before the next check."""
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
