"""The public pages of one replica, kept current by the nodes' probes and by a check of the stores every second.

Implements: interface, "Public endpoints"; decisions, "health transitions". A shell: core.py judges, endpoints.py builds
the documents. Not here: who serves the pages (gateway/pages/routes.py), the parts that they tell of.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import redis.exceptions

from actors.background import Background
from actors.calls import PUBLIC_PRICES
from actors.clock import Clock
from actors.config import Config, UpstreamConfig
from actors.methods.price_lists import PriceList, price_lists
from actors.provider_config import NodeConfig
from actors.status import endpoints
from actors.status.core import Health, NodeHealth, Services, Status
from actors.status.isolation import Isolation
from actors.status.products import Doors
from actors.telemetry.metrics import Metrics
from actors.upstream.node_health import Probe

logger = logging.getLogger(__name__)

_STATUSES = (Status.OK, Status.DEGRADED, Status.STARTING)  # Numbered by the metric `health_status`.
_WATCH_SECONDS = 1.0


class Owners(Protocol):
    """The owners of accounts. committing: whether the ledger commits for at least half of them; finds owners_away."""

    @property
    def clocks_disagree(self) -> bool: ...
    @property
    def owners_away(self) -> tuple[int, ...]: ...
    async def committing(self) -> bool: ...


class SignalSources(Protocol):
    """sources: the part of GET /health on signals. are_read: whether every classifier has a source."""

    def sources(self) -> dict[str, Any]: ...
    @property
    def are_read(self) -> bool: ...


class Sends(Protocol):
    @property
    def landing(self) -> dict[str, Any] | None: ...
    @property
    def relay_reachable(self) -> bool: ...


class GrpcSource(Protocol):
    @property
    def is_up(self) -> bool: ...


class HubOfThisNode(Protocol):
    """look: returns whether the hub of this replica's node is reachable."""

    def look(self) -> bool: ...


class SponsorBalance(Protocol):
    @property
    def sponsor_low(self) -> bool: ...


class Price(Protocol):
    @property
    def micro_usd(self) -> int: ...
    def age_seconds(self, now: int) -> int | None: ...


class PriceOfSol(Protocol):
    @property
    def latest(self) -> Price | None: ...


@dataclass(frozen=True, slots=True)
class LiveParts:
    """The parts of a replica that the pages report. None: the part does not exist, and the pages do not mention it."""

    owners: Owners
    redis: Any
    signals: SignalSources | None = None
    sends: Sends | None = None
    grpc: GrpcSource | None = None
    sponsor: SponsorBalance | None = None
    sol_price: PriceOfSol | None = None
    hub: HubOfThisNode | None = None


@dataclass(frozen=True, slots=True)
class OfferedParts:
    """paths: method and path of everything that the doors serve. outcomes: of a call, and whether each is charged."""

    doors: Doors = field(default_factory=Doors)
    paths: Sequence[str] = ()
    outcomes: Mapping[str, bool] = field(default_factory=dict)


class CurrentHealth:
    """The newest health of this replica; a change of its status is logged."""

    def __init__(self, upstream: UpstreamConfig) -> None:
        nodes = tuple(NodeHealth(str(node.name), node.weight > 0) for node in upstream.named_nodes)
        self.health = Health(lag_slots_max=upstream.lag_slots_max, nodes=nodes)

    def nodes_changed(self, in_use: Sequence[NodeConfig]) -> None:
        """Record which nodes get calls from now on."""
        self._take_in(self.health.with_nodes({str(node.name): node.weight > 0 for node in in_use}))

    def probed(self, name: str, probe: Probe, best_known_slot: int | None) -> None:
        """Record one probe of a node."""
        self._take_in(self.health.after_probe(probe, best_known_slot, name))

    def looked(self, services: Services) -> None:
        """Record one check of the stores and sources."""
        self._take_in(self.health.after_services(services))

    def is_up(self, part: str) -> bool:
        """Return whether a part is up. part: a field of Services."""
        return bool(getattr(self.health.services, part))

    def _take_in(self, health: Health) -> None:
        before, self.health = self.health.status, health
        if health.status is not before:
            logger.warning("health: %s, was %s", health.status.value, before.value)


class LivePages:
    """on_cut_off: called once for each time that this replica is cut off (isolation.py). reaches_others: whether an
    owner on another machine is linked, or none is known."""

    def __init__(
        self,
        config: Config,
        clock: Clock,
        current: CurrentHealth,
        parts: LiveParts,
        offered: OfferedParts,
        on_cut_off: Callable[[], None] = lambda: None,
        reaches_others: Callable[[], bool] = lambda: True,
    ) -> None:
        self._isolation, self._on_cut_off, self._reaches_others = Isolation(), on_cut_off, reaches_others
        self._prices, self._clock, self._current, self._parts = config.pricing, clock, current, parts
        self._started_at, self._doors = clock.now(), offered.doors
        lists = price_lists(config.pricing)
        self._pricing = {name: self._pricing_of(config, offered, prices) for name, prices in lists.items()}
        self._lists = lists
        self._capabilities = endpoints.capabilities_document(offered.doors, offered.paths)
        self._background = Background(logger, "checking the stores failed")

    async def start(self, metrics: Metrics) -> None:
        """Check the stores before the first call, so that a new replica does not answer /health with "starting" while
        another one serves; then every second, and report what is found."""
        self.watch(metrics)
        await self.look()
        self._background.repeat(self.look, _WATCH_SECONDS)

    async def stop(self) -> None:
        await self._background.stop()

    def watch(self, metrics: Metrics) -> None:
        """Report the status of GET /health, and each of its reasons: an alert must name the part that is down."""
        current, parts = self._current, self._parts
        text = f"GET /health of this replica: {', '.join(f'{at} {each.value}' for at, each in enumerate(_STATUSES))}."
        metrics.watch("health_status", text, lambda: _STATUSES.index(current.health.status))
        for name, text, part in (
            ("ledger_committing", "1: the ledger commits for at least half of the owners.", "ledger_committing"),
            ("redis_reachable", "1: Redis answers this replica.", "redis_reachable"),
            ("block_engine_reachable", "1: a block engine answers, or none is configured.", "relay_reachable"),
            ("yellowstone_reachable", "1: the gRPC source is up, or none is configured.", "streams_reachable"),
            ("stream_hub_reachable", "1: the stream hub of this machine answers, or there is none.", "hub_reachable"),
        ):
            metrics.watch(name, text, partial(current.is_up, part))
        text = "Owners of accounts that do not answer this replica."
        metrics.watch("account_owners_away", text, lambda: len(current.health.services.owners_away))
        text = "Primary nodes that do not answer, or are behind the chain."
        metrics.watch("nodes_away", text, lambda: sum(not node.is_well for node in current.health.primaries))
        text = "1: the clocks of an owner of accounts and of the database differ, so no credits expire."
        metrics.watch("clocks_disagree", text, lambda: int(parts.owners.clocks_disagree))
        if (sponsor := parts.sponsor) is not None:
            text = "1: the sponsor of x402 payments has less SOL than the setting."
            metrics.watch("sponsor_balance_low", text, lambda: int(sponsor.sponsor_low))

    def health(self) -> tuple[int, dict[str, Any]]:
        parts, health = self._parts, self._current.health
        document = endpoints.health_document(
            health,
            self._clock.now(),
            self._started_at,
            self._doors,
            clocks_disagree=parts.owners.clocks_disagree,
            sponsor_low=None if parts.sponsor is None else parts.sponsor.sponsor_low,
            signals=None if parts.signals is None else parts.signals.sources(),
        )
        return endpoints.health_http_status(health), document

    @staticmethod
    def _pricing_of(config: Config, offered: OfferedParts, prices: PriceList) -> dict[str, Any]:
        return endpoints.pricing_document(config.payments, config.pricing, offered.outcomes, offered.doors, prices)

    def pricing(self, price_list: str = PUBLIC_PRICES) -> dict[str, Any]:
        """Return the prices of the accounts with this list; a list missing from the settings has the public prices."""
        name = price_list if price_list in self._lists else PUBLIC_PRICES
        latest = None if self._parts.sol_price is None else self._parts.sol_price.latest
        live = None if latest is None else (latest.micro_usd, latest.age_seconds(self._clock.now()))
        built = endpoints.percentage_priced(self._prices, live, self._lists[name])
        return self._pricing[name] | {"percentage_priced": built}

    def capabilities(self) -> dict[str, Any]:
        return self._capabilities

    def landing(self) -> dict[str, Any] | None:
        return None if self._parts.sends is None else self._parts.sends.landing

    async def look(self) -> None:
        """Check the stores and sources once."""
        parts = self._parts
        committing, reachable = await asyncio.gather(parts.owners.committing(), self._redis_answers())
        relay = parts.sends is None or parts.sends.relay_reachable
        streaming = parts.grpc is None or parts.grpc.is_up
        signals = parts.signals is None or parts.signals.are_read
        away = parts.owners.owners_away
        hub = parts.hub is None or parts.hub.look()
        services = Services(committing, reachable, relay, streaming, signals, away, hub)
        self._current.looked(services)
        if self._isolation.looked(services, self._reaches_others(), self._clock.monotonic()):
            self._on_cut_off()

    async def _redis_answers(self) -> bool:
        try:
            async with asyncio.timeout(_WATCH_SECONDS):
                return bool(await self._parts.redis.ping())
        except (redis.exceptions.RedisError, OSError, TimeoutError):
            return False
