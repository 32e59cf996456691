"""Connects the deposit watcher to the accounts and the nodes, and replicas to the watcher.

Implements: design, "Layout" (contexts on one level do not import each other; they are joined here). Wiring only: every
rule is in deposits/.
"""

import asyncio
import os
from collections.abc import Callable
from typing import Any

from actors.accounts.api import OwnersClient
from actors.accounts.client import ShardedAccounts
from actors.calls import REPLICA_ID_BYTES, new_replica_id
from actors.config import Config
from actors.deposits.api import DepositsClient
from actors.deposits.usdc.host import place_watchers
from actors.launch.assembly.nodes import open_followed
from actors.upstream.api import Nodes


async def open_accounts(config: Config) -> OwnersClient:
    """Return a client of the account owners that uses ordinary actor calls; its hot links are never started."""
    return ShardedAccounts(config, new_replica_id(os.urandom(REPLICA_ID_BYTES)))


async def open_node(config: Config) -> Nodes:
    """Return the nodes of an actor; they follow an operator's changes."""
    nodes, _ = await open_followed(config)
    return nodes


async def watch_deposits(config: Config, place: Callable[..., Any] = place_watchers) -> DepositsClient | None:
    """Return a client of the deposit watcher and its standby, which are started if they do not run. None: no deposit
    wallet is set."""
    if config.payments.deposit_wallet is None:
        return None
    # In a thread: the call blocks while new processes start, and the replica's event loop must not.
    client = DepositsClient(await asyncio.to_thread(place, config, open_accounts, open_node))
    client.start()
    return client
