"""A node with a Yellowstone endpoint, and the service over it, in the test process: both over real connections."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import grpc

from actors.clock import SystemClock
from actors.errors import Refusal
from actors.geyser_proto import api, geyser_pb2
from actors.grpc_http2.server import GrpcServer
from actors.metering.meters import Meters
from actors.metering.standing_watch import StandingWatch
from actors.methods.prices import STREAMS
from actors.stream_config import GeyserConfig
from actors.streams.api import WINDOW, BlockPart, WindowPart
from actors.streams.hub import window_source
from actors.streams.hub.window_source import WindowSource
from actors.streams.yellowstone.feeds import GeyserFeeds
from actors.streams.yellowstone.replays import GeyserReplays
from actors.streams.yellowstone.service import GeyserService
from devnode.geyser.calls import Calls
from devnode.geyser.hub import GrpcHub
from devnode.geyser.service import Service
from devnode.geyser.settings import NO_LIMITS
from tests.devnode.local_node import LocalNode
from tests.gateway.doubles import PROOF, REPLICA, OneAccount

Update = geyser_pb2.SubscribeUpdate
Request = geyser_pb2.SubscribeRequest
WAIT_SECONDS = 30.0


class Client:
    """A client of the stream. It reads all the time; `next` gives what it got, without pings."""

    def __init__(self, channel: grpc.aio.Channel, reads: bool = True, metadata: Any = ()) -> None:
        stub: Any = channel.stream_stream(
            api.SUBSCRIBE.path,
            request_serializer=Request.SerializeToString,
            response_deserializer=Update.FromString,
        )
        self.call = stub(metadata=metadata)
        self.pings = 0
        self._got: asyncio.Queue[Any] = asyncio.Queue()
        self.arrived = 0
        self._reading = asyncio.create_task(self._read()) if reads else None

    async def _read(self) -> None:
        try:
            while (update := await self.call.read()) is not grpc.aio.EOF:
                if update.WhichOneof("update_oneof") == "ping":
                    self.pings += 1
                else:
                    self.arrived += 1
                    self._got.put_nowait(update)
        except grpc.aio.AioRpcError:
            pass
        self._got.put_nowait((await self.call.code(), await self.call.details()))

    async def ask(self, request: Request | None = None, **fields: Any) -> None:
        await self.call.write(Request(**fields) if request is None else request)

    async def next(self) -> Any:
        """The next update that is no ping; the code and the text when the stream has ended."""
        return await asyncio.wait_for(self._got.get(), WAIT_SECONDS)

    async def end(self) -> tuple[grpc.StatusCode, str]:
        """Code and text of the end; drops the updates before it."""
        while not isinstance(found := await self.next(), tuple):
            pass
        return found

    async def until_pong(self, number: int) -> list[Any]:
        """Everything up to the answer to a ping of ours."""
        await self.ask(ping={"id": number})
        found = []
        while (update := await self.next()).WhichOneof("update_oneof") != "pong":
            found.append(update)
        assert update.pong.id == number
        return found


@dataclass
class GeyserWorld:
    local: LocalNode
    account: Any
    settings: GeyserConfig = field(default_factory=GeyserConfig)
    minute_seconds: float = STREAMS["grpc"]["interval_seconds"]
    keeps_window: bool = False
    source: WindowSource | None = None
    node_port: int = 0
    bad: list[tuple[int, int]] = field(default_factory=list)  # Bytes and filters of bad requests.
    _open: list[Any] = field(default_factory=list)

    async def start_node(self) -> None:
        """Start the node's endpoint, at the same port as before."""
        self.hub = GrpcHub(self.local.node)
        self._running = asyncio.create_task(self.hub.run())
        self.node_server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        service = Service(self.hub, Calls(self.local.node, self.hub), self.local.node.clock, NO_LIMITS)
        self.node_server.add_generic_rpc_handlers((service.handler(),))
        self.node_port = self.node_server.add_insecure_port(f"127.0.0.1:{self.node_port}")
        await self.node_server.start()

    async def stop_node(self) -> None:
        """Stop listening and cut every connection. The hub goes on, as a node does behind a broken network."""
        await self.node_server.stop(None)

    async def listen_again(self) -> None:
        self.node_server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        service = Service(self.hub, Calls(self.local.node, self.hub), self.local.node.clock, NO_LIMITS)
        self.node_server.add_generic_rpc_handlers((service.handler(),))
        assert self.node_server.add_insecure_port(f"127.0.0.1:{self.node_port}") == self.node_port
        await self.node_server.start()

    async def start(self) -> None:
        await self.start_node()
        clock = SystemClock()
        self.feeds = GeyserFeeds(f"http://127.0.0.1:{self.node_port}", None, self.settings, clock)
        self.meters = Meters(self.account, clock, REPLICA)
        self.credentials = StandingWatch(
            self.account,
            balance_min=0,
            prolongs_sessions=True,
        )
        replays = None
        if self.keeps_window:
            self.source = WindowSource(
                GeyserFeeds(f"http://127.0.0.1:{self.node_port}", None, self.settings, clock), self.settings, 1
            )
            self.source.start()
            replays = GeyserReplays(self._ask_source)
        self.service = GeyserService(
            self.feeds, self.meters, self.credentials, self.settings, clock, self.minute_seconds, replays
        )
        self.server = GrpcServer(4 << 20)
        self.server.add_generic_rpc_handlers((self._handler(),))
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        await self.server.start()

    def _ask_source(self, kind: Any, item: Any, wait_ms: int) -> "asyncio.Future[Any]":
        """Ask the hub, which is in this process."""
        del wait_ms

        async def answer() -> Any:
            assert self.source is not None
            found = self.source.ask_window(item) if kind is WINDOW else self.source.ask_block(item)
            return found if isinstance(found, WindowPart | BlockPart) else await found

        return asyncio.ensure_future(answer())

    def _count_bad(self, proof: Any, figures: Any, body_bytes: int, filters: int) -> None:
        assert (proof, figures is not None) == (PROOF, True)
        self.bad.append((body_bytes, filters))

    def _handler(self) -> Any:
        def explain(refusal: Refusal) -> tuple[int, str]:
            return 16 if refusal.err.name == "AUTH_FAILED" else 8, refusal.message

        async def subscribe(requests: Any, context: Any) -> None:
            await self.service.subscribe(api.SUBSCRIBE, requests, context, PROOF, explain, self._count_bad)

        def answering(rpc: api.Rpc) -> Any:
            async def answer(request: bytes, context: Any) -> bytes:
                return await self.service.answer(rpc, request, context, PROOF, explain)

            return grpc.unary_unary_rpc_method_handler(answer)

        handlers = {rpc.name: answering(rpc) for rpc in api.RPCS if not rpc.is_stream}
        handlers["Subscribe"] = grpc.stream_stream_rpc_method_handler(subscribe)
        return grpc.method_handlers_generic_handler(api.SERVICE, handlers)

    def channel(self, port: int | None = None, window_bytes: int | None = None) -> grpc.aio.Channel:
        """window_bytes: so much may be on its way to a stream that is not read; None: gRPC lets it grow."""
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)]
        if window_bytes is not None:
            options += [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", window_bytes)]
        channel = grpc.aio.insecure_channel(f"127.0.0.1:{port or self.port}", options=options)
        self._open.append(channel)
        return channel

    def client(self) -> Client:
        return Client(self.channel())

    def direct(self) -> Client:
        """A client of the node itself."""
        return Client(self.channel(self.node_port))

    async def call(self, rpc: api.Rpc, request: Any, port: int | None = None) -> Any:
        stub: Any = self.channel(port).unary_unary(
            rpc.path, request_serializer=rpc.request.SerializeToString, response_deserializer=rpc.response.FromString
        )
        return await stub(request, timeout=WAIT_SECONDS)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Let the chain go on, slot by slot, until the condition holds."""
        async with asyncio.timeout(WAIT_SECONDS):
            while not condition():
                self.local.beat()
                await asyncio.sleep(0.01)

    async def close(self) -> None:
        for channel in self._open:
            await channel.close()
        await self.service.close()
        if self.source is not None:
            await self.source.stop()
        await self.meters.stop()
        await self.server.stop(None)
        await self.node_server.stop(None)
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)


@asynccontextmanager
async def geyser_world(
    folder: Path, credits: int = 10_000, account: Any = None, **settings: Any
) -> AsyncIterator[GeyserWorld]:
    minute_seconds, keeps_window = (
        settings.pop("minute_seconds", STREAMS["grpc"]["interval_seconds"]),
        settings.pop("keeps_window", False),
    )
    config = GeyserConfig().model_copy(update=settings)  # Not checked: tests wait for less than an operator may set.
    local = LocalNode(folder)
    world = GeyserWorld(local, account or OneAccount(credits), config, minute_seconds, keeps_window)
    # A chain that has just begun has no window yet. The hub asks for it again half a second later, and then a second.
    with mock.patch.object(window_source, "_AGAIN_SECONDS", 0.02):
        try:
            await world.start()
            yield world
        finally:
            await world.close()
            local.close()


def everything(level: Any = geyser_pb2.PROCESSED) -> Request:
    """One filter of each kind, and two of some."""
    request = Request(commitment=level)
    request.accounts["all accounts"].SetInParent()
    request.accounts["paid"].nonempty_txn_signature = True
    request.slots["levels"].SetInParent()
    request.slots["inter"].interslot_updates = True
    request.transactions["tx"].failed = False
    request.transactions_status["status"].SetInParent()
    request.blocks["whole"].include_accounts = True
    request.blocks["thin"].include_transactions = False
    request.blocks_meta["meta"].SetInParent()
    request.entry["entry"].SetInParent()
    return request


async def settled(world: GeyserWorld, *clients: Client) -> None:
    """Wait until the subscriptions of these clients send."""
    await world.until(lambda: all(client.arrived for client in clients))


def shown(updates: list[Any]) -> list[bytes]:
    """Without the time at which a node made them."""
    for update in updates:
        update.ClearField("created_at")
    return [update.SerializeToString(deterministic=True) for update in updates]


def contents(updates: list[Any]) -> list[tuple[Any, ...]]:
    """Each update by what it is about."""
    return [
        (
            one.WhichOneof("update_oneof"),
            one.transaction.slot or one.account.slot or one.slot.slot or one.block_meta.slot,
            bytes(one.transaction.transaction.signature or one.account.account.txn_signature),
            bytes(one.account.account.pubkey),
            one.slot.status,
        )
        for one in updates
    ]


def traffic() -> Request:
    request = Request()
    request.accounts["paid"].nonempty_txn_signature = True
    request.slots["levels"].SetInParent()
    request.transactions["tx"].failed = False
    request.blocks_meta["meta"].SetInParent()
    return request


async def until_slot(client: Client, slot: int, status: Any) -> list[Any]:
    found = []
    while True:
        update = await client.next()
        assert not isinstance(update, tuple), update
        found.append(update)
        if update.slot.slot == slot and update.slot.status == status and "levels" in update.filters:
            return found


def numbered(number: int) -> Request:
    request = Request()
    request.transactions[f"tx {number}"].vote = False
    return request


def world_has_switched(world: GeyserWorld, name: str) -> bool:
    """Whether the one open stream reads its newest request alone."""
    feeds = list(world.feeds._feeds)
    return len(feeds) == 1 and name in feeds[0]._wanted.names.values() and all(r.is_sending for r in feeds[0]._readers)
