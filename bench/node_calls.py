"""Measures the processor time of one read to a node and back, layer by layer.

Layers in this process: the client alone (all that a gateway with one node has), the pool of three nodes, and coalesced
reads on top of either, as in the product. The nodes are `bench.constant`, each a process, so their
time is not counted. Sixteen callers have one call in flight each: all with different reads, so that none is coalesced,
and once all with the same read.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Annotated

import typer
import uvloop

from actors.clock import SystemClock
from actors.config import UpstreamConfig
from actors.provider_config import NodeConfig
from actors.upstream.api import Nodes
from actors.upstream.client import NodeClient
from actors.upstream.hedging import Hedges
from actors.upstream.node_selection import NodeSelection
from actors.upstream.pool import NodePool
from actors.upstream.replies import NodeAnswer
from bench import scenario, systems

_CALLERS = 16
_TIMEOUT_MS = 5_000
Ask = Callable[[str, bytes, int], Awaitable[NodeAnswer]]


async def micros_per_call(ask: Ask, calls: int, params: Callable[[int], bytes]) -> float:
    """Measure this process's processor time for one call, in microseconds."""

    async def caller(number: int) -> None:
        for _ in range(calls // _CALLERS):
            answer = await ask("getMinimumBalanceForRentExemption", params(number), _TIMEOUT_MS)
            assert answer.answered, answer.kind

    await asyncio.gather(*(caller(number) for number in range(_CALLERS)))  # Opens the connections and fills the caches.
    began = time.process_time()
    await asyncio.gather(*(caller(number) for number in range(_CALLERS)))
    return (time.process_time() - began) / (calls // _CALLERS * _CALLERS) * 1e6


def own(number: int) -> bytes:
    return b"[%d]" % number


def same(_number: int) -> bytes:
    return b"[0]"


async def measure(urls: list[str], calls: int) -> list[tuple[str, float]]:
    nodes = tuple(NodeConfig(name=f"node-{number}", url=url) for number, url in enumerate(urls, 1))
    found: list[tuple[str, float]] = []
    for count in (1, len(nodes)):
        config = UpstreamConfig(nodes=nodes[:count], probe_seconds=60)
        clients = [NodeClient(config, node.url.get_secret_value(), str(node.name)) for node in config.nodes]
        if count == 1:
            found.append(("client alone", await micros_per_call(clients[0].call, calls, own)))
        else:
            selection = NodeSelection(config.nodes, config.lag_slots_max, config.breaker_open_ms)
            pool = NodePool(selection, clients, Hedges(config.hedge_ms_min, config.hedge_percent_max))
            found.append((f"pool of {count}", await micros_per_call(pool.call, calls, own)))
        for client in clients:
            await client.close()
        whole = Nodes(config, SystemClock(), lambda *_: None)
        found.append((f"shared reads, {count} node(s)", await micros_per_call(whole.call, calls, own)))
        found.append((f"shared reads, {count} node(s), all the same", await micros_per_call(whole.call, calls, same)))
        await whole.close()
    return found


def main(
    calls: Annotated[int, typer.Option(min=_CALLERS, help="Timed calls of each kind.")] = 20_000,
    nodes: Annotated[int, typer.Option(min=2, max=8, help="Nodes of the larger pool.")] = 3,
) -> dict[str, float]:
    """Measure the processor time of one read, layer by layer."""
    with ExitStack() as stack:
        urls = [stack.enter_context(systems.upstream()).url for _ in range(nodes)]
        found = dict(uvloop.run(measure(urls, calls)))
    scenario.show_figures("CPU µs a call", found)
    return found
