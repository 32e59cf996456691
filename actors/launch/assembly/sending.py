"""How the racer reaches accounts and nodes, and how replicas reach the racer.

Implements: design, "Layout" (siblings never meet; they are joined here). Wiring; every rule is in sends/.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import Any

from actors.accounts.client import ShardedAccounts, find_shards
from actors.calls import REPLICA_ID_BYTES
from actors.clock import SystemClock
from actors.config import Config
from actors.launch.assembly.deposit_watcher import open_node
from actors.sends.api import SendsClient
from actors.sends.chain import SendChain
from actors.sends.endpoints import SendMethods
from actors.sends.hold_endings import Settles
from actors.sends.host import place_racer
from actors.sends.once import SendMarks
from actors.upstream.api import Nodes
from actors.upstream.replies import Node


async def open_settling(config: Config) -> Settles:
    """With links: holds are ended over them."""
    accounts = ShardedAccounts(config, find_shards(config), os.urandom(REPLICA_ID_BYTES))
    accounts.start()
    await accounts.connected()
    return accounts


async def open_nodes(config: Config) -> tuple[Node, Sequence[Node]]:
    """Return the nodes together and each by itself."""
    nodes = await open_node(config)
    return nodes, nodes.single_nodes


async def assemble_sends(
    config: Config,
    nodes: Nodes,
    marks: SendMarks | None,
    place: Callable[..., Any] = place_racer,
) -> tuple[SendsClient, SendMethods]:
    """The racer as a replica holds it, placed where there is none, and the methods that need it."""
    # In a thread: it blocks while a new process starts, and the replica's loop must not.
    client = SendsClient(await asyncio.to_thread(place, config, open_settling, open_nodes))
    client.start()
    chain = SendChain(nodes, nodes.single_nodes)
    return client, SendMethods(client, chain, config.pricing.base_credits, SystemClock(), marks)
