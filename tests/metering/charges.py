"""Buys one of everything through the real doors, and compares the page of prices, the quotes and the rows of the ledger
in PostgreSQL with the catalog of this process (changed_prices.py)."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import grpc
import orjson

from actors.accounts.ledger import EntryType
from actors.accounts.store import PostgresAccountStore
from actors.accounts.stream_times import KEPT_SECONDS
from actors.clock import ManualClock, SystemClock
from actors.config import Config
from actors.documents.event_operations import SIGNALS
from actors.gateway.calls import outcomes
from actors.gateway.doors.grpc import GrpcDoor, add_services, open_grpc
from actors.geyser_proto import api, geyser_pb2
from actors.metering.meters import Meters
from actors.metering.standing_watch import StandingWatch
from actors.methods import prices
from actors.methods.catalog import METHODS
from actors.pages import PageAnswer, PageRequest
from actors.signals.event_stream import SignalEventStream
from actors.signals.history import DAY_MS, PostgresSignalHistory
from actors.signals.history_page import SignalHistoryPage
from actors.signals.history_process import HistoryProcess
from actors.signals.history_rows import PostgresHistoryRows
from actors.signals.log import NO_CURSOR
from actors.signals.subscriptions import SignalSubscriptions
from actors.status.endpoints import pricing_document
from actors.status.products import Doors
from actors.upstream import replies
from actors.upstream.replies import NodeAnswer
from tests.accounts.conftest import empty_database
from tests.databases import emptied
from tests.gateway.doors.test_quote import CALLS, KEY, Part, offered
from tests.gateway.doubles import RESULT, ScriptedNode
from tests.gateway.world import Pages, Wallet, World, a_world, call
from tests.signals.memory_store import MemorySignalLog
from tests.signals.test_history import NO_SIGNALS, NOW, entry
from tests.signals.test_hub import World as SignalWorld
from tests.streams.geyser_world import Client, everything, geyser_world
from tests.streams.world import ask, hear, open_sockets
from tests.webhooks.outside import receiver
from tests.webhooks.world import a_webhook_world

GRPC, WEBSOCKET, SIGNAL = (prices.STREAMS[name] for name in ("grpc", "websocket", "signals"))
PLENTY = 100_000
RELAYED: dict[str, list[Any]] = {
    "sendBundle": next(one["params"] for one in CALLS if one["method"] == "sendBundle"),
    "sendTransaction": next(one["params"] for one in CALLS if one["method"] == "sendTransaction"),
    "getBundleStatuses": [["a"]],
    "getInflightBundleStatuses": [["a"]],
    "getTipAccounts": [],
}


class Prices(Pages):
    def pricing(self, price_list: str = "") -> dict[str, Any]:
        return pricing_document(Config().payments, Config().pricing, outcomes.PUBLISHED, Doors())


class Books:
    """The ledger as it stands in PostgreSQL."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self.pool, self.store = pool, PostgresAccountStore(pool)
        self.world = {"account_store": self.store, "clock": ManualClock(SystemClock().now_ms())}
        self._read = 0

    async def new(self, wallet: Wallet) -> list[tuple[str, int]]:
        """Methods and credits of the debits that came since this was last asked."""
        rows = await self.pool.fetch(
            "SELECT method, amount FROM ledger WHERE pubkey = $1 AND type = $2 ORDER BY seq OFFSET $3",
            *(wallet.pubkey, EntryType.DEBIT, self._read),
        )
        self._read += len(rows)
        return [(row["method"], abs(row["amount"])) for row in rows]


@contextlib.asynccontextmanager
async def books(postgres_url: str, owner_url: str) -> AsyncIterator[Books]:
    async with empty_database(postgres_url, owner_url) as pool:
        found = Books(pool)
        await found.store.prepare(SystemClock().now_ms())
        yield found


def answered(method: str, params: bytes) -> NodeAnswer:
    if not method.startswith("bulk/"):
        return RESULT
    items = orjson.loads(params)["items"]
    return replies.made_of_pieces(b'{"results":[],"errors":[]}', len(items), len(items), "node-1")


async def calls(urls: tuple[str, str]) -> None:
    """The page of prices; a quote, a call and its row for each method; bulk look-ups and the relay."""
    async with (
        books(*urls) as ledger,
        a_world(ScriptedNode(answered), **ledger.world, status=Prices(), **offered(Part())) as world,
    ):
        wallet = await world.customer(PLENTY)
        page = (await world.http.get("/pricing")).json()
        for one in CALLS:
            row = METHODS[one["method"]]
            assert page["methods"][row.name]["credits"] == row.credits
            if not row.callable or not row.credits:
                continue  # Refused, free, or priced by its outcome.
            quoted = (await world.rpc(wallet, one, "/quote")).json()
            (reason,) = (call.get("reason", "") for call in quoted["calls"])
            assert quoted["credits"] == row.credits and quoted["exact"] is not ("cache" in reason), quoted
            await world.rpc(wallet, one)
            assert await ledger.new(wallet) == [(row.name, row.credits)]
        await bulk(world, wallet, page, ledger)
        await relay(world, wallet, page, ledger)
    streams = {name: {**stream, "available": False} for name, stream in prices.STREAMS.items()}
    assert page["streams"] == streams
    assert page["classes"] == {name.value: row.credits for name, row in prices.CLASSES.items()}
    delivered = {name: row["credits"] for name, row in page["webhooks"].items() if name != "lifecycle"}
    assert (
        set(delivered.values()) == {prices.WEBHOOK_DELIVERY_CREDITS} and page["webhooks"]["lifecycle"]["credits"] == 0
    )
    (stream,) = [row for row in SIGNALS if row.endpoint == "GET /signals/stream"]
    connect, event = SIGNAL["connect_credits"], SIGNAL["event_credits"]
    assert stream.price == f"{connect} credits to connect, {event} for each event"


async def bulk(world: World, wallet: Wallet, page: Any, ledger: Books) -> None:
    for row in prices.BULK:
        assert page["bulk"][row.name.removeprefix("bulk/")]["credits"] == row.credits_per_item
        items = ["5" * 87] if row.item == "signature" else [KEY]
        assert (await world.rpc(wallet, {row.items: items}, f"/{row.name}")).status_code == 200
        assert await ledger.new(wallet) == [(row.name, row.credits_per_item)]


async def relay(world: World, wallet: Wallet, page: Any, ledger: Books) -> None:
    world.node.answer = lambda method, params: replies.made(b"[]")
    for row in prices.RELAY:
        assert page["relay"][row.method]["credits"] == row.credits
        if row.method in RELAYED:
            path = "/relay/transactions" if row.method == "sendTransaction" else "/relay/bundles"
            await world.rpc(wallet, call(row.method, *RELAYED[row.method]), path)
        else:
            await world.http.get(f"/relay/{row.method}", headers={"x-api-key": wallet.api_key})
        assert await ledger.new(wallet) == [(row.name, row.credits)]


async def websockets(urls: tuple[str, str]) -> None:
    """Of notifications and of signals: the connection, and the events, in whole credits."""
    signals = SignalWorld()
    hub = await signals.hub()
    async with (
        books(*urls) as ledger,
        open_sockets(kinds=[SignalSubscriptions(hub)], **ledger.world) as sockets,
    ):
        wallet, per_credit = await sockets.world.customer(PLENTY), WEBSOCKET["notifications_per_credit"]
        async with sockets.connect(wallet) as socket:
            await ask(socket, "rootSubscribe")
            await ask(socket, "subscribeSignal")
            assert await ledger.new(wallet) == [
                ("rootSubscribe", WEBSOCKET["connect_credits"]),
                ("subscribeSignal", SIGNAL["connect_credits"]),
            ]
            for number in range(2 * per_credit):
                await sockets.node.notify("rootSubscribe", number)
                await hear(socket)
            await signals.write(3)
            await signals.publish(hub)
            for _ in range(3):
                await hear(socket)
        while len(sockets.sockets):  # noqa: ASYNC110  # The door tells nobody of a socket's end.
            await asyncio.sleep(0.001)
        await sockets.meters.stop()
        charged = sorted(credits for _, credits in await ledger.new(wallet))
        assert charged == sorted((2, 3 * SIGNAL["event_credits"])), charged


async def server_sent_signals(urls: tuple[str, str]) -> None:
    signals = SignalWorld()
    await signals.write(4)
    hub = await signals.hub()
    async with books(*urls) as ledger, a_world(**ledger.world) as world:
        wallet, meters = await world.customer(PLENTY), Meters(world.accounts, world.clock, b"replica1")
        page = SignalEventStream(hub, meters, StandingWatch(world.accounts, spending=meters))
        opened = await page.answer(PageRequest(wallet.pubkey, query={"since": NO_CURSOR}))
        assert isinstance(opened, PageAnswer) and not isinstance(opened.body, bytes)
        for _ in range(1 + 4):
            await anext(opened.body)
        await opened.body.aclose()
        await meters.stop()
        charged = [credits for _, credits in await ledger.new(wallet)]
        assert (charged[0], sum(charged[1:])) == (SIGNAL["connect_credits"], 4 * SIGNAL["event_credits"])


async def history_of_signals(urls: tuple[str, str]) -> None:
    """Each started number of signals, over slices: two and a half of them, and an answer of none."""
    each, events = SIGNAL["history_credits"], SIGNAL["history_events"]
    async with (
        emptied(*urls, *NO_SIGNALS) as pool,
        books(*urls) as ledger,
        a_world(**ledger.world) as world,
    ):
        await PostgresSignalHistory(pool).add([entry(number) for number in range(2 * events + 1)])
        wallet, meters = await world.customer(PLENTY), Meters(world.accounts, world.clock, b"replica1")
        watch, clock = StandingWatch(world.accounts, spending=meters), ManualClock(NOW + 2 * DAY_MS)
        rows = PostgresHistoryRows(pool)
        page = SignalHistoryPage(rows, MemorySignalLog(), meters, watch, clock, HistoryProcess())
        for kinds, units in (("newPair", 3), ("graduation", 1)):
            opened = await page.answer(PageRequest(wallet.pubkey, query={"kinds": kinds}))
            assert isinstance(opened, PageAnswer) and not isinstance(opened.body, bytes)
            async for _ in opened.body:
                pass
            await opened.body.aclose()
            assert sum(credits for _, credits in await ledger.new(wallet)) == units * each
        await meters.stop()
        await page.close()


async def yellowstone(urls: tuple[str, str], folder: Path) -> None:
    """A call, the beginning of a stream, a replay that replaces its filters, and an interval, with a key as x-token."""
    async with (
        books(*urls) as ledger,
        a_world(**ledger.world) as world,
        geyser_world(folder, account=world.accounts, keeps_window=True) as geyser,
    ):
        wallet, server = await world.customer(PLENTY), grpc.aio.server()
        token = (("x-token", wallet.api_key),)
        add_services(None, server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        open_grpc(GrpcDoor(geyser.service, world.door.authenticator, ""))
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            await channel.unary_unary(api.GET_SLOT.path)(b"", metadata=token)
            assert await ledger.new(wallet) == [("grpc/GetSlot", GRPC["request_credits"])]
            assert geyser.source is not None
            await geyser.until(lambda: geyser.source.window.first_slot is not None)  # type: ignore[union-attr]
            client = Client(channel, metadata=token)
            await client.ask(everything())
            await client.until_pong(1)
            assert await ledger.new(wallet) == [("grpc/Subscribe", GRPC["request_credits"])]
            first = geyser.source.window.first_slot
            await client.ask(geyser_pb2.SubscribeRequest(from_slot=first, slots=everything().slots))
            await client.until_pong(2)
            charged = await ledger.new(wallet)
            while len(charged) < 2:
                await asyncio.sleep(0.01)
                charged += await ledger.new(wallet)
            assert dict(charged) == {
                "grpc/Subscribe": GRPC["replay_request_credits"],
                "grpc/minute": GRPC["interval_credits"],
            }
            client.call.cancel()
        open_grpc(None)
        await server.stop(None)
    assert GRPC["unpaid_seconds_kept"] == KEPT_SECONDS


async def deliveries(urls: tuple[str, str]) -> None:
    async with (
        books(*urls) as ledger,
        a_webhook_world(*urls, **ledger.world) as world,
        receiver() as target,
    ):
        customer = await world.gateway.customer(PLENTY)
        await world.register(customer, target.url)
        await world.queue(customer.text, 2)
        await world.deliver()
        assert await ledger.new(customer) == [("webhookDelivery", prices.WEBHOOK_DELIVERY_CREDITS)] * 2


async def _all(urls: tuple[str, str], folder: Path) -> None:
    await calls(urls)
    await websockets(urls)
    await server_sent_signals(urls)
    await history_of_signals(urls)
    await yellowstone(urls, folder)
    await deliveries(urls)


def buy_one_of_everything(postgres_url: str, owner_url: str, folder: str) -> None:
    asyncio.run(_all((postgres_url, owner_url), Path(folder)))
