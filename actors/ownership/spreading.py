"""Spreads the slices of a kind evenly over its actors, when they are placed and while they run.

Implements: design, "Owners, for every kind of actor". A shell. It may be done again at any time, and by several
processes at once: each move begins from what is stored. Not here: which slices move (spread.py), when (director.py).
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any

from actors import hosting
from actors.config import StorageConfig
from actors.ownership.api import OwnershipUnavailable
from actors.ownership.moves import HolderAway, MovesStalled, move_slices
from actors.ownership.store import OwnershipStore, opened_ownership
from actors.ownership.team import Team

logger = logging.getLogger(__name__)

_TRIES, _AGAIN_SECONDS = 3, 2.0

Refer = Callable[[str], Any]  # Makes the handle for hosting.ask() from a name.


async def held_by(store: OwnershipStore, team: Team) -> dict[str, int]:
    """Return how many slices each actor holds. Raises OwnershipUnavailable."""
    return dict(sorted(Counter(owned.holder for owned in (await store.holders(team.kind)).values()).items()))


async def spread_slices(
    store: OwnershipStore,
    team: Team,
    names: Sequence[str],
    refer: Refer = hosting.Reference,
    away: Collection[str] = (),
) -> set[str] | None:
    """Move slices until they are spread over these actors. Returns those that hold some then. None: not known, as some
    did not answer; what they should have taken stays where it was.

    away: actors that are known not to answer, which are not asked for their slices.
    """

    async def holders() -> dict[int, str]:
        return {number: owned.holder for number, owned in (await store.holders(team.kind)).items()}

    async def give(name: str, slices: Sequence[int]) -> None:
        await _asked(refer(name), "give", slices, team.give_seconds)

    async def take(name: str, slices: Sequence[int]) -> None:
        await _asked(refer(name), "take", slices, team.take_seconds)

    for left in reversed(range(_TRIES)):
        try:
            moved = await move_slices(team.slices, names, holders, give, take, team.group, away)
            if moved:
                logger.info("%d slices of %s have moved; %d actors hold them", moved, team.kind, len(names))
            return set((await holders()).values())
        except (HolderAway, MovesStalled, OwnershipUnavailable) as error:
            logger.warning("slices of %s are not where they should be: %s", team.kind, error)
        if left:
            await asyncio.sleep(_AGAIN_SECONDS)
    logger.error("slices of %s stay where they are until they are spread again", team.kind)
    return None


async def place_team(
    storage: StorageConfig, team: Team, setting: int, place: Callable[[str], Any], refer: Refer = hosting.Reference
) -> int:
    """Start the wanted actors, spread the slices over them, and end the others once they hold none. Returns how many
    there are. Needs a connected Ray.

    setting: their number in the settings. place: starts the actor with a name, or finds it; blocks.
    While PostgreSQL is away the actors of the settings are placed, and nothing else is changed: an operator's larger
    number may hold. An actor that does not answer gets its slices when they are spread again.
    """
    async with opened_ownership(storage, f"placing {team.kind}") as store:
        is_known = True
        try:
            wanted = await store.wanted(team.kind, setting)
            await store.set_wanted(team.kind, wanted, setting)
        except OwnershipUnavailable as error:
            logger.error("%s are placed as the settings have it, without their slices: %s", team.kind, error)
            wanted, is_known = setting, False
        names = team.names(min(wanted, team.actors_max))
        await start_all(names, place)
        if is_known:
            await spread_and_end_others(store, team, names, refer)
    return len(names)


async def spread_and_end_others(
    store: OwnershipStore,
    team: Team,
    names: Sequence[str],
    refer: Refer = hosting.Reference,
    away: Collection[str] = (),
) -> None:
    """Spread the slices over these actors but those that are away, and end all others that hold none then."""
    present = [name for name in names if name not in away]
    holding = await spread_slices(store, team, present, refer, away)
    if holding is not None:
        await asyncio.to_thread(hosting.remove_others, team.name_prefix, {*names, *holding})


async def start_all(names: Collection[str], place: Callable[[str], Any]) -> None:
    """Start all in threads, because each call blocks while a process starts."""
    await asyncio.gather(*(asyncio.to_thread(place, name) for name in names))


async def _asked(actor: Any, method: str, slices: Sequence[int], seconds: float) -> None:
    try:
        await hosting.ask(actor, method, list(slices), wait_seconds=seconds)
    except hosting.ActorUnreachable as error:
        raise HolderAway(str(error)) from error
