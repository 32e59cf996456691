"""How the deposit watcher reaches accounts and nodes, and how replicas reach the watcher.

Implements: design, section 3 (siblings never meet; they are joined here). Wiring; every rule is in deposits/.
"""

import asyncio
import os
from collections.abc import Callable
from typing import Any

from actors.accounts.api import OwnersClient
from actors.accounts.client import ShardedAccounts, place_shards
from actors.accounts.host import fingerprint
from actors.calls import EDGE_BYTES
from actors.clock import SystemClock
from actors.config import Config
from actors.deposits.api import DepositsClient
from actors.deposits.host import place_watcher
from actors.upstream.api import Nodes
from actors.upstream.replies import Node


async def open_accounts(config: Config) -> OwnersClient:
    """Ordinary actor calls only: its links are never started."""
    return ShardedAccounts(config, await asyncio.to_thread(place_shards, config), os.urandom(EDGE_BYTES))


async def open_node(config: Config) -> Node:
    """Nothing is kept of answers: the watcher asks for what is new."""
    nodes = Nodes(config.upstream.model_copy(update={"cache_bytes_max": 0}), SystemClock(), lambda *_: None)
    await nodes.probe()
    nodes.start()
    return nodes


async def watch_deposits(config: Config, place: Callable[..., Any] = place_watcher) -> DepositsClient | None:
    """The watcher as a replica holds it, placed where there is none. None: no deposit wallet is configured."""
    if config.payments.deposit_wallet is None:
        return None
    # In a thread: it blocks while a new process starts, and the replica's loop must not.
    client = DepositsClient(await asyncio.to_thread(place, config, fingerprint(config), open_accounts, open_node))
    client.start()
    return client
