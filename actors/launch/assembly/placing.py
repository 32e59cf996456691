"""Places the actors beside the owners of accounts, all at once, before a replica opens its parts.

Implements: launch/README.md, "A new deployment". Wiring. Each part of a replica places its own actor again, and finds
it then. Placed one after the other, a deployment that replaces several would wait for one new process after the other.
The owners come after these: where they are replaced, their accounts wait for the last of them.
"""

import asyncio
from collections.abc import Awaitable

from actors.config import Config
from actors.deposits.usdc.host import place_watchers
from actors.launch.assembly.deposit_watcher import open_accounts, open_node
from actors.launch.assembly.sending import place_all_racers
from actors.launch.assembly.streaming import needs_hub
from actors.launch.assembly.webhooks import place_all_dispatchers
from actors.memos.host import place_sender
from actors.signals.host import place_classifiers
from actors.streams.hub.host import place_hub


async def place_beside_owners(config: Config) -> None:
    """Start or replace all of them that a replica with these settings uses. Needs a connected Ray."""
    # In threads: each call blocks while a new process starts.
    placing: list[Awaitable[object]] = [
        place_all_dispatchers(config),
        asyncio.to_thread(place_classifiers, config, open_node),
        place_all_racers(config),
        asyncio.to_thread(place_sender, config, open_node),
    ]
    if config.payments.deposit_wallet is not None:
        placing.append(asyncio.to_thread(place_watchers, config, open_accounts, open_node))
    if needs_hub(config):
        placing.append(asyncio.to_thread(place_hub, config, open_node))
    await asyncio.gather(*placing)
