"""Connects the sender of memos to the nodes, and keeps it running.

Implements: design, "Layout" (contexts on one level do not import each other; they are joined here). Wiring only: every
rule is in memos/.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from actors.actor_client import ActorClient
from actors.config import Config
from actors.launch.assembly.deposit_watcher import open_node
from actors.memos.host import place_sender


async def watch_memos(config: Config, place: Callable[..., Any] = place_sender) -> ActorClient | None:
    """Return a client of the sender, which is started if it does not run. None: memos are off."""
    if not config.memos.enabled:
        return None
    # In a thread: the call blocks while a new process starts, and the replica's event loop must not.
    client = ActorClient(await asyncio.to_thread(place, config, open_node))
    client.start()
    return client
