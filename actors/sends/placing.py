"""Places the racers: as many as are wanted now, each with its even share of the slices.

Implements: design, "Owners, for every kind of actor". A shell. Called by each new replica, and by an operator's command
after the number of racers has changed. May be called again at any time, and by several processes at once: actors are
found by name, and each move of slices begins from what is stored. Not here: one racer (host.py).
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from actors import hosting
from actors.config import Config
from actors.ownership.api import OwnershipUnavailable
from actors.ownership.moves import HolderAway, MovesStalled, move_slices
from actors.ownership.store import OwnershipStore, opened_ownership
from actors.sends.host import OpenNodes, OpenSettling, place_racer
from actors.sends.slices import KIND, NAME_PREFIX, RACERS_MAX, SLICES, racer_names

logger = logging.getLogger(__name__)

_GIVE_SECONDS = 6.0  # Above the time that a racer takes to finish a broadcast.
_TAKE_SECONDS = 15.0  # A racer that starts with this call has to open its connections.
_TRIES, _AGAIN_SECONDS = 3, 2.0

Refer = Callable[[str], Any]


async def place_racers(
    config: Config, open_settling: OpenSettling, open_nodes: OpenNodes, refer: Refer = hosting.Reference
) -> int:
    """Start the wanted racers, spread the slices over them, and end the others once they hold none. Returns how many
    there are. Needs a connected Ray.

    While PostgreSQL is away the racers of the settings are placed, and nothing else is changed. A racer that does not
    answer gets its slices when this is called again; they stay where they are until then.
    """
    async with opened_ownership(config.storage, "placing-racers") as store:
        try:
            wanted: int | None = await store.wanted(KIND, config.sends.racers)
        except OwnershipUnavailable as error:
            logger.error("the racers are placed as the settings have it, without their slices: %s", error)
            wanted = None
        names = racer_names(min(wanted or config.sends.racers, RACERS_MAX))
        places = (asyncio.to_thread(place_racer, name, config, open_settling, open_nodes) for name in names)
        await asyncio.gather(*places)  # In threads: each blocks while a new process starts.
        if wanted is not None:
            holding = await spread_races(store, names, refer)
            if holding is not None:
                await asyncio.to_thread(hosting.remove_others, NAME_PREFIX, {*names, *holding})
    return len(names)


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
