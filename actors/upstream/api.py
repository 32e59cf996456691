"""The client of all configured nodes, for replicas and for the deposit watcher.

Implements: node pool, coalesced reads and cache, assembled from the settings. Wiring: every rule is in the modules.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from actors.clock import Clock
from actors.config import UpstreamConfig
from actors.upstream.cache import Cache
from actors.upstream.client import NodeClient
from actors.upstream.coalescing import SharedReads
from actors.upstream.hedging import Hedges
from actors.upstream.memory_budget import MemoryBudget
from actors.upstream.node_health import Commitment, Probe, slot_at
from actors.upstream.node_selection import Members
from actors.upstream.pool import NodePool
from actors.upstream.prober import Prober
from actors.upstream.replies import NodeAnswer

Heard = Callable[[str, Probe, int | None], None]  # Name of a node, a look at it, the best slot that any node named.


class Nodes:
    """All nodes, for one event loop. `heard` is called after each probe."""

    def __init__(self, config: UpstreamConfig, clock: Clock, heard: Heard) -> None:
        nodes = config.settled_nodes
        budget = MemoryBudget(config.large_answers_bytes_max)
        self._heard = heard
        self._members = Members(nodes, config.lag_slots_max, config.breaker_open_ms)
        names = [str(node.name) if config.node_header else "" for node in nodes]  # As answers have them.
        self._clients = [
            NodeClient(config, node.url.get_secret_value(), name, budget)
            for node, name in zip(nodes, names, strict=True)
        ]
        self._pool = NodePool(self._members, self._clients, Hedges(config.hedge_ms_min, config.hedge_percent_max))
        self._cache = Cache(config.cache_bytes_max)
        self._shared = SharedReads(self._pool, self._cache)
        self._probers = [
            Prober(config, client, str(node.name), clock, self._listener(index), one_of_several=len(nodes) > 1)
            for index, (client, node) in enumerate(zip(self._clients, nodes, strict=True))
        ]

    def call(self, method: str, params: bytes, timeout_ms: int) -> Coroutine[Any, Any, NodeAnswer]:
        """Make one call. params: the bytes of a JSON array. Raises nothing: a failure is a kind of answer."""
        return self._shared.call(method, params, timeout_ms)

    @property
    def singly(self) -> Sequence[NodeClient]:
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
        await self._pool.close()

    def _listener(self, index: int) -> Callable[[Probe], None]:
        def listen(probe: Probe) -> None:
            score = self._members.probed(index, probe)
            for commitment in Commitment:
                slot = slot_at(probe, commitment) if probe.answered else None
                if slot is not None:
                    self._cache.saw_slot(commitment, slot)
            self._heard(score.name, probe, self._members.best_slot())

        return listen
