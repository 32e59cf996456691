"""The nodes of a process while they change: joining, in use, or leaving once their calls have ended.

Implements: upstream/README.md, "Nodes that change while the service runs". A shell around node_selection.py.

A node of the settings is in use from the start. An added one first answers PROBES_MIN probes in a row, and tells the
genesis hash of this network. A drained node gets no new calls, but is still probed; while no other node can take them,
it keeps getting calls. A removed node is closed when its calls have ended.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from actors.background import Background
from actors.upstream.client import NodeClient
from actors.upstream.method_lanes import Lane
from actors.upstream.node_changes import Need, WantedNode, needs_of
from actors.upstream.node_health import Probe, lag_slots
from actors.upstream.node_reports import NodeStage, SeenNode
from actors.upstream.node_selection import NodeSelection, State
from actors.upstream.prober import Prober

logger = logging.getLogger(__name__)

PROBES_MIN = 3  # As many as /health needs for a recovered node.
_ENDING_SECONDS_MAX = 60.0  # The longest call may take 30 s.
_WORDS = {State.WELL: "well", State.BEHIND: "behind", State.FAILING: "failing"}
OpenNode = Callable[[WantedNode, Callable[[Probe], None]], tuple[NodeClient, Prober]]


@dataclass(slots=True, eq=False)
class Member:
    """probes_left: good ones before it may be in use. network: None: not told yet. is_wanted: not removed."""

    index: int
    wanted: WantedNode
    client: NodeClient
    prober: Prober
    probes_left: int
    network: str | None = None
    is_right_network: bool = False
    is_wanted: bool = True
    in_use: bool = False
    is_checking: bool = False
    unused: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_admitted(self) -> bool:
        return self.probes_left <= 0 and self.is_right_network

    @property
    def is_active(self) -> bool:
        return self.is_wanted and self.is_admitted and not self.wanted.is_drained


class Members:
    """settings: the nodes that the selection has already. on_change: called when other nodes are in use than before.
    on_probe: of a node in use, with its index."""

    def __init__(
        self,
        selection: NodeSelection,
        open_node: OpenNode,
        on_change: Callable[[], None],
        on_probe: Callable[[int, str, Probe], None],
        timeout_ms: int,
        settings: Sequence[WantedNode],
    ) -> None:
        self._selection, self._open, self._timeout_ms = selection, open_node, timeout_ms
        self._on_change, self._on_probe = on_change, on_probe
        self._all: list[Member] = []
        self.clients: list[NodeClient] = []  # By the index of the selection.
        self._told: list[tuple[int, int]] = []  # Index and weight of the nodes in use, as last passed to on_change.
        self._network: str | None = None
        self._is_started = False
        self._needs = needs_of([node.config for node in settings])
        self._background = Background(logger, "changing the nodes failed")
        for index, wanted in enumerate(settings):
            self.clients.append(self._member(index, wanted, probes_left=0).client)

    @property
    def in_use(self) -> list[Member]:
        return [member for member in self._all if member.in_use]

    def clients_in_use(self) -> list[NodeClient]:
        return [member.client for member in self._all if member.in_use]

    def begin(self) -> None:
        """Have the nodes of the settings in use."""
        self._settle()

    def take_over(self, wanted: Sequence[WantedNode]) -> None:
        """As Nodes.take_over. Atomic: no call sees half of a change."""
        by_id = {node.id: node for node in wanted}
        for member in self._all:
            node = by_id.get(member.wanted.id)
            if member.is_wanted and (node is None or _is_another(node, member.wanted)):
                member.is_wanted = False
                self._background.start(self._end(member))
            elif member.is_wanted and node is not None:
                member.wanted = by_id.pop(node.id)
        for node in wanted:
            if node.id in by_id:
                self._join(node)
        order = {node.id: place for place, node in enumerate(wanted)}
        self._all.sort(key=lambda member: order.get(member.wanted.id, len(order)))
        self._settle()

    def start(self) -> None:
        self._is_started = True
        for member in self._all:
            member.prober.start()

    async def probe(self) -> None:
        """Probe every node once. At the start one good probe is enough, because there may be no other node."""
        await asyncio.gather(*(member.prober.probe() for member in self._all))
        for member in self._all:
            if not member.is_admitted and member.probes_left < PROBES_MIN:
                member.probes_left = 0
                await self._check(member)

    async def close(self) -> None:
        await self._background.stop()
        for member in self._all:
            await member.prober.stop()
        for client in self.clients:
            await client.close()

    async def network(self) -> str | None:
        """As Nodes.network."""
        trusted = [member for member in self._all if member.wanted.is_of_settings or member.in_use]
        for told in asyncio.as_completed([member.client.network(self._timeout_ms) for member in trusted]):
            if (found := await told) is not None:
                self._network = found
                return found
        return self._network

    def figures(self) -> list[SeenNode]:
        """As Nodes.figures."""
        now_ms = int(asyncio.get_running_loop().time() * 1000)
        scores = [self._selection.all[member.index].score for member in self._all if member.in_use]
        found = []
        for member in self._all:
            score = self._selection.all[member.index].score
            told = score.last is not None and score.last.slot is not None
            found.append(
                SeenNode(
                    id=member.wanted.id,
                    stage=_stage(member),
                    health=_WORDS[self._selection.state(member.index, Lane.CHEAP, now_ms)],
                    in_flight=member.client.in_flight,
                    calls=member.client.calls,
                    slot=score.last.slot if score.last is not None else None,
                    lag_slots=lag_slots(score, scores) if told else None,
                    latency_ms=score.latency_ms,
                )
            )
        return found

    def is_answering_beside(self, node_id: str) -> bool:
        """As Nodes.is_answering_beside."""
        active = [member for member in self._all if member.is_active]
        beside = [
            member
            for member in active
            if member.wanted.id != node_id
            and member.wanted.config.weight
            and not self._selection.all[member.index].score.failures_in_a_row
        ]
        leaving = [member for member in active if member.wanted.id == node_id]
        needs = [need for need in self._needs if any(_can(member, need) for member in leaving)]
        return bool(beside) and all(any(_can(member, need) for member in beside) for need in needs)

    def _join(self, wanted: WantedNode) -> None:
        index = self._selection.join(wanted.config)
        member = self._member(index, wanted, PROBES_MIN)
        if index < len(self.clients):
            self.clients[index] = member.client
        else:
            self.clients.append(member.client)
        if self._is_started:
            member.prober.start()
        logger.info("node %s joins", wanted.id)

    def _member(self, index: int, wanted: WantedNode, probes_left: int) -> Member:
        client, prober = self._open(wanted, lambda probe: self._probed(member, probe))
        member = Member(index, wanted, client, prober, probes_left, is_right_network=wanted.is_of_settings)
        self._all.append(member)
        return member

    def _probed(self, member: Member, probe: Probe) -> None:
        self._selection.probed(member.index, probe)
        if member.in_use:
            self._on_probe(member.index, member.wanted.id, probe)
        if member.is_admitted:
            return
        member.probes_left = max(0, member.probes_left - 1) if probe.answered else PROBES_MIN
        if probe.answered and not member.is_checking and self._is_started:
            member.is_checking = True
            self._background.start(self._check(member))

    async def _check(self, member: Member) -> None:
        """Check the network of a joining node; it is used once that is the right one."""
        try:
            if not member.wanted.is_of_settings:
                await self._compare_networks(member)
        finally:
            member.is_checking = False
        if member.is_admitted:
            logger.info("node %s is in use", member.wanted.id)
            self._settle()

    async def _compare_networks(self, member: Member) -> None:
        network = self._network or await self.network() or member.wanted.network
        told = await member.client.network(self._timeout_ms)
        if told is not None and told != network and told != member.network:
            logger.error("node %s is of another network, and gets no calls", member.wanted.id)
        member.network, member.is_right_network = told, bool(network) and told == network

    def _settle(self) -> None:
        """Decide which nodes are in use. A drained or removed one stays while no other can do its work."""
        active = [member for member in self._all if member.is_active]
        waits = [need for need in self._needs if not any(_can(one, need) for one in active)]
        for member in self._all:
            is_needed = (member.is_wanted or member.in_use) and any(_can(member, need) for need in waits)
            member.in_use = member.is_active or (member.is_admitted and is_needed)
            self._selection.use(member.index, member.in_use, member.wanted.config.weight)
            (member.unused.clear if member.in_use else member.unused.set)()
        in_use = self.in_use
        for member in self._all:
            member.prober.one_of_several = len(in_use) > 1
        told = [(member.index, member.wanted.config.weight) for member in in_use]
        if told != self._told:
            self._told = told
            self._on_change()

    async def _end(self, member: Member) -> None:
        """Close a removed node once it is not needed and its calls have ended."""
        await member.unused.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(_ENDING_SECONDS_MAX):
                await member.client.until_idle()
        self._all.remove(member)
        await member.prober.stop()
        await member.client.close()
        self._selection.leave(member.index)
        logger.info("node %s is closed", member.wanted.id)


def _can(member: Member, need: Need) -> bool:
    config = member.wanted.config
    return config.ws_url is not None if need is Need.STREAMS else need.value in config.roles


def _is_another(one: WantedNode, other: WantedNode) -> bool:
    """Return whether a node of the same id is another one: then the former leaves, and it joins."""
    return (one.config.url, one.config.ws_url, one.config.roles) != (
        other.config.url,
        other.config.ws_url,
        other.config.roles,
    )


def _stage(member: Member) -> NodeStage:
    if not member.is_wanted:
        return NodeStage.ENDING
    if not member.is_admitted:
        is_other = member.network is not None and not member.is_right_network
        return NodeStage.OTHER_NETWORK if is_other else NodeStage.JOINING
    if member.wanted.is_drained:
        if member.in_use:
            return NodeStage.WAITING
        return NodeStage.DRAINING if member.client.in_flight else NodeStage.DRAINED
    return NodeStage.IN_USE if member.in_use else NodeStage.JOINING
