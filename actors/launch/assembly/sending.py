"""How racers reach accounts and nodes, how replicas reach the racers, and how many racers there are.

Implements: design, "Layout" (siblings never meet; they are joined here). Wiring; every rule is in sends/.
"""

import os
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial

from actors.accounts.client import ShardedAccounts
from actors.calls import REPLICA_ID_BYTES, new_replica_id
from actors.clock import SystemClock
from actors.config import Config
from actors.launch.assembly.nodes import open_followed
from actors.ownership.store import opened_ownership
from actors.sends.chain import SendChain
from actors.sends.client import SendsClient
from actors.sends.endpoints import SendMethods
from actors.sends.hold_endings import Settles
from actors.sends.host import OpenedNodes, place_racers
from actors.sends.once import SendMarks
from actors.sends.slices import KIND
from actors.upstream.api import Nodes

TPU_LIMITS = ("whether private addresses of leaders are trusted (sends.tpu) follows the settings' nodes alone",)


async def open_settling(config: Config) -> Settles:
    """Opens links, because holds are ended over them."""
    accounts = ShardedAccounts(config, new_replica_id(os.urandom(REPLICA_ID_BYTES)))
    accounts.start()
    await accounts.connected()
    return accounts


async def open_nodes(config: Config) -> OpenedNodes:
    """Return the nodes of a racer, which also carries out an operator's commands about them."""
    nodes, following = await open_followed(config, TPU_LIMITS if config.sends.tpu else ())
    return OpenedNodes(nodes, nodes.single_nodes, following.operator.ask)


async def place_all_racers(config: Config) -> int:
    """Start or end racers, and move their slices, until there are as many as are wanted now; returns how many.

    For a new deployment, and for a command that has changed the number. Needs a connected Ray."""
    return await place_racers(config, open_settling, open_nodes)


async def assemble_sends(
    config: Config,
    nodes: Nodes,
    marks: SendMarks | None,
    place: Callable[[Config], Awaitable[int]] = place_all_racers,
) -> tuple[SendsClient, SendMethods, Callable[[], Awaitable[None]]]:
    """Place the racers where they are missing. Returns the racers as a replica holds them, the methods that need them,
    and what closes both."""
    await place(config)
    parts, clock = AsyncExitStack(), SystemClock()
    ownership = await parts.enter_async_context(opened_ownership(config.storage, "gateway-sends"))
    client = SendsClient(partial(ownership.holders, KIND), clock)
    await client.start()
    parts.push_async_callback(client.stop)
    chain = SendChain(nodes, nodes.single_nodes)
    return client, SendMethods(client, chain, config.pricing.base_credits, clock, marks), parts.aclose
