"""Sockets of real clients on the real door, over the real hub, links and owner of accounts; the nodes are fake."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any
from unittest import mock

import orjson
import uvicorn
from uvicorn.server import ServerState
from websockets.asyncio.client import ClientConnection, connect

from actors.gateway.doors.http import HttpDoor
from actors.gateway.doors.parts import Dependencies
from actors.hotlink.replica import Link
from actors.http_server import websocket
from actors.http_server.exchange import Doorway
from actors.http_server.server import HttpServer
from actors.metering.api import SubscriptionKind
from actors.metering.meters import Meters
from actors.metering.standing_watch import StandingWatch
from actors.methods.price_lists import price_lists
from actors.stream_config import StreamsConfig
from actors.streams.api import LINK_KINDS
from actors.streams.hub.actor import StreamHub, StreamUrl
from actors.streams.hub.feed import TopicFeed
from actors.streams.hub.host import serve_links
from actors.streams.websocket.kinds import native_kinds
from actors.streams.websocket.sockets import StreamSockets
from actors.upstream import replies
from actors.upstream.replies import NodeAnswer
from tests.gateway.world import Pages, Wallet, World, a_world
from tests.streams.fake_node import FakeNode

SECRET = b"s" * 32
ACCOUNT = "So11111111111111111111111111111111111111112"
ONE, TWO = b"replica1", b"replica2"


class Answers:
    """A node's HTTP side, of which only what a fill asks is told. results: by method; an error where there is none."""

    def __init__(self) -> None:
        self.results: dict[str, Any] = {}
        self.asked: list[tuple[str, Any]] = []

    async def call(self, method: str, params: bytes, timeout_ms: int) -> NodeAnswer:
        self.asked.append((method, orjson.loads(params)))
        if method not in self.results:
            return replies.UNREACHABLE
        return replies.judge(orjson.dumps({"jsonrpc": "2.0", "result": self.results[method], "id": 1}))


class Hub:
    """A hub behind a port, which can be replaced by another one, as a restart does."""

    def __init__(self, nodes: Sequence[FakeNode], config: StreamsConfig | None = None) -> None:
        self.nodes, self.config = nodes, config or StreamsConfig()
        self.answers = Answers()
        self._sessions = 0

    async def start(self) -> None:
        urls = [StreamUrl(f"node-{number}", node.url) for number, node in enumerate(self.nodes, 1)]
        self._sessions += 1_000
        self.hub = StreamHub(self.config, urls, self.answers, self._sessions)
        self._server = serve_links(self.hub, SECRET)
        self.address = ("127.0.0.1", await self._server.start("127.0.0.1"))

    async def stop(self) -> None:
        await self._server.stop()
        await self.hub.stop()

    async def resolve(self) -> tuple[str, int]:
        return self.address


@contextlib.asynccontextmanager
async def a_feed(hub: Hub, replica: bytes = ONE) -> AsyncIterator[TopicFeed]:
    link = Link(SECRET, LINK_KINDS, hub.resolve, replica)
    link.start()
    feed = TopicFeed(link, replica)
    feed.start()
    yield feed
    await feed.stop()
    await link.stop()


class Sockets:
    """world: the accounts. meters: stand still until told. hub.nodes: the fake nodes."""

    def __init__(
        self, world: World, hub: Hub, sockets: StreamSockets, meters: Meters, watch: StandingWatch, port: int
    ) -> None:
        self.world, self.hub, self.sockets, self.meters, self.watch, self.port = (
            world,
            hub,
            sockets,
            meters,
            watch,
            port,
        )

    @property
    def node(self) -> FakeNode:
        return self.hub.nodes[0]

    def connect(self, wallet: Wallet | None = None, path: str = "/ws", **options: Any) -> Any:
        headers = options.pop("additional_headers", {} if wallet is None else {"x-api-key": wallet.api_key})
        url = f"ws://127.0.0.1:{self.port}{path}"
        return connect(url, additional_headers=headers, compression=None, ping_interval=None, **options)


@contextlib.asynccontextmanager
async def open_sockets(
    nodes: int = 1, streams: StreamsConfig | None = None, kinds: Sequence[SubscriptionKind] = (), **settings: Any
) -> AsyncIterator[Sockets]:
    fakes = [FakeNode() for _ in range(nodes)]
    for fake in fakes:
        await fake.start()
    hub = Hub(fakes, streams)
    await hub.start()
    async with a_world(**settings) as world, a_feed(hub) as feed:
        meters = Meters(world.accounts, world.clock, b"meteredg", lists=price_lists(world.config.pricing))
        meters.start()
        config = streams or StreamsConfig()
        watch = StandingWatch(world.accounts, spending=meters)
        sockets = StreamSockets(config, meters, watch, [*native_kinds(feed), *kinds])
        door = HttpDoor(
            Dependencies(
                *(world.config, world.accounts, world.node, world.identity_store, Pages(), world.clock), streams=sockets
            )
        )
        # A socket that the door closes is read for 2 s more, and its client waits for that.
        with mock.patch.object(websocket, "LINGER_SECONDS", min(0.3, websocket.LINGER_SECONDS)):
            async with served(door) as port:
                yield Sockets(world, hub, sockets, meters, watch, port)
        await door.close()
        await meters.stop()
    await hub.stop()
    for fake in fakes:
        await fake.stop()


@contextlib.asynccontextmanager
async def served(door: HttpDoor) -> AsyncIterator[int]:
    protocol: Any = partial(HttpServer, Doorway(door, door.websocket_paths))
    config = uvicorn.Config(door, log_config=None, lifespan="off", http=protocol, access_log=False)
    config.load()
    state = ServerState()
    server = await asyncio.get_running_loop().create_server(lambda: protocol(config, state, {}), "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()
    for connection in list(state.connections):
        connection.shutdown()


async def ask(socket: ClientConnection, method: str, *params: Any, id: Any = 1) -> dict[str, Any]:
    await socket.send(orjson.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": list(params)}).decode())
    while "id" not in (said := await hear(socket)):
        pass  # A notification.
    answer: dict[str, Any] = said
    return answer


async def hear(socket: ClientConnection) -> Any:
    async with asyncio.timeout(10):
        return orjson.loads(await socket.recv())


def account_value(lamports: int, slot: int) -> dict[str, Any]:
    value = {"lamports": lamports, "data": "", "owner": ACCOUNT, "executable": False, "rentEpoch": 0, "space": 0}
    return {"context": {"slot": slot}, "value": value}
