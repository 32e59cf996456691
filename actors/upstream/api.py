"""Assembles the client of all nodes from the settings, for replicas and for the actors that ask nodes.

Implements: node pool, coalesced reads and cache; upstream/README.md, "Nodes that change while the service runs". Every
rule is in the modules. The set of nodes may change while calls run: `take_over`.
"""

from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Protocol

from actors.clock import Clock
from actors.config import UpstreamConfig
from actors.provider_config import NodeConfig
from actors.upstream.account_view import current_view
from actors.upstream.client import NodeClient
from actors.upstream.coalescing import CoalescedReads
from actors.upstream.hedging import Hedges
from actors.upstream.members import Members
from actors.upstream.memory_budget import MemoryBudget
from actors.upstream.monotonic_reads import MonotonicReads
from actors.upstream.node_changes import WantedNode
from actors.upstream.node_health import Commitment, Probe, slot_at
from actors.upstream.node_reports import SeenNode
from actors.upstream.node_selection import NodeSelection
from actors.upstream.node_slots import NodeSlots
from actors.upstream.pool import NodePool
from actors.upstream.prober import Prober
from actors.upstream.read_cache import ReadCache
from actors.upstream.replies import Node, NodeAnswer
from actors.upstream.single_nodes import SingleNodes

# Settings, URL and name of a node, and the memory that the large answers of all nodes share.
MakeClient = Callable[[UpstreamConfig, str, str, MemoryBudget], NodeClient]
OnProbe = Callable[[str, Probe, int | None], None]  # Name of a node, its probe, the best slot that any node reported.
OnNodes = Callable[[Sequence[NodeConfig]], None]  # Called with the nodes in use after every change.


class ChangingNode(Node, Protocol):
    """Several nodes as one, which may change while calls run."""

    def follow(self, listener: OnNodes) -> None:
        """Tell the nodes in use, now and whenever they change."""


def first_ws_url(nodes: Iterable[NodeConfig]) -> str | None:
    """Return the WebSocket URL of the first node that has one."""
    found = next((node.ws_url for node in nodes if node.ws_url is not None), None)
    return None if found is None else found.get_secret_value()


class Nodes:
    """All nodes, for one event loop. `on_probe` is called after each probe of a node in use."""

    def __init__(
        self, config: UpstreamConfig, clock: Clock, on_probe: OnProbe, make_client: MakeClient = NodeClient
    ) -> None:
        self._config, self._clock, self._on_probe, self._make_client = config, clock, on_probe, make_client
        self._budget = MemoryBudget(config.large_answers_bytes_max)
        self._selection = NodeSelection(config.named_nodes, config.lag_slots_max, config.breaker_open_ms)
        settings = [WantedNode(config=node) for node in config.named_nodes]
        told = self._changed, self._probed
        self._members = Members(self._selection, self._open, *told, config.probe_timeout_ms, settings)
        hedges = Hedges(config.hedge_ms_min, config.hedge_percent_max)
        self._pool = NodePool(self._selection, self._members.clients, hedges)
        self._cache = ReadCache(config.cache_bytes_max)
        self._coalesced = CoalescedReads(self._pool, self._cache)
        self._slots = NodeSlots()
        self._monotonic = MonotonicReads(
            *(self._members.clients, self._slots, lambda watched: NodePool(self._selection, watched, hedges)),
            *(self._cache, self._coalesced.call),
        )
        self.single_nodes = SingleNodes(self._members.clients_in_use)
        self._listeners: list[OnNodes] = []
        self._members.begin()

    def take_over(self, wanted: Sequence[WantedNode]) -> None:
        """Use these nodes from now on. A new one gets calls after good probes; running calls end where they are."""
        self._members.take_over(wanted)

    def follow(self, listener: OnNodes) -> None:
        """Tell the nodes in use, now and whenever they change."""
        self._listeners.append(listener)
        listener(self.in_use)

    def call(self, method: str, params: bytes, timeout_ms: int) -> Coroutine[Any, Any, NodeAnswer]:
        """Make a call as NodeClient.call: under the view of this task where it has one, else from any slot."""
        node = self._coalesced if current_view() is None else self._monotonic
        return node.call(method, params, timeout_ms)

    @property
    def in_use(self) -> list[NodeConfig]:
        return [member.wanted.config for member in self._members.in_use]

    async def network(self) -> str | None:
        """Ask the nodes for the genesis hash of their network. None: none answers."""
        return await self._members.network()

    def figures(self) -> list[SeenNode]:
        """Return how this process finds each node. calls: since it began."""
        return self._members.figures()

    def is_answering_beside(self, node_id: str) -> bool:
        """Return whether another node that gets calls answered its last probe."""
        return self._members.is_answering_beside(node_id)

    async def probe(self) -> None:
        """Probe every node once."""
        await self._members.probe()

    def start(self) -> None:
        self._members.start()

    async def close(self) -> None:
        await self._members.close()

    def _open(self, member: WantedNode, listen: Callable[[Probe], None]) -> tuple[NodeClient, Prober]:
        config, node = self._config, member.config
        name = str(node.name) if config.node_header else ""
        client = self._make_client(config, node.url.get_secret_value(), name, self._budget)
        return client, Prober(config, client, member.id, self._clock, listen)

    def _changed(self) -> None:
        clients = self._members.clients_in_use()
        self._slots.use([member.index for member in self._members.in_use])
        # A single node is asked directly: a pool of one decides nothing.
        self._coalesced.ask_from_now_on(clients[0] if len(clients) == 1 else self._pool)
        for listener in self._listeners:
            listener(self.in_use)

    def _probed(self, index: int, name: str, probe: Probe) -> None:
        self._slots.probed(index, probe)
        for commitment in Commitment:
            slot = slot_at(probe, commitment) if probe.answered else None
            if slot is not None:
                self._cache.saw_slot(commitment, slot)
        self._on_probe(name, probe, self._selection.best_slot())
