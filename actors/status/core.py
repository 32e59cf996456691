"""The health of the service: starting, ok or degraded, from what probes and stores say.

Implements: interface, "Service health"; decisions, "health transitions".
Pure: the shell calls it after every probe of a node and after every look at the stores. The documents that clients
read are made in endpoints.py; probing is part of upstream.

Every node with a weight above 0 is a primary node. Each takes a share of the calls, so the service is degraded when one
of them fails, and the node that takes over its calls is its fallback. A node of weight 0 is only a fallback: its
failure changes nothing.

| From          | To       | When                                                                                    |
|---------------|----------|-----------------------------------------------------------------------------------------|
| (begin)       | starting | a node has not yet answered, or the stores were never all reachable at once             |
| any           | starting | the ledger cannot commit for most accounts, so paid calls could not be recorded         |
| starting, ok  | degraded | a primary node failed 3 probes in a row (no answer, or it calls itself unhealthy or     |
|               |          | behind), or lags above the limit; or Redis, the block engine or the stream source is    |
|               |          | down; or a classifier of signals has no source of blocks; or the stream hub of this     |
|               |          | machine is away; or an owner of accounts is away, and at least half of them are not     |
| degraded      | ok       | every primary node had 3 good probes in a row: answered, no lag, all else up            |
| starting      | ok       | none of the above applies; 3 good probes are not needed after a start                   |
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum, unique

from actors.upstream.node_health import Probe

PROBES_IN_A_ROW = 3  # Decisions: so many failed probes degrade the service, and so many good ones restore it.


@unique
class Status(Enum):
    OK = "ok"
    DEGRADED = "degraded"
    STARTING = "starting"


@dataclass(frozen=True, slots=True)
class Services:
    """The services that this one depends on, as last seen."""

    ledger_committing: bool  # PostgreSQL is reachable, and the last commits of at least half of the owners succeeded.
    redis_reachable: bool
    relay_reachable: bool = True  # True also if no block engine is configured. Calls continue without it.
    streams_reachable: bool = True  # True also if no source of the Yellowstone stream is configured.
    signals_read: bool = True  # Every classifier has a source; True also if there are no signals.
    owners_away: tuple[int, ...] = ()  # Indexes of the account owners whose accounts are not served now.
    hub_reachable: bool = True  # The stream hub of this replica's node; True also if there is none.

    @property
    def all_up(self) -> bool:
        sources_up = self.relay_reachable and self.streams_reachable and self.signals_read and self.hub_reachable
        return self.stores_up and sources_up and not self.owners_away

    @property
    def stores_up(self) -> bool:
        return self.ledger_committing and self.redis_reachable


@dataclass(frozen=True, slots=True)
class NodeFigures:
    """The latest figures that a node gave. None: it has not given this one."""

    slot: int | None = None
    block_height: int | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class NodeHealth:
    """The state of one node, from its probes."""

    name: str = ""
    is_primary: bool = True
    answered: bool = False  # True after the first answer.
    lagging: bool = False
    failures_in_a_row: int = 0  # Probes without an answer.
    bad_in_a_row: int = 0  # Those, and probes in which the node called itself unhealthy or behind.
    good_in_a_row: int = 0
    figures: NodeFigures = NodeFigures()

    def after(self, probe: Probe, lagging: bool, all_up: bool) -> "NodeHealth":
        if not probe.answered:
            failures, bad = self.failures_in_a_row + 1, self.bad_in_a_row + 1
            return replace(self, failures_in_a_row=failures, bad_in_a_row=bad, good_in_a_row=0)
        is_good = all_up and not lagging and not probe.behind
        return replace(
            self,
            answered=True,
            lagging=lagging,
            failures_in_a_row=0,
            bad_in_a_row=self.bad_in_a_row + 1 if probe.behind else 0,
            good_in_a_row=self.good_in_a_row + 1 if is_good else 0,
            figures=_latest(self.figures, probe),
        )

    @property
    def is_answering(self) -> bool:
        return self.answered and self.failures_in_a_row < PROBES_IN_A_ROW

    @property
    def is_well(self) -> bool:
        """Return whether the node answers and is not behind the chain."""
        return self.answered and self.bad_in_a_row < PROBES_IN_A_ROW and not self.lagging


@dataclass(frozen=True, slots=True)
class Health:
    lag_slots_max: int = 128
    status: Status = Status.STARTING
    services: Services = Services(ledger_committing=False, redis_reachable=False)
    nodes: tuple[NodeHealth, ...] = (NodeHealth(),)
    stores_were_reachable: bool = False  # All stores at once, at least once since the start.

    def after_probe(self, probe: Probe, best_known_slot: int | None, name: str = "") -> "Health":
        """Return the health after a probe of a node. best_known_slot: highest slot that any source has named."""
        lag_slots = 0 if probe.slot is None or best_known_slot is None else best_known_slot - probe.slot
        lagging = lag_slots > self.lag_slots_max
        nodes = tuple(
            node.after(probe, lagging, self.services.all_up) if node.name == name else node for node in self.nodes
        )
        return replace(self, nodes=nodes)._judged()

    def with_nodes(self, primaries: Mapping[str, bool]) -> "Health":
        """Return the health with these nodes in use, by name, and whether each is primary. One that was not among them
        has answered good probes, as it would not be in use else."""
        known = {node.name: node for node in self.nodes}
        new = NodeHealth(answered=True, good_in_a_row=PROBES_IN_A_ROW)
        nodes = [
            replace(known.get(name, new), name=name, is_primary=is_primary) for name, is_primary in primaries.items()
        ]
        return replace(self, nodes=tuple(nodes))._judged()

    def after_services(self, services: Services) -> "Health":
        """Return the health after a look at stores and sources. A second look with the same result changes nothing."""
        seen = replace(
            self,
            services=services,
            stores_were_reachable=self.stores_were_reachable or services.stores_up,
            nodes=self.nodes if services.all_up else tuple(replace(node, good_in_a_row=0) for node in self.nodes),
        )
        return seen._judged()

    @property
    def primaries(self) -> tuple[NodeHealth, ...]:
        return tuple(node for node in self.nodes if node.is_primary)

    @property
    def node_healthy(self) -> bool:
        """Return whether every primary node answers and is not behind the chain."""
        return all(node.is_well for node in self.primaries)

    @property
    def fallback_active(self) -> bool:
        """Return whether another node answers in place of a primary one."""
        answering = sum(node.is_answering for node in self.nodes)
        return any(not node.is_well and answering > node.is_answering for node in self.primaries)

    @property
    def figures(self) -> NodeFigures:
        """Return the figures of the primary node with the highest slot."""
        return max(
            (node.figures for node in self.primaries), key=lambda figures: figures.slot or 0, default=NodeFigures()
        )

    @property
    def paid_traffic_ready(self) -> bool:
        """Return whether a paid call would be recorded, and at least one node answers, even if it is behind."""
        return self.status is not Status.STARTING and any(node.is_answering for node in self.nodes)

    def _judged(self) -> "Health":
        return replace(self, status=self._next_status())

    def _next_status(self) -> Status:
        answered = any(node.answered for node in self.nodes)
        if not (answered and self.stores_were_reachable and self.services.ledger_committing):
            return Status.STARTING
        if not self.node_healthy or not self.services.all_up:
            return Status.DEGRADED
        if self.status is Status.DEGRADED and any(node.good_in_a_row < PROBES_IN_A_ROW for node in self.primaries):
            return Status.DEGRADED
        return Status.OK


def _latest(known: NodeFigures, probe: Probe) -> NodeFigures:
    """Keep the last known figure if an answered probe lacks it."""
    return NodeFigures(
        slot=known.slot if probe.slot is None else probe.slot,
        block_height=known.block_height if probe.block_height is None else probe.block_height,
        version=known.version if probe.version is None else probe.version,
    )
