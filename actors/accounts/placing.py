"""Starts the owners of accounts, and sets their number.

Implements: design, "Owners, for every kind of actor"; launch/README.md, "A new deployment". Wiring. The first owner
spreads the accounts over them, and ends surplus owners (balancing.py).
"""

import asyncio

from actors import hosting
from actors.accounts.api import owner_name
from actors.accounts.balancing import KIND
from actors.accounts.host import USES, AccountShardActor
from actors.config import Config
from actors.ownership.store import opened_ownership


async def place_owners(config: Config) -> list[hosting.Reference]:
    """Start missing owners, replace those with other settings, and return references to all. Needs a connected Ray.

    Surplus owners are kept, and replaced like the others: they have accounts until these have been moved.
    """
    setting = config.accounts.shard_actors
    async with opened_ownership(config.storage, "placing of account owners") as ownership:
        wanted = await ownership.wanted(KIND, setting)
        await ownership.set_wanted(KIND, wanted, setting)
    running = await asyncio.to_thread(hosting.names, owner_name(""))
    names = sorted({*running, *map(owner_name, range(wanted))}, key=_index_of)

    # Runs in threads, several at once: each call waits for a new process, and accounts without an owner wait for the
    # last one.
    async def place(name: str) -> hosting.Reference:
        return await asyncio.to_thread(
            hosting.place_with_settings, AccountShardActor, name, config, USES, _index_of(name), setting
        )

    return list(await asyncio.gather(*map(place, names)))


def _index_of(name: str) -> int:
    return int(name.removeprefix(owner_name("")))
