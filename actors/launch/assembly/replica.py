"""Assembles one gateway replica: the HTTP application over accounts, nodes, the identity store and the public pages.

Implements: design, "Layout" (contexts on one level do not import each other; they are joined here and in
serve_app.py). Wiring; every rule is in the contexts.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from redis.asyncio import Redis

from actors import hosting
from actors.accounts.client import ShardedAccounts
from actors.accounts.owner_link import reaches_others
from actors.accounts.placing import place_owners
from actors.call_log.endpoints import CallLogPages
from actors.call_log.store import RedisCallLogStore
from actors.call_log.writer import CallLogWriter
from actors.calls import REPLICA_ID_BYTES, new_replica_id
from actors.clock import Clock, SystemClock
from actors.config import Config, GatewayConfig, TelemetryConfig, TradesConfig
from actors.console.endpoints import ConsolePage, OperatorPage
from actors.fees.endpoints import FeeMethods
from actors.fees.recent_blocks import RecentBlocks
from actors.free_memory import FreeMemory, tune_gc
from actors.gateway.calls import outcomes
from actors.gateway.doors import http as door_http
from actors.gateway.doors.http import HttpDoor
from actors.gateway.doors.parts import Dependencies
from actors.gateway.pages.bills import BillPages
from actors.gateway.pages.hourly_limit import HourlyLimitPages
from actors.gateway.pages.keys import KeyPages
from actors.gateway.pages.receipts import ReceiptPages
from actors.idempotency.store import IdempotencyStore, PostgresIdempotencyStore, forget_for_ever
from actors.identity.store import RedisIdentityStore
from actors.launch.assembly.deposit_watcher import watch_deposits
from actors.launch.assembly.documents import discovery, with_documents
from actors.launch.assembly.memos import watch_memos
from actors.launch.assembly.nodes import Following, follow_changes
from actors.launch.assembly.operating import assemble_operators
from actors.launch.assembly.payments import assemble_payments
from actors.launch.assembly.placing import place_beside_owners
from actors.launch.assembly.reseating import RayCluster, Reseating
from actors.launch.assembly.sending import assemble_sends
from actors.launch.assembly.signalling import assemble_signals
from actors.launch.assembly.streaming import assemble_streams, offers_streams
from actors.launch.assembly.webhooks import assemble_webhooks
from actors.launch.assembly.yellowstone import Yellowstone, assemble_yellowstone
from actors.launch.front import installation as front
from actors.leaving import Leaving
from actors.lookups.bulk import BulkLookups
from actors.lookups.endpoints import LookupMethods
from actors.lookups.fan_out import Asker
from actors.metering.meters import Meters
from actors.metering.standing_watch import StandingWatch
from actors.methods.price_lists import price_lists
from actors.operators.price_lists import PriceListWatch
from actors.pages import Page
from actors.sends.endpoints import SendMethods
from actors.sends.once import RedisSendMarks
from actors.sends.relay import RelayMethods
from actors.status.live import CurrentHealth, LivePages, LiveParts, OfferedParts
from actors.status.products import Doors
from actors.storage.connections import checked_postgres, checked_redis
from actors.streams.websocket.sockets import StreamSockets
from actors.telemetry import logs
from actors.telemetry.metrics import Metrics
from actors.telemetry.metrics_page import place_metrics_page, report_for_ever
from actors.telemetry.traces import open_tracing
from actors.trades.endpoints import TradeMethods
from actors.trades.price_feed import SolPriceFeed
from actors.upstream.api import MakeClient, Nodes
from actors.upstream.client import NodeClient
from actors.upstream.node_operator import NodeOperator
from actors.upstream.replies import Node, OwnMethods

if TYPE_CHECKING:
    from actors.telemetry.tracing import Tracing

logger = logging.getLogger(__name__)

NO_SOCKETS = "no node of the settings has a WebSocket URL: an added one opens no WebSockets for clients"
_POSTGRES_CONNECTIONS = 4  # Only for Idempotency-Keys: other requests do not use the database from here.

Close = Callable[[], Awaitable[None]]


async def assemble(config: Config) -> tuple[Any, Close]:
    """Assemble the ASGI application of a replica, and the function that closes all its parts. Needs a connected Ray."""
    assert config.storage.redis_url is not None and config.upstream.node_url is not None
    tracing = _open_telemetry(config.telemetry)
    clock, replica_id = SystemClock(), new_replica_id(os.urandom(REPLICA_ID_BYTES))
    await place_beside_owners(config)
    accounts, metrics, leaving = await _open_accounts(config, replica_id, tracing), Metrics(), Leaving(clock)
    redis_client = await checked_redis(config.storage.redis_url.get_secret_value())
    _, webhook_pages, close_webhooks = await assemble_webhooks(config)
    meters, standing = _open_meters(config, accounts, clock, replica_id, metrics)
    signals = await assemble_signals(config, redis_client, clock, meters, standing)
    log, log_pages = _open_log(config.gateway, redis_client, clock, metrics)
    served = with_documents(config, [*webhook_pages, *signals.pages, *_own_pages(accounts), *log_pages])
    current = CurrentHealth(config.upstream)
    nodes = Nodes(config.upstream, clock, current.probed, NodeClient if tracing is None else _traced_nodes(tracing))
    following, _ = await asyncio.gather(_follow_nodes(config, nodes, current), accounts.connected())
    deposits, memos = await asyncio.gather(watch_deposits(config), watch_memos(config))
    sends, methods, close_sends = await assemble_sends(config, nodes, RedisSendMarks(redis_client))
    payments = await assemble_payments(config, nodes, accounts, clock, nodes.single_nodes)
    streaming = await assemble_streams(config, meters, standing, replica_id, metrics, [signals.kind])
    yellowstone = assemble_yellowstone(config, accounts, streaming, meters, clock, metrics)
    sol_price = _open_sol_price(nodes, config.trades, clock)
    sponsor = payments.recovery if payments else None
    live = LiveParts(accounts, redis_client, signals.classifiers, sends, yellowstone, sponsor, sol_price, streaming.hub)
    pages = LivePages(config, clock, current, live, _offered(config, served), *_cut_off(leaving, accounts))
    await pages.start(metrics)
    keys, close_keys = await _open_keys(config, clock)
    parts = Dependencies(
        config,
        accounts,
        with_own_methods(nodes, config, methods, RelayMethods(sends)),
        RedisIdentityStore(redis_client),
        pages,
        clock,
        replica_id=replica_id,
        ids_from_serve=True,
        payment_settler=payments.settler if payments else None,
        deposits=deposits,
        peers_are_clients=_peers_are_clients(),
        metrics=metrics,
        callers=methods.caller_handlers(),
        pages=[*served, *_for_operators(config, accounts, following.operator, clock)],
        idempotency=keys,
        relay=bool(config.sends.engines),
        leaving=leaving,
        recent=log.recent if log else None,
        streams=streaming.sockets,
        told=meters.told,
        quotes=TradeMethods(nodes, sol_price, config.pricing, config.payments.credits_per_usdc).handlers(),
    )
    door = HttpDoor(parts) if tracing is None else _traced_door(parts, tracing)
    _open_streams(door, leaving, streaming.sockets, yellowstone)
    accounts.on_start_over = _each_of(door.start_over, meters.start_over)
    reporting = asyncio.create_task(_report(config, metrics, accounts, leaving))
    tune_gc()
    optional = [*(one.close for one in (yellowstone, payments) if one), *(one.stop for one in (deposits, memos) if one)]
    first = (leaving.stop, door.close, *optional, close_webhooks, standing.stop, *signals.closers, *streaming.closers)
    # The meters end after everything that they measure.
    last = (meters.stop, *([log.stop] if log else []), close_keys, close_sends, sol_price.stop, following.close)
    return door, _closing(reporting, (*first, *last, nodes.close, pages.stop, accounts.stop, redis_client.aclose))


async def _follow_nodes(config: Config, nodes: Nodes, current: CurrentHealth) -> Following:
    """Have the nodes and the health of this replica follow an operator's changes."""
    nodes.follow(current.nodes_changed)
    limits = () if offers_streams(config) else (NO_SOCKETS,)
    return await follow_changes(config, nodes, f"gateway-{os.getpid()}@{hosting.this_address()}", limits)


def _open_sol_price(nodes: Nodes, config: TradesConfig, clock: Clock) -> SolPriceFeed:
    price = SolPriceFeed(nodes, config, clock)
    price.start()
    return price


def _open_log(
    config: GatewayConfig, client: Redis, clock: Clock, metrics: Metrics
) -> tuple[CallLogWriter | None, list[Page]]:
    """Return what keeps the log of calls, if one is kept, and its page."""
    if not config.logged_calls_max:
        return None, []
    store = RedisCallLogStore(client, config.logged_calls_of_account_max, config.logged_calls_max)
    log = CallLogWriter(store, clock, metrics)
    log.start()
    return log, CallLogPages(store, clock).pages()


def _own_pages(accounts: ShardedAccounts) -> list[Page]:
    own = (ConsolePage(), ReceiptPages(accounts), BillPages(accounts), KeyPages(accounts), HourlyLimitPages(accounts))
    return [page for pages in own for page in pages.pages()]


def _for_operators(config: Config, accounts: ShardedAccounts, nodes: NodeOperator, clock: Clock) -> list[Page]:
    """Return the pages that no document for customers names."""
    pages = assemble_operators(config, accounts, nodes, clock)
    return [*OperatorPage().pages(), *pages] if pages else []


def _open_streams(door: HttpDoor, leaving: Leaving, sockets: StreamSockets | None, grpc: Yellowstone | None) -> None:
    """Open the gRPC door, and have all streams end in turn when the replica leaves."""
    leaving.add(*(one for one in (sockets, grpc) if one is not None))
    if grpc is not None:
        grpc.open(door)


def _cut_off(leaving: Leaving, accounts: ShardedAccounts) -> tuple[Callable[[], None], Callable[[], bool]]:
    here = hosting.this_address()
    return leaving.end_present, lambda: reaches_others(accounts.links, here)


async def _report(config: Config, metrics: Metrics, accounts: ShardedAccounts, leaving: Leaving) -> None:
    """Give free memory back meanwhile, look for price lists that accounts have and the settings lack, and for actors
    that are on the wrong machine."""
    memory, lists = FreeMemory(), PriceListWatch(accounts, config.pricing, metrics)
    reseating = Reseating(RayCluster(config), SystemClock(), lambda: leaving.is_leaving)
    for one in (memory, lists, reseating):
        one.start()
    # Includes the address: another machine may have the same process id.
    try:
        await report_for_ever(config, f"gateway-{os.getpid()}@{hosting.this_address()}", metrics, serves_calls=True)
    finally:
        await asyncio.gather(memory.stop(), lists.stop(), reseating.stop())


def _offered(config: Config, served: Sequence[Page]) -> OfferedParts:
    relay, sockets = bool(config.sends.engines), offers_streams(config)
    doors = Doors(websocket=sockets, relay=relay, grpc=config.upstream.yellowstone_url is not None, signals=sockets)
    return OfferedParts(doors, (*door_http.endpoints(relay), *(page.endpoint for page in served)), outcomes.PUBLISHED)


def _each_of(*told: Callable[[bytes], None]) -> Callable[[bytes], None]:
    def tell(replica_id: bytes) -> None:
        for one in told:
            one(replica_id)

    return tell


def _peers_are_clients() -> bool:
    known = front.peers_are_clients(os.environ)
    if not known:
        logger.warning("client addresses are not known, so no limit applies per address (see actors/launch/FRONT.md)")
    return known


def _open_telemetry(config: TelemetryConfig) -> "Tracing | None":
    name = f"gateway-{os.getpid()}"
    logs.set_up(config, name, config.log_dir)
    return open_tracing(config, name)


def _traced_nodes(tracing: "Tracing") -> MakeClient:
    from actors.upstream.traced_node import TracedNode

    return lambda config, url, name, budget: TracedNode(config, url, name, budget, tracing)


def _traced_door(parts: Dependencies, tracing: "Tracing") -> HttpDoor:
    from actors.gateway.doors.traced_http import TracedHttpDoor

    return TracedHttpDoor(parts, tracing)


def _accounts(config: Config, replica_id: bytes, tracing: "Tracing | None") -> ShardedAccounts:
    if tracing is None:
        return ShardedAccounts(config, replica_id)
    from actors.accounts.traced_client import TracedAccounts

    return TracedAccounts(config, replica_id, tracing)


async def _open_accounts(config: Config, replica_id: bytes, tracing: "Tracing | None") -> ShardedAccounts:
    """Find or place the owners of accounts, and the page of metrics, and begin to connect."""
    # In a thread: the call blocks while a new process starts, and the replica's event loop must not.
    await asyncio.gather(place_owners(config), asyncio.to_thread(place_metrics_page, config))
    accounts = _accounts(config, replica_id, tracing)
    accounts.start()
    return accounts


def _open_meters(
    config: Config, accounts: ShardedAccounts, clock: Clock, replica_id: bytes, metrics: Metrics
) -> tuple[Meters, StandingWatch]:
    """Return what all streams of this replica pay with, and what ends those whose accounts may not go on."""
    meters = Meters(accounts, clock, replica_id, metrics, price_lists(config.pricing))
    standing = StandingWatch(accounts, spending=meters)
    meters.start()
    standing.start()
    return meters, standing


async def _open_keys(config: Config, clock: Clock) -> tuple[IdempotencyStore, Close]:
    """Open the store of Idempotency-Keys, and keep it free of expired ones until it is closed."""
    assert config.storage.postgres_url is not None
    url = config.storage.postgres_url.get_secret_value()
    pool = await checked_postgres(url, connections_max=_POSTGRES_CONNECTIONS, application="gateway")
    store = PostgresIdempotencyStore(pool)
    forgetting = asyncio.create_task(forget_for_ever(store, clock))

    async def close() -> None:
        forgetting.cancel()
        await asyncio.gather(forgetting, return_exceptions=True)
        await pool.close()

    return store, close


def _closing(reporting: asyncio.Task[None], closers: Sequence[Close]) -> Close:
    """Return what stops the reports of metrics and then closes the parts in this order."""

    async def close() -> None:
        reporting.cancel()
        for close_part in closers:
            await close_part()

    return close


def with_own_methods(
    node: Node, config: Config, sends: SendMethods | None = None, relay: RelayMethods | None = None
) -> Node:
    """Return the node together with the methods and bulk look-ups that are composed of several of its answers."""
    asker = Asker(node, config.lookups.node_calls_max)
    seconds = config.lookups.fee_block_seconds
    fees = FeeMethods(node, RecentBlocks(node, SystemClock(), seconds) if seconds else None)
    handlers = fees.handlers() | LookupMethods(asker).handlers() | BulkLookups(asker).handlers()
    sending = {} if sends is None else sends.handlers()
    relayed = {} if relay is None else relay.handlers()
    return OwnMethods(node, handlers | sending | relayed | discovery(config))
