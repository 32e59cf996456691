"""Guards the public pages of a running replica: fed by probes and by a look at the stores."""

from dataclasses import replace
from typing import Any

import redis.exceptions

from actors.clock import ManualClock
from actors.config import Config, TradesConfig, UpstreamConfig
from actors.pricing_config import PriceListConfig, PricingConfig
from actors.provider_config import NodeConfig
from actors.status.isolation import CUT_OFF_SECONDS
from actors.status.live import CurrentHealth, LivePages, LiveParts, OfferedParts
from actors.telemetry.metrics import Metrics
from actors.trades.price_feed import SolPriceFeed
from actors.trades.sol_price import SolPrice
from actors.upstream.node_health import Probe

nobody: Any = None
CONFIG = Config(upstream=UpstreamConfig(node_url="http://127.0.0.1:1"))


class Owners:
    def __init__(self) -> None:
        self.state = True
        self.clocks_disagree, self.owners_away = False, tuple[int, ...]()

    async def committing(self) -> bool:
        return self.state


class Redis:
    def __init__(self) -> None:
        self.up = True

    async def ping(self) -> bool:
        if not self.up:
            raise redis.exceptions.ConnectionError
        return True


class World:
    def __init__(self) -> None:
        self.owners, self.redis = Owners(), Redis()
        self.current = CurrentHealth(CONFIG.upstream)
        self.pages = self.pages_with()

    def pages_with(self, **parts: Any) -> LivePages:
        told = LiveParts(owners=self.owners, redis=self.redis, **parts)
        return LivePages(CONFIG, ManualClock(), self.current, told, OfferedParts())

    async def look(self) -> tuple[int, str]:
        await self.pages.look()
        probe = Probe(answered=True, slot=100, block_height=90, version="4.1.2", latency_ms=1)
        self.current.probed("node-1", probe, 100)
        http, document = self.pages.health()
        return http, document["status"]


async def test_health_begins_starting_and_becomes_ok() -> None:
    """Rule (decisions, health transitions): starting until a node has answered and the stores are reachable."""
    world = World()
    assert world.pages.health()[0] == 503
    assert await world.look() == (200, "ok")


async def test_a_ledger_that_cannot_commit_is_starting_again() -> None:
    """Rule: no paid call is admitted that could not be recorded."""
    world = World()
    await world.look()
    world.owners.state = False
    assert await world.look() == (503, "starting")
    world.owners.state = True
    assert (await world.look())[0] == 200


async def test_redis_away_is_degraded() -> None:
    """Rule: degraded when Redis is down; API-key calls go on."""
    world = World()
    await world.look()
    world.redis.up = False
    http, status = await world.look()
    assert (http, status) == (200, "degraded")


class _ReachedHub:
    def __init__(self) -> None:
        self.is_reached = True

    def look(self) -> bool:
        return self.is_reached


async def test_a_stream_hub_away_is_degraded() -> None:
    """It is of this machine: others serve, and a balancer may go to them."""
    world, hub = World(), _ReachedHub()
    world.pages._parts = replace(world.pages._parts, hub=hub)
    assert (await world.look())[1] == "ok"
    hub.is_reached = False
    assert await world.look() == (200, "degraded")
    assert world.pages.health()[1]["stream_hub_away"] is True


def test_the_pages_are_honest_about_what_is_not_built() -> None:
    """Rule: what is not built is published as not available; nothing pretends."""
    pages = World().pages
    assert pages.capabilities()["service_profile"]["services"]["websocket"] is False
    assert pages.pricing()["methods"]["sendBundle"]["available"] is False


async def test_clocks_that_disagree_show_in_health_and_change_nothing_else() -> None:
    """Threat 53: an owner lets nothing expire; calls go on, and the operator is told."""
    world = World()
    await world.look()
    assert "clocks_disagree" not in world.pages.health()[1]
    world.owners.clocks_disagree = True
    http, document = world.pages.health()
    assert (http, document["status"], document["clocks_disagree"]) == (200, "ok", True)


class Sponsor:
    """As much of the payments as health asks."""

    def __init__(self, low: bool) -> None:
        self.sponsor_low = low


async def test_a_low_sponsor_shows_in_health_and_changes_nothing_else() -> None:
    """Rule: payments that come with calls end when it runs dry, calls do not; without payments nothing is said."""
    world = World()
    await world.look()
    assert "sponsor_balance_low" not in world.pages.health()[1]
    for low in (False, True):
        http, document = world.pages_with(sponsor=Sponsor(low)).health()
        assert (http, document["status"], document["sponsor_balance_low"]) == (200, "ok", low)


async def test_metrics_tell_the_health_and_each_of_its_reasons() -> None:
    """An alert must name the part that is away; the sponsor is told where there is one."""
    world, metrics = World(), Metrics()
    world.pages_with(sponsor=Sponsor(True)).watch(metrics)
    told = lambda name: metrics.registry.get_sample_value(f"ledger_gateway_{name}")  # noqa: E731 - one line.
    reasons = ("ledger_committing", "redis_reachable", "account_owners_away", "nodes_away", "clocks_disagree")
    assert told("health_status") == 2
    await world.look()
    assert (told("health_status"), [told(name) for name in reasons]) == (0, [1, 1, 0, 0, 0])
    assert [told(f"{name}_reachable") for name in ("block_engine", "yellowstone", "stream_hub")] == [1, 1, 1]
    world.redis.up, world.owners.owners_away, world.owners.clocks_disagree = False, (2, 5), True
    await world.look()
    assert (told("health_status"), [told(name) for name in reasons]) == (1, [1, 0, 2, 0, 1])
    for _ in range(3):
        world.current.probed("node-1", Probe(answered=False, slot=None, block_height=None, version=None), None)
    assert (told("nodes_away"), told("sponsor_balance_low")) == (1, 1)
    world.owners.state = False
    await world.look()
    assert (told("health_status"), told("ledger_committing")) == (2, 0)


def test_the_sponsor_is_no_metric_where_x402_is_off() -> None:
    metrics = Metrics()
    World().pages.watch(metrics)
    assert metrics.registry.get_sample_value("ledger_gateway_sponsor_balance_low") is None


async def test_the_price_page_shows_the_rate_of_the_next_build() -> None:
    """Rule: the live rate of the trade builders is published with its age; without a price it is null."""
    world = World()
    row = world.pages.pricing()["percentage_priced"]["executeSnipe"]
    assert (row["sol_usd"], row["sol_usd_age_seconds"], row["build_credits"]) == (None, None, 25)
    clock = ManualClock()
    feed = SolPriceFeed(nobody, TradesConfig(), clock)
    feed._latest = SolPrice(150_123_456, clock.now() - 7)
    row = world.pages_with(sol_price=feed).pricing()["percentage_priced"]["executeSell"]
    assert (row["sol_usd"], row["sol_usd_age_seconds"], row["available"]) == ("150.123456", 7, True)


async def test_health_follows_the_nodes_that_are_in_use() -> None:
    """A drained node says nothing about the service, and one that joins has answered good probes."""
    world = World()
    assert await world.look() == (200, "ok")
    joined = NodeConfig(name="joined", url="http://127.0.0.1:2")
    world.current.nodes_changed([*CONFIG.upstream.named_nodes, joined])
    assert world.pages.health()[1]["status"] == "ok"
    for _ in range(3):
        world.current.probed("joined", Probe(answered=False), 100)
    assert world.pages.health()[1]["status"] == "degraded"
    world.current.nodes_changed(CONFIG.upstream.named_nodes)
    assert world.current.health.node_healthy
    world.current.probed("joined", Probe(answered=False), 100)  # A probe that was under way.
    assert world.current.health.node_healthy
    world.current.nodes_changed([])
    assert world.pages.health()[0] == 503


async def test_the_price_page_is_of_the_list_that_is_asked_for() -> None:
    """Decisions, "Price lists": the rate of SOL is everybody's; a list that the settings lack has the public prices."""
    lists = {"wholesale": PriceListConfig(percent=60, methods={"getBlock": 7})}
    config = CONFIG.model_copy(update={"pricing": PricingConfig(lists=lists)})
    feed = SolPriceFeed(nobody, TradesConfig(sol_usd_micro=150_000_000), ManualClock())
    told = LiveParts(owners=Owners(), redis=Redis(), sol_price=feed)
    pages = LivePages(config, ManualClock(), CurrentHealth(CONFIG.upstream), told, OfferedParts())
    for name, shown, block, fixed in (
        ("", "public", 25, 25),
        ("wholesale", "wholesale", 7, 15),
        ("gone", "public", 25, 25),
    ):
        document = pages.pricing(name)
        assert document["price_list"]["name"] == shown and document["methods"]["getBlock"]["credits"] == block
        built = document["percentage_priced"]["executeSell"]
        assert (built["build_credits"], built["sol_usd"]) == (fixed, "150.000000")


async def test_a_replica_that_is_cut_off_says_so_once() -> None:
    """Its streams end then (launch/README.md, "What survives which failure"). Where both stores are away, but owners on
    other machines answer, they do not: all clients would come back at once, and nobody could serve them."""
    clock, told = ManualClock(), list[float]()
    world = World()
    parts = LiveParts(owners=world.owners, redis=world.redis)
    others = [True]
    cut_off = lambda: told.append(clock.monotonic()), lambda: others[0]
    pages = LivePages(CONFIG, clock, world.current, parts, OfferedParts(), *cut_off)
    world.owners.state = world.redis.up = False
    for _ in range(30):
        await pages.look()
        clock.advance(1.0)
    assert told == []
    others[0], began = False, clock.monotonic()
    for _ in range(30):
        await pages.look()
        clock.advance(1.0)
    assert [at - began for at in told] == [CUT_OFF_SECONDS]
