"""The service over a real connection."""

import asyncio
from collections.abc import AsyncIterator, Callable

import grpc
import pytest
from solders.keypair import Keypair

from actors.geyser_proto import api, geyser_pb2
from devnode.geyser import service as service_module
from devnode.geyser.calls import Calls
from devnode.geyser.refusals import LAGGED_SENDING
from devnode.geyser.service import Service
from devnode.geyser.settings import NO_LIMITS, AccountLimits, FilterLimits

from .listening import Request, Streaming
from .wire import Stream, call

Serve = Callable[..., "asyncio.Future[grpc.aio.Channel]"]


@pytest.fixture
async def serve(streaming: Streaming) -> AsyncIterator[Serve]:
    """Starts a service with settings and returns a channel to it; the hub runs in the background."""
    servers, channels = [], []
    running = asyncio.create_task(streaming.hub.run())

    async def start(limits: FilterLimits = NO_LIMITS, token: str | None = None, **bounds: int) -> grpc.aio.Channel:
        node = streaming.local.node
        server = grpc.aio.server()
        service = Service(streaming.hub, Calls(node, streaming.hub), node.clock, limits, token, **bounds)
        server.add_generic_rpc_handlers((service.handler(),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        servers.append(server)
        channels.append(grpc.aio.insecure_channel(f"127.0.0.1:{port}"))
        return channels[-1]

    yield start  # type: ignore[misc]
    for channel in channels:
        await channel.close()
    for server in servers:
        await server.stop(None)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def transfers_to(*names: str) -> Request:
    request = Request()
    for name in names:
        request.transactions[name].vote = False
    return request


async def test_a_stream_begins_with_headers_and_a_ping(serve: Serve) -> None:
    """Headers and ping come before any request, because some clients wait for the headers before they write."""
    stream = Stream(await serve())
    await asyncio.wait_for(stream.call.initial_metadata(), 10)
    first = await stream.next()
    assert first.WhichOneof("update_oneof") == "ping"
    assert first.HasField("created_at") and list(first.filters) == []


async def test_an_update_has_filter_names_contents_and_time(serve: Serve, streaming: Streaming) -> None:
    """A transaction that lands is sent over the connection with all three."""
    local = streaming.local
    payer = local.wallet()
    stream = Stream(await serve())
    await stream.ask(transfers_to("mine"))
    await ponged(stream, 1)
    record = local.land(local.transfer(payer, Keypair().pubkey(), 10**7))
    update = await stream.next_but_ping()
    assert list(update.filters) == ["mine"]
    assert update.transaction.transaction.index == record.position
    assert update.created_at.ToMilliseconds() == local.clock.now_ms()


async def ponged(stream: Stream, number: int) -> None:
    """Wait until the service has read all requests sent before."""
    await stream.ask(Request(ping={"id": number}))
    update = await stream.next_but_ping()
    assert update.pong.id == number, update


async def test_a_ping_is_answered_and_changes_nothing(serve: Serve, streaming: Streaming) -> None:
    """Filters in the same request as a ping are ignored."""
    payer = streaming.local.wallet()
    stream = Stream(await serve())
    await stream.ask(transfers_to("kept"))
    both = transfers_to("ignored")
    both.ping.id = 7
    await stream.ask(both)
    pong = await stream.next_but_ping()
    assert pong.WhichOneof("update_oneof") == "pong" and pong.pong.id == 7 and pong.HasField("created_at")
    streaming.local.land(streaming.local.transfer(payer, Keypair().pubkey(), 10**7))
    assert list((await stream.next_but_ping()).filters) == ["kept"]


async def test_the_server_pings_by_itself(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pings keep the connection open through proxies; the client need not answer."""
    monkeypatch.setattr(service_module, "PING_SECONDS", 0.001)
    stream = Stream(await serve())
    for _ in range(3):
        assert (await stream.next()).HasField("ping")


async def test_a_replay_is_sent_over_the_connection(serve: Serve, streaming: Streaming) -> None:
    """The replay starts at the slot of SubscribeReplayInfo."""
    local = streaming.local
    local.beat(5)
    channel = await serve()
    info = await call(channel, api.SUBSCRIBE_REPLAY_INFO, geyser_pb2.SubscribeReplayInfoRequest())
    request = Request(from_slot=info.first_available)
    request.blocks_meta["it"].SetInParent()
    stream = Stream(channel)
    await stream.ask(request)
    slots = [(await stream.next_but_ping()).block_meta.slot for _ in range(5)]
    assert slots == list(range(info.first_available, info.first_available + 5))
    local.beat()
    assert (await stream.next_but_ping()).block_meta.slot == slots[-1] + 1


async def test_after_a_half_close_the_stream_goes_on(serve: Serve, streaming: Streaming) -> None:
    """A client that closes its side of the stream still gets updates."""
    request = Request()
    request.blocks_meta["it"].SetInParent()
    stream = Stream(await serve())
    await stream.ask(request)
    await ponged(stream, 1)
    await stream.call.done_writing()
    streaming.local.beat()
    assert (await stream.next_but_ping()).HasField("block_meta")


async def test_a_bad_filter_ends_the_stream(serve: Serve) -> None:
    """The stream ends with INVALID_ARGUMENT and the reason."""
    stream = Stream(await serve(FilterLimits(accounts=AccountLimits(max=1))))
    request = Request()
    for name in ("one", "two"):
        request.accounts[name].SetInParent()
    await stream.ask(request)
    assert await stream.end() == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "failed to create filter: Max amount of filters/data_slices reached, only 1 allowed",
    )


@pytest.mark.parametrize(
    ("raw", "code"),
    [(b"\xff\xff\xff", grpc.StatusCode.INTERNAL), (bytes(5 << 20), grpc.StatusCode.RESOURCE_EXHAUSTED)],
    ids=["garbage", "too large"],
)
async def test_an_invalid_request_ends_the_stream(
    serve: Serve, caplog: pytest.LogCaptureFixture, raw: bytes, code: grpc.StatusCode
) -> None:
    """The error is the client's, so the node does not log it."""
    stream = (await serve()).stream_stream(api.SUBSCRIBE.path)()
    await stream.write(raw)

    async def drain() -> None:
        while await stream.read() is not grpc.aio.EOF:
            pass

    with pytest.raises(grpc.aio.AioRpcError) as error:
        await asyncio.wait_for(drain(), 10)
    assert error.value.code() is code
    assert "broke" not in caplog.text


async def test_a_client_that_left_is_forgotten(serve: Serve, streaming: Streaming) -> None:
    """The hub removes a subscriber when its call is cancelled."""
    stream = Stream(await serve())
    await ponged(stream, 1)
    assert len(streaming.hub._subscribers) == 1
    stream.call.cancel()
    for _ in range(1_000):
        await asyncio.sleep(0.001)
        if not streaming.hub._subscribers:
            break
    assert not streaming.hub._subscribers


async def test_a_client_that_does_not_read_is_ended(serve: Serve, streaming: Streaming) -> None:
    """The client gets the queued updates and then the reason; the chain does not wait for it."""
    request = Request()
    request.accounts["it"].SetInParent()
    stream = Stream(await serve(queue_updates_max=5))
    await stream.ask(request)
    await ponged(stream, 1)
    streaming.local.beat(20)  # In one turn of the loop: nothing can be sent meanwhile.
    assert await stream.end() == (LAGGED_SENDING.code, LAGGED_SENDING.text)


async def test_streams_and_calls_need_the_token(serve: Serve) -> None:
    """Without the right token both are refused; with it both are answered."""
    channel = await serve(token="secret")
    refused = (grpc.StatusCode.UNAUTHENTICATED, "No valid auth token")
    assert await Stream(channel).end() == refused
    assert await Stream(channel, (("x-token", "wrong"),)).end() == refused
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await call(channel, api.GET_SLOT, geyser_pb2.GetSlotRequest())
    assert (error.value.code(), error.value.details()) == refused
    right = (("x-token", "secret"),)
    assert (await Stream(channel, right).next()).HasField("ping")
    assert (await call(channel, api.GET_SLOT, geyser_pb2.GetSlotRequest(), right)).slot > 0


async def test_deshred_is_refused_with_a_reason(serve: Serve) -> None:
    """There are no shreds, so the call ends with an error instead of a silent stream."""
    channel = await serve()
    rpc = api.SUBSCRIBE_DESHRED
    stream = channel.stream_stream(
        rpc.path,
        request_serializer=geyser_pb2.SubscribeDeshredRequest.SerializeToString,
        response_deserializer=geyser_pb2.SubscribeUpdateDeshred.FromString,
    )()
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await stream.read()
    assert error.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert "shreds" in str(error.value.details())


@pytest.mark.parametrize("rpc", [rpc for rpc in api.RPCS if not rpc.is_stream], ids=lambda rpc: rpc.name)
async def test_every_call_is_answered(serve: Serve, streaming: Streaming, rpc: api.Rpc) -> None:
    """Each call answers with its own response type over the connection."""
    streaming.local.beat()
    assert isinstance(await call(await serve(), rpc, rpc.request()), rpc.response)


async def test_a_refused_call_has_a_status(serve: Serve) -> None:
    """An unknown commitment has Yellowstone's status."""
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await call(await serve(), api.GET_SLOT, geyser_pb2.GetSlotRequest.FromString(b"\x08\x09"))
    assert error.value.code() is grpc.StatusCode.UNKNOWN


async def test_gzip_requests_are_accepted(serve: Serve) -> None:
    """Clients may compress their requests."""
    channel = await serve()
    rpc = api.GET_SLOT
    ask = channel.unary_unary(
        rpc.path, request_serializer=rpc.request.SerializeToString, response_deserializer=rpc.response.FromString
    )
    assert (await ask(geyser_pb2.GetSlotRequest(), compression=grpc.Compression.Gzip, timeout=10)).slot > 0
