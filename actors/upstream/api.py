"""Assembles the client of all configured nodes from the settings, for replicas and for the deposit watcher.

Implements: node pool, coalesced reads and cache. Wiring: every rule is in the modules.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from actors.clock import Clock
from actors.config import UpstreamConfig
from actors.upstream.account_view import current_view
from actors.upstream.client import NodeClient
from actors.upstream.coalescing import CoalescedReads
from actors.upstream.hedging import Hedges
from actors.upstream.memory_budget import MemoryBudget
from actors.upstream.monotonic_reads import MonotonicReads
from actors.upstream.node_health import Commitment, Probe, slot_at
from actors.upstream.node_selection import NodeSelection
from actors.upstream.node_slots import NodeSlots
from actors.upstream.pool import NodePool
from actors.upstream.prober import Prober
from actors.upstream.read_cache import ReadCache
from actors.upstream.replies import NodeAnswer

# Settings, URL and name of a node, and the memory that the large answers of all nodes share.
MakeClient = Callable[[UpstreamConfig, str, str, MemoryBudget], NodeClient]
OnProbe = Callable[[str, Probe, int | None], None]  # Name of a node, its probe, the best slot that any node reported.


class Nodes:
    """All nodes, for one event loop. `on_probe` is called after each probe."""

    def __init__(
        self, config: UpstreamConfig, clock: Clock, on_probe: OnProbe, make_client: MakeClient = NodeClient
    ) -> None:
        nodes = config.named_nodes
        budget = MemoryBudget(config.large_answers_bytes_max)
        self._on_probe = on_probe
        self._selection = NodeSelection(nodes, config.lag_slots_max, config.breaker_open_ms)
        self._clients = [
            make_client(config, node.url.get_secret_value(), str(node.name) if config.node_header else "", budget)
            for node in nodes
        ]
        hedges = Hedges(config.hedge_ms_min, config.hedge_percent_max)
        pool = NodePool(self._selection, self._clients, hedges) if len(nodes) > 1 else self._clients[0]
        self._cache = ReadCache(config.cache_bytes_max)
        self._any = CoalescedReads(pool, self._cache).call
        self._slots = NodeSlots(len(nodes))
        self._monotonic = MonotonicReads(
            *(self._clients, self._slots, lambda watched: NodePool(self._selection, watched, hedges)),
            *(self._cache, self._any),
        ).call
        self._probers = [
            Prober(config, client, str(node.name), clock, self._listener(index), one_of_several=len(nodes) > 1)
            for index, (client, node) in enumerate(zip(self._clients, nodes, strict=True))
        ]

    def call(self, method: str, params: bytes, timeout_ms: int) -> Coroutine[Any, Any, NodeAnswer]:
        """Make a call as NodeClient.call: under the view of this task where it has one, else from any slot."""
        return (self._any if current_view() is None else self._monotonic)(method, params, timeout_ms)

    @property
    def single_nodes(self) -> Sequence[NodeClient]:
        """Return each node's client, without pool and cache, for callers that need two answers of the same node."""
        return tuple(self._clients)

    async def probe(self) -> None:
        """Probe every node once."""
        await asyncio.gather(*(prober.probe() for prober in self._probers))

    def start(self) -> None:
        for prober in self._probers:
            prober.start()

    async def close(self) -> None:
        for prober in self._probers:
            await prober.stop()
        for client in self._clients:
            await client.close()

    def _listener(self, index: int) -> Callable[[Probe], None]:
        def listen(probe: Probe) -> None:
            score = self._selection.probed(index, probe)
            self._slots.probed(index, probe)
            for commitment in Commitment:
                slot = slot_at(probe, commitment) if probe.answered else None
                if slot is not None:
                    self._cache.saw_slot(commitment, slot)
            self._on_probe(score.name, probe, self._selection.best_slot())

        return listen
