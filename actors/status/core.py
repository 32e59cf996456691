"""The health of the service: starting, ok or degraded, from what probes and stores say.

Implements: interface specification, "Service health"; decisions, "health transitions".
Pure: fed by the shell after every probe of the primary node and whenever a store's state changes. What the clients
get to read is endpoints.py; how a node is probed is upstream's.

| From          | To       | When                                                                                    |
|---------------|----------|-----------------------------------------------------------------------------------------|
| (begin)       | starting | a node has not yet answered, or the stores were never all reachable at once             |
| any           | starting | the ledger cannot commit: no paid call is admitted that could not be recorded           |
| starting, ok  | degraded | 3 failed probes in a row, a lag above the limit, or Redis, relay or stream source down  |
| degraded      | ok       | 3 good probes in a row: answered, no lag, and everything else up at the time            |
| starting      | ok       | nothing of the above holds; a start has no bad record to live down                      |
"""

from dataclasses import dataclass, replace
from enum import Enum, unique

from actors.upstream.core import Probe

PROBES_IN_A_ROW = 3  # Decisions: as many failed ones degrade as good ones restore.


@unique
class Status(Enum):
    OK = "ok"
    DEGRADED = "degraded"
    STARTING = "starting"


@dataclass(frozen=True, slots=True)
class Services:
    """What the service stands on, as last seen. None: not configured, so not missed."""

    ledger_committing: bool  # PostgreSQL is reachable and its last commit succeeded.
    redis_reachable: bool
    relay_reachable: bool | None = None
    stream_source_reachable: bool | None = None
    fallback_active: bool = False  # Another node answers in place of the primary.

    @property
    def stores_reachable(self) -> bool:
        return self.ledger_committing and self.redis_reachable

    @property
    def all_up(self) -> bool:
        return self.stores_reachable and self.relay_reachable is not False and self.stream_source_reachable is not False


@dataclass(frozen=True, slots=True)
class NodeFigures:
    """What the primary node said last; None: it has not said."""

    slot: int | None = None
    block_height: int | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class Health:
    lag_slots_max: int = 128
    status: Status = Status.STARTING
    services: Services = Services(ledger_committing=False, redis_reachable=False)
    node: NodeFigures = NodeFigures()
    node_answered: bool = False  # At least once.
    stores_were_reachable: bool = False  # All at once, at least once.
    lagging: bool = False
    failures_in_a_row: int = 0
    good_in_a_row: int = 0

    def after_probe(self, probe: Probe, best_known_slot: int | None) -> "Health":
        """The health once the primary node was probed. best_known_slot: highest slot that any source has named."""
        if not probe.answered:
            failed = replace(self, failures_in_a_row=self.failures_in_a_row + 1, good_in_a_row=0)
            return failed._judged()
        lagging = (
            probe.slot is not None and best_known_slot is not None and best_known_slot - probe.slot > self.lag_slots_max
        )
        good = self.services.all_up and not lagging
        answered = replace(
            self,
            node=_latest(self.node, probe),
            node_answered=True,
            lagging=lagging,
            failures_in_a_row=0,
            good_in_a_row=self.good_in_a_row + 1 if good else 0,
        )
        return answered._judged()

    def after_services(self, services: Services) -> "Health":
        """The health once stores and sources were looked at. Looking again changes nothing."""
        seen = replace(
            self,
            services=services,
            stores_were_reachable=self.stores_were_reachable or services.stores_reachable,
            good_in_a_row=self.good_in_a_row if services.all_up else 0,
        )
        return seen._judged()

    @property
    def node_healthy(self) -> bool:
        """Whether calls to the primary node can be expected to be answered, and from the tip of the chain."""
        return self.node_answered and self.failures_in_a_row < PROBES_IN_A_ROW and not self.lagging

    @property
    def paid_traffic_ready(self) -> bool:
        """Whether a paid call would be recorded and somebody is there to answer it, be it late or from behind."""
        answering = self.failures_in_a_row < PROBES_IN_A_ROW or self.services.fallback_active
        return self.status is not Status.STARTING and answering

    def _judged(self) -> "Health":
        return replace(self, status=self._next_status())

    def _next_status(self) -> Status:
        if not (self.node_answered and self.stores_were_reachable and self.services.ledger_committing):
            return Status.STARTING
        if not self.node_healthy or not self.services.all_up:
            return Status.DEGRADED
        if self.status is Status.DEGRADED and self.good_in_a_row < PROBES_IN_A_ROW:
            return Status.DEGRADED
        return Status.OK


def _latest(known: NodeFigures, probe: Probe) -> NodeFigures:
    """An answered probe may still lack a figure; the last known one then stands."""
    return NodeFigures(
        slot=known.slot if probe.slot is None else probe.slot,
        block_height=known.block_height if probe.block_height is None else probe.block_height,
        version=known.version if probe.version is None else probe.version,
    )
