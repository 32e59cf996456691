"""gRPC through a real edge and a real front: calls, streams, and what one client must not do to the others."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from typing import Any

import grpc
import httpx
import pytest

from actors.grpc_http2.server import GrpcServer
from actors.launch.front import installation as front
from actors.launch.front.config import GRPC_REQUEST_BYTES_MAX, RATE_SECONDS
from bench.systems import free_port
from tests.launch.front.test_tls_edge import edged

from .fronts import Replica


class GrpcReplica:
    """The gRPC server of a replica, which Serve finds well. Messages of one stream come back; another has 64 MB."""

    def __init__(self, check_seconds: float = 0.0) -> None:
        self.pings = self.checks = self.poured = 0
        self._check_seconds = check_seconds
        self.server = GrpcServer(4 << 20)
        healthz = grpc.unary_unary_rpc_method_handler(self._healthz)
        self.server.add_generic_rpc_handlers(
            (
                grpc.method_handlers_generic_handler("ray.serve.RayServeAPIService", {"Healthz": healthz}),
                grpc.method_handlers_generic_handler(
                    "geyser.Geyser",
                    {
                        "Subscribe": grpc.stream_stream_rpc_method_handler(self._echo),
                        "SubscribeDeshred": grpc.stream_stream_rpc_method_handler(self._pour),
                        "Ping": grpc.unary_unary_rpc_method_handler(self._ping),
                    },
                ),
            )
        )
        self.port = self.server.add_insecure_port("127.0.0.1:0")

    async def _healthz(self, _request: bytes, _context: object) -> bytes:
        await asyncio.sleep(self._check_seconds)
        self.checks += 1
        return b"\x0a\x07success"

    async def _ping(self, request: bytes, _context: object) -> bytes:
        self.pings += 1
        return request

    async def _echo(self, requests: AsyncIterator[bytes], context: Any) -> None:
        await context.send_initial_metadata((("x-began", "yes"),))
        async for request in requests:
            await context.write(request)

    async def _pour(self, _requests: AsyncIterator[bytes], context: Any) -> None:
        await context.send_initial_metadata((("x-began", "yes"),))
        for _ in range(1_000):
            await context.write(b"x" * 64_000)
            self.poured += 1


async def test_grpc_over_tls_streams_both_ways_on_the_same_port() -> None:
    """A stream that stays open is not held back until its request ends, and outlives the time limit of a request."""
    replica = GrpcReplica()
    await replica.server.start()
    async with edged(Replica(), grpc_replica_port=replica.port, request_seconds_max=1) as found:
        assert found.edge.ca_file is not None
        trusted = grpc.ssl_channel_credentials(found.edge.ca_file.read_bytes())
        async with grpc.aio.secure_channel(f"127.0.0.1:{found.port}", trusted) as channel:
            ping = channel.unary_unary("/geyser.Geyser/Ping")
            assert await ping(b"one", wait_for_ready=True, timeout=20) == b"one"
            stream = channel.stream_stream("/geyser.Geyser/Subscribe")()
            async with asyncio.timeout(20):
                await stream.write(b"first")
                assert dict(await stream.initial_metadata())["x-began"] == "yes"
                assert await stream.read() == b"first"
                loop = asyncio.get_running_loop()
                late = loop.time() + 2 * found.config.serve.request_seconds_max
                while loop.time() < late:
                    await stream.write(b"more")
                    assert await stream.read() == b"more"
                await stream.done_writing()
                assert await stream.read() is grpc.aio.EOF
                assert await stream.code() is grpc.StatusCode.OK
    await replica.server.stop(None)


@pytest.mark.threat(30)
async def test_a_client_that_never_reads_holds_up_its_own_stream_alone() -> None:
    """Threat 30: what the replica says to it stays in the replica; others have their answers meanwhile, also
    those whose calls go to the replica over the same HAProxy."""
    replica = GrpcReplica()
    await replica.server.start()
    async with edged(Replica(), grpc_replica_port=replica.port) as found, contextlib.AsyncExitStack() as stack:
        assert found.edge.ca_file is not None
        trusted = grpc.ssl_channel_credentials(found.edge.ca_file.read_bytes())
        options = [("grpc.use_local_subchannel_pool", 1)]
        channels = [
            await stack.enter_async_context(grpc.aio.secure_channel(f"127.0.0.1:{found.port}", trusted, options))
            for _ in range(6)
        ]
        ping: Any = channels[0].unary_unary("/geyser.Geyser/Ping")
        assert await ping(b"one", wait_for_ready=True, timeout=20) == b"one"
        silent: list[Any] = [channel.stream_stream("/geyser.Geyser/SubscribeDeshred")() for channel in channels[:2]]
        async with asyncio.timeout(20):
            for call in silent:
                assert dict(await call.initial_metadata())["x-began"] == "yes"
            before = -1
            while before != replica.poured or not before:  # Until all is on the way that fits there.
                before = replica.poured
                await asyncio.sleep(0.3)
        async with asyncio.timeout(20):
            for channel in channels[2:]:
                ping = channel.unary_unary("/geyser.Geyser/Ping")
                for _ in range(20):
                    assert await ping(b"two") == b"two"
        assert replica.poured < 1_000, "all of it was read"
    await replica.server.stop(None)


@pytest.mark.threat(48)
async def test_a_call_that_is_no_stream_reaches_a_replica_whole_and_small() -> None:
    """Threats 30 and 48: a replica would read 4 MiB of it for anybody, and wait for the rest for ever."""
    replica = GrpcReplica()
    await replica.server.start()
    async with edged(Replica(), grpc_replica_port=replica.port, request_seconds_max=1) as found:
        assert found.edge.ca_file is not None
        trusted = grpc.ssl_channel_credentials(found.edge.ca_file.read_bytes())
        async with grpc.aio.secure_channel(f"127.0.0.1:{found.port}", trusted) as channel, asyncio.timeout(20):
            ping: Any = channel.unary_unary("/geyser.Geyser/Ping")
            small, large = bytes(GRPC_REQUEST_BYTES_MAX - 5), bytes(GRPC_REQUEST_BYTES_MAX - 4)  # 5 of the frame.
            assert await ping(small, wait_for_ready=True) == small
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await ping(large)
            assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            with pytest.raises(grpc.aio.AioRpcError):
                await ping(bytes(1 << 20))
            unfinished: Any = channel.stream_unary("/geyser.Geyser/Ping")()
            await unfinished.write(b"")
            assert await unfinished.code() is not grpc.StatusCode.OK
            assert replica.pings == 1
    await replica.server.stop(None)


@pytest.mark.threat(35)
async def test_one_address_makes_so_many_grpc_calls_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threat 35: what is too much never reaches a replica, and says so as gRPC does; other addresses go on."""
    replica = GrpcReplica()
    await replica.server.start()
    limit, calls = 10, 10 * RATE_SECONDS + 20
    monkeypatch.setattr(front, "GRPC_CALLS_PER_SECOND", limit)
    async with edged(Replica(), grpc_replica_port=replica.port) as found:
        assert found.edge.ca_file is not None
        trusted = grpc.ssl_channel_credentials(found.edge.ca_file.read_bytes())
        async with grpc.aio.secure_channel(f"127.0.0.1:{found.port}", trusted) as channel:
            ping = channel.unary_unary("/geyser.Geyser/Ping")
            assert await ping(b"one", wait_for_ready=True, timeout=20) == b"one"
            replica.pings = 0
            transport = httpx.AsyncHTTPTransport(verify=found.trusting(), http2=True, local_address="127.0.0.9")
            headers = {"content-type": "application/grpc", "te": "trailers"}
            async with httpx.AsyncClient(transport=transport, base_url=found.edge.url) as flood:
                for _ in range(calls):
                    answer = await flood.post("/geyser.Geyser/Ping", content=b"\0\0\0\0\0", headers=headers)
            assert (answer.status_code, answer.headers["grpc-status"]) == (200, "8")
            assert answer.headers["content-type"] == "application/grpc"
            assert "try again" in answer.headers["grpc-message"]
            assert limit * RATE_SECONDS <= replica.pings < calls
            assert await ping(b"two", timeout=20) == b"two"
    await replica.server.stop(None)


@pytest.mark.threat(35)
async def test_a_replica_that_is_busy_with_calls_is_not_taken_for_dead() -> None:
    """Threat 35: a flood from one address must not become a 503 for the others. The check of a busy replica is
    answered late, after more than the pause between two checks."""
    replica = GrpcReplica(check_seconds=0.3)  # The pause is 0.1 s in these tests.
    await replica.server.start()
    async with edged(Replica(), grpc_replica_port=replica.port) as found:
        assert found.edge.ca_file is not None
        trusted = grpc.ssl_channel_credentials(found.edge.ca_file.read_bytes())
        async with grpc.aio.secure_channel(f"127.0.0.1:{found.port}", trusted) as channel, asyncio.timeout(20):
            ping: Any = channel.unary_unary("/geyser.Geyser/Ping")
            while replica.checks < 3:  # The front gives a replica up after two.
                assert await ping(b"one", wait_for_ready=True) == b"one"
                await asyncio.sleep(0.05)
    await replica.server.stop(None)


async def test_answers_of_haproxy_itself_are_statuses_of_grpc() -> None:
    """No replica, a call that does not arrive, no front: UNAVAILABLE and what to do, never an error of the protocol."""
    async with edged(Replica(), grpc_replica_port=free_port(), request_seconds_max=1) as found:
        assert found.edge.ca_file is not None
        trusted = grpc.ssl_channel_credentials(found.edge.ca_file.read_bytes())
        configuration = (found.front.folder / "node" / "haproxy.cfg").read_text(encoding="utf-8")
        plain = re.search(r"bind (127\.0\.0\.1:\d+) proto h2", configuration)
        assert plain is not None
        tls = f"127.0.0.1:{found.port}"
        async with grpc.aio.insecure_channel(plain[1]) as front_itself, grpc.aio.secure_channel(tls, trusted) as edge:
            for channel in (front_itself, edge):
                texts = await _unavailable(channel)
                assert all("starting" in text for text in texts), texts
                unfinished: Any = channel.stream_unary("/geyser.Geyser/Ping")(timeout=20)
                await unfinished.write(b"")
                assert await unfinished.code() is grpc.StatusCode.UNAVAILABLE
                assert "too long to arrive; send it again" in await unfinished.details()
            with grpc.insecure_channel(plain[1]) as channel:
                assert "try again" in await asyncio.to_thread(_unavailable_at_once, channel)
            found.front.process.kill()
            # The edge may end a call without a text that it had begun to pass on over its connection of before.
            assert any("try again" in text for text in await _unavailable(edge))
            with grpc.secure_channel(tls, trusted) as channel:
                assert "try again" in await asyncio.to_thread(_unavailable_at_once, channel)


async def _unavailable(channel: grpc.aio.Channel) -> set[str]:
    """The texts of ten calls in a row and of a stream, all UNAVAILABLE."""
    texts: set[str] = set()
    for _ in range(10):
        ping: Any = channel.unary_unary("/geyser.Geyser/Ping")(b"", timeout=20)
        assert await ping.code() is grpc.StatusCode.UNAVAILABLE, await ping.details()
        texts.add(await ping.details())
    stream: Any = channel.stream_stream("/geyser.Geyser/Subscribe")(timeout=20)
    assert await stream.code() is grpc.StatusCode.UNAVAILABLE
    return texts | {await stream.details()}


def _unavailable_at_once(channel: grpc.Channel) -> str:
    """The same from the client that blocks."""
    with pytest.raises(grpc.RpcError) as refused:
        channel.unary_unary("/geyser.Geyser/Ping")(b"", timeout=20)
    call: Any = refused.value
    assert call.code() is grpc.StatusCode.UNAVAILABLE
    return str(call.details())
