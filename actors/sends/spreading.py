"""Spreads the slices of sends over the racers that are wanted, and ends the others.

Implements: design, "Owners, for every kind of actor". A shell. May be done again at any time, and by several processes
at once: each move begins from what is stored. Not here: placing racers (placing.py, host.py).
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from actors import hosting
from actors.ownership.api import OwnershipUnavailable
from actors.ownership.moves import HolderAway, MovesStalled, move_slices
from actors.ownership.store import OwnershipStore
from actors.sends.slices import KIND, NAME_PREFIX, SLICES

logger = logging.getLogger(__name__)

_GIVE_SECONDS = 6.0  # Above the time that a racer takes to finish a broadcast.
_TAKE_SECONDS = 15.0  # A racer that starts with this call has to open its connections.
_TRIES, _AGAIN_SECONDS = 3, 2.0

Refer = Callable[[str], Any]


async def spread_and_end_others(store: OwnershipStore, names: Sequence[str], refer: Refer) -> None:
    """Spread the slices over these racers, and end those that hold none then."""
    holding = await spread_races(store, names, refer)
    if holding is not None:
        await asyncio.to_thread(hosting.remove_others, NAME_PREFIX, {*names, *holding})


async def held_by(store: OwnershipStore) -> dict[str, int]:
    """Return how many slices each racer holds. Raises OwnershipUnavailable."""
    counts: dict[str, int] = {}
    for owned in (await store.holders(KIND)).values():
        counts[owned.holder] = counts.get(owned.holder, 0) + 1
    return dict(sorted(counts.items()))


def is_even(counts: dict[str, int], names: Sequence[str]) -> bool:
    """Whether these racers hold all slices, each as many as another, or one more."""
    return set(counts) == set(names) and max(counts.values()) - min(counts.values()) <= 1


async def spread_races(store: OwnershipStore, names: Sequence[str], refer: Refer) -> set[str] | None:
    """Move slices until they are spread over these racers. Returns the racers that hold some then; None: not known."""

    async def holders() -> dict[int, str]:
        return {number: owned.holder for number, owned in (await store.holders(KIND)).items()}

    async def give(name: str, slices: Sequence[int]) -> None:
        await _asked(refer(name), "give", slices, _GIVE_SECONDS)

    async def take(name: str, slices: Sequence[int]) -> None:
        await _asked(refer(name), "take", slices, _TAKE_SECONDS)

    for left in reversed(range(_TRIES)):
        try:
            moved = await move_slices(SLICES, names, holders, give, take)
            if moved:
                logger.info("%d slices of sends have moved; %d racers hold them", moved, len(names))
            return set((await holders()).values())
        except (HolderAway, MovesStalled, OwnershipUnavailable) as error:
            logger.warning("slices of sends are not where they should be: %s", error)
        if left:
            await asyncio.sleep(_AGAIN_SECONDS)
    logger.error("slices of sends stay where they are until the racers are placed again")
    return None


async def _asked(racer: Any, method: str, slices: Sequence[int], seconds: float) -> None:
    try:
        await hosting.ask(racer, method, list(slices), wait_seconds=seconds)
    except hosting.ActorUnreachable as error:
        raise HolderAway(str(error)) from error
