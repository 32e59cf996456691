"""The input of a classifier: batches of transactions and slots, in the order in which a source tells them.

Vocabulary and the port. Two sources: the Yellowstone stream (geyser_source.py), and blocks (block_source.py).
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from enum import Enum, unique
from typing import Protocol

from actors.signals.transaction import Transaction

BATCH_MAX = 500  # Updates that are classified in one go, while nothing else of the process runs.


@unique
class SlotState(Enum):
    PROCESSED = "processed"
    CONFIRMED = "confirmed"
    FINALIZED = "finalized"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class TransactionSeen:
    transaction: Transaction


@dataclass(frozen=True, slots=True)
class SlotSeen:
    """FINALIZED: everything up to this slot was told before."""

    slot: int
    parent: int | None
    state: SlotState


Update = TransactionSeen | SlotSeen


class SourceUnavailable(Exception):
    """The source ended or did not answer; earlier updates stay valid."""


class SlotsGone(Exception):
    """The source does not have the slots from which it should begin. first: the first one that it has."""

    def __init__(self, first: int) -> None:
        super().__init__(f"the first slot that is available is {first}")
        self.first = first


class ChainSource(Protocol):
    name: str

    def updates(self, from_slot: int | None) -> AsyncGenerator[Sequence[Update], None]:
        """Tell what happens from this slot on, at most BATCH_MAX updates at once; None: from now on.

        Raises SourceUnavailable and SlotsGone.
        """
        ...

    def narrow(self, is_mine: Callable[[bytes], bool] | None) -> None:
        """Leave out transactions by signature from the next updates on, except the first one of each slot, which shows
        how far the source is.

        None: send all. The source may still send excluded transactions."""
        ...

    async def watch(self, wallets: frozenset[str]) -> None:
        """Send the transactions of these wallets too, from now on."""
        ...

    def head(self) -> int:
        """Return the newest slot that the source knows of; 0: none."""
        ...


async def with_pauses(
    updates: AsyncGenerator[Sequence[Update], None], pause_seconds: Callable[[], float | None]
) -> AsyncGenerator[Sequence[Update] | None, None]:
    """Pass batches on; yield None when none came for this many seconds. pause_seconds: asked each time; None: wait."""
    coming: asyncio.Future[Sequence[Update] | None] | None = None
    async with contextlib.aclosing(updates):
        try:
            while True:
                seconds = pause_seconds()
                if coming is None and seconds is None:
                    batch = await anext(updates, None)
                else:
                    if coming is None:
                        coming = asyncio.ensure_future(anext(updates, None))
                    if not (await asyncio.wait((coming,), timeout=seconds))[0]:
                        yield None
                        continue
                    batch, coming = coming.result(), None
                if batch is None:
                    return
                yield batch
        finally:
            if coming is not None:
                coming.cancel()
                await asyncio.gather(coming, return_exceptions=True)
