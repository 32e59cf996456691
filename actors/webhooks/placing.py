"""Places the dispatchers: as many as are wanted now, each with its even share of the slices.

Implements: design, "Owners, for every kind of actor". A shell. Each new replica does it, and the first dispatcher when
an operator has commanded another number. It may be done again at any time, and by several processes at once: actors are
found by name, and each move of slices begins from what is stored. Not here: one dispatcher (host.py).
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from actors import hosting
from actors.ownership.api import Owned, OwnershipUnavailable
from actors.ownership.moves import HolderAway, MovesStalled, move_slices
from actors.ownership.store import OwnershipStore
from actors.webhooks.slices import DISPATCHER_ACTOR_NAME, KIND, SLICES, dispatcher_names

logger = logging.getLogger(__name__)

_GIVE_SECONDS = 18.0  # Above the time that a dispatcher waits for its requests under way.
_TAKE_SECONDS = 15.0  # A dispatcher that starts with this call has to open its connections.
_TRIES, _AGAIN_SECONDS = 3, 2.0

Refer = Callable[[str], Any]


async def wanted_dispatchers(store: OwnershipStore, setting: int) -> int | None:
    """Return how many there shall be, and keep it for the first dispatcher to follow. None: the store is away."""
    try:
        wanted = await store.wanted(KIND, setting)
        await store.set_wanted(KIND, wanted, setting)
    except OwnershipUnavailable as error:
        logger.error("the dispatchers are placed as the settings have it, without their slices: %s", error)
        return None
    return wanted


async def start_all(names: Iterable[str], place: Callable[[str], Any]) -> None:
    await asyncio.gather(*(asyncio.to_thread(place, name) for name in names))  # Each blocks while a process starts.


async def spread_deliveries(store: OwnershipStore, count: int, refer: Refer = hosting.Reference) -> bool:
    """Move slices until they are spread over so many dispatchers, and end the others once they hold none. False: some
    did not answer, and have kept what they had."""
    names = dispatcher_names(count)
    for left in reversed(range(_TRIES)):
        try:
            await _move(store, names, refer)
            holding = {owned.holder for owned in (await store.holders(KIND)).values()}
        except (HolderAway, MovesStalled, OwnershipUnavailable) as error:
            logger.warning("slices of webhooks are not where they should be: %s", error)
        else:
            await asyncio.to_thread(hosting.remove_others, DISPATCHER_ACTOR_NAME, {*names, *holding})
            return holding == set(names)
        if left:
            await asyncio.sleep(_AGAIN_SECONDS)
    logger.error("slices of webhooks stay where they are until the dispatchers are placed again")
    return False


async def _move(store: OwnershipStore, names: Sequence[str], refer: Refer) -> None:
    async def holders() -> dict[int, str]:
        return {number: owned.holder for number, owned in (await store.holders(KIND)).items()}

    async def give(name: str, slices: Sequence[int]) -> None:
        await _asked(refer(name), "give", slices, _GIVE_SECONDS)

    async def take(name: str, slices: Sequence[int]) -> None:
        await _asked(refer(name), "take", slices, _TAKE_SECONDS)

    # All slices from one to another at once: a giver waits for its slowest receiver once, and not for each group.
    moved = await move_slices(SLICES, names, holders, give, take, group=SLICES)
    if moved:
        logger.info("%d slices of webhooks have moved; %d dispatchers hold them", moved, len(names))


async def _asked(dispatcher: Any, method: str, slices: Sequence[int], seconds: float) -> None:
    try:
        await hosting.ask(dispatcher, method, list(slices), wait_seconds=seconds)
    except hosting.ActorUnreachable as error:
        raise HolderAway(str(error)) from error


def shares(holders: Mapping[int, Owned]) -> dict[str, int]:
    """Return how many slices each dispatcher holds."""
    return dict(sorted(Counter(owned.holder for owned in holders.values()).items()))


def is_even(holders: Mapping[int, Owned], count: int) -> bool:
    """Return whether all slices are spread evenly over so many dispatchers."""
    held = shares(holders)
    is_whole = len(holders) == SLICES and set(held) == set(dispatcher_names(count))
    return is_whole and max(held.values()) - min(held.values()) <= 1
