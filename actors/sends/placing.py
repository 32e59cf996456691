"""Places the racers: as many as are wanted now, each with its even share of the slices.

Implements: design, "Owners, for every kind of actor". A shell. Called by each new replica. May be called again at any
time, and by several processes at once: actors are found by name. Not here: one racer (host.py), moves (spreading.py).
"""

import asyncio
import logging

from actors import hosting
from actors.config import Config
from actors.ownership.api import OwnershipUnavailable
from actors.ownership.store import opened_ownership
from actors.sends.host import OpenNodes, OpenSettling, place_racer
from actors.sends.slices import KIND, RACERS_MAX, racer_names
from actors.sends.spreading import Refer, spread_and_end_others

logger = logging.getLogger(__name__)


async def place_racers(
    config: Config, open_settling: OpenSettling, open_nodes: OpenNodes, refer: Refer = hosting.Reference
) -> int:
    """Start the wanted racers, spread the slices over them, and end the others once they hold none. Returns how many
    there are. Needs a connected Ray.

    While PostgreSQL is away the racers of the settings are placed, and nothing else is changed. A racer that does not
    answer gets its slices when this is called again; they stay where they are until then.
    """
    setting = config.sends.racers
    wanted: int | None
    async with opened_ownership(config.storage, "placing-racers") as store:
        try:
            wanted = await store.wanted(KIND, setting)
            await store.set_wanted(KIND, wanted, setting)
        except OwnershipUnavailable as error:
            logger.error("the racers are placed as the settings have it, without their slices: %s", error)
            wanted = None
        names = racer_names(min(wanted or setting, RACERS_MAX))
        places = (asyncio.to_thread(place_racer, name, config, open_settling, open_nodes) for name in names)
        await asyncio.gather(*places)  # In threads: each blocks while a new process starts.
        if wanted is not None:
            await spread_and_end_others(store, names, refer)
    return len(names)
