"""Keeps the slices of one actor: claims them, gives them away, and drops those that another actor has claimed.

Implements: design, "Owners, for every kind of actor". A shell around held.py and the store. What an actor does with its
slices is its own: `finish` ends what it does with some (it flushes, and then does nothing more for them), `begin` goes
on with what it finds stored of them. An actor claims at its start what is stored under its own name, and later what a
mover asks it to take; it claims nothing else, so two actors never fight for a slice.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from actors.clock import Clock
from actors.ownership.api import Owned, OwnershipUnavailable
from actors.ownership.held import HeldSlices
from actors.ownership.store import OwnershipStore

logger = logging.getLogger(__name__)

WATCH_SECONDS = 5.0  # How soon a disconnected actor notices lost slices; its writes are refused earlier.

Finish = Callable[[Sequence[int]], Awaitable[None]]
Begin = Callable[[Sequence[int]], None]


class SliceKeeper:
    """name: of the actor, under which replicas find it. held: read by whatever checks an epoch."""

    def __init__(
        self, kind: str, name: str, store: OwnershipStore, held: HeldSlices, clock: Clock, finish: Finish, begin: Begin
    ) -> None:
        self._kind, self._name, self._store, self._held, self._clock = kind, name, store, held, clock
        self._finish, self._begin = finish, begin
        self._one_at_a_time = asyncio.Lock()

    async def start(self) -> None:
        """Claim anew what is stored as this actor's: a process of before that was cut off is fenced by it. Raises
        OwnershipUnavailable."""
        async with self._one_at_a_time:
            stored = await self._store.holders(self._kind)
            await self._claim([number for number, owned in stored.items() if owned.holder == self._name])

    async def take(self, slices: Sequence[int]) -> None:
        """Claim these and continue with them; those already held stay unchanged. Raises OwnershipUnavailable."""
        async with self._one_at_a_time:
            stored = await self._store.holders(self._kind)
            await self._claim([number for number in slices if not self._has(number, stored.get(number))])

    async def give(self, slices: Sequence[int]) -> None:
        """Accept no more work of these, and finish running work. May be repeated."""
        self._held.give(slices, self._clock.monotonic())
        await self._finish([number for number in slices if self._held.epoch(number) is not None])

    async def look(self) -> None:
        """Compare with the store once. Raises OwnershipUnavailable."""
        async with self._one_at_a_time:
            stored = await self._store.holders(self._kind)
            lost, resumed = self._held.reconcile(stored, self._name, self._clock.monotonic())
        if lost:
            logger.warning("%d slices of %s have another owner now", len(lost), self._name)
            await self._finish(lost)
        if resumed:
            logger.warning("%s serves %d slices again that it gave and nobody took", self._name, len(resumed))
            self._begin(resumed)

    async def watch(self, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Until cancelled."""
        while True:
            await sleep(WATCH_SECONDS)
            try:
                await self.look()
            except OwnershipUnavailable as error:
                logger.warning("who owns the slices of %s is not known: %s", self._kind, error)
            except Exception:  # A bug must not end the watch for good.
                logger.exception("looking at the slices of %s failed", self._kind)

    def _has(self, number: int, stored: Owned | None) -> bool:
        return self._held.serves(number) and stored == (self._name, self._held.epoch(number))

    async def _claim(self, slices: Sequence[int]) -> None:
        if not slices:
            return
        epoch = await self._store.claim(self._kind, slices, self._name)
        self._held.took(slices, epoch)
        logger.info("%s took %d slices by epoch %d", self._name, len(slices), epoch)
        self._begin(slices)
