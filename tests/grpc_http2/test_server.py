"""The server as grpcio's own client meets it."""

import asyncio
import contextlib
import gc
import time
import weakref
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from actors.grpc_http2 import server_call
from actors.grpc_http2.server import GrpcServer
from tests.grpc_http2.raw_peer import RawPeer
from tests.grpc_http2.servers import MESSAGE_BYTES_MAX, SERVICE, Methods, framed, serving, until

PATHS = {name: f"/{SERVICE}/{name}" for name in ("Echo", "Pour", "Upper", "Fail", "Refuse", "Sleep", "None")}


class Open:
    def __init__(self, methods: Methods, server: GrpcServer, channel: grpc.aio.Channel, port: int) -> None:
        self.methods, self.server, self.channel, self.port = methods, server, channel, port

    def stream(self, name: str, **how: Any) -> Any:
        return self.channel.stream_stream(PATHS[name])(**how)

    async def unary(self, name: str, request: bytes, **how: Any) -> Any:
        call: Any = self.channel.unary_unary(PATHS[name])(request, **{"timeout": 20} | how)
        return await call


@pytest.fixture
async def opened() -> AsyncIterator[Open]:
    methods = Methods()
    async with (
        serving(methods) as (server, port),
        grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.use_local_subchannel_pool", 1)]) as it,
    ):
        yield Open(methods, server, it, port)


async def _end(call: Any) -> tuple[grpc.StatusCode, str]:
    with contextlib.suppress(grpc.aio.AioRpcError):
        assert await call.read() is grpc.aio.EOF
    return await call.code(), await call.details()


async def test_messages_of_all_lengths_go_both_ways(opened: Open) -> None:
    call = opened.stream("Echo")
    assert dict(await call.initial_metadata())["x-said"] == "hello"  # Before any message.
    for length in (0, 1, 16_384, MESSAGE_BYTES_MAX):
        await call.write(bytes(length))
        assert await call.read() == bytes(length)
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF and await _end(call) == (grpc.StatusCode.OK, "")


async def test_one_request_has_one_answer_and_trailers(opened: Open) -> None:
    stub: Any = opened.channel.unary_unary(PATHS["Upper"])
    call = stub(b"small", timeout=20)
    assert await call == b"SMALL"
    assert dict(await call.trailing_metadata())["x-left"] == "True"


@pytest.mark.parametrize("how", [grpc.Compression.Gzip, grpc.Compression.Deflate, grpc.Compression.NoCompression])
async def test_requests_may_be_compressed(opened: Open, how: grpc.Compression) -> None:
    assert await opened.unary("Upper", b"again " * 1_000, compression=how) == b"AGAIN " * 1_000


@pytest.mark.threat(35)
async def test_one_request_is_decompressed_at_a_time(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threat 35: with a thread for each, the loop's own thread waits for the processor. Small ones need no thread."""
    running, most, inflate = 0, 0, server_call._inflate

    def counted(*arguments: Any) -> bytes:
        nonlocal running, most
        running += 1
        most = max(most, running)
        time.sleep(0.01)  # Decompression takes long enough that two at once would be seen.
        running -= 1
        return inflate(*arguments)

    monkeypatch.setattr(server_call, "_inflate", counted)
    small = [opened.unary("Upper", b"small", compression=grpc.Compression.Gzip) for _ in range(5)]
    assert await asyncio.gather(*small) == [b"SMALL"] * 5 and most == 0
    large = [opened.unary("Upper", bytes(90_000), compression=grpc.Compression.Gzip) for _ in range(8)]
    assert await asyncio.gather(*large) == [bytes(90_000)] * 8 and most == 1


async def test_a_compressed_request_that_becomes_too_large_is_refused(opened: Open) -> None:
    """Threat 35: a few hundred bytes may become megabytes; no more than the limit is ever made of them."""
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await opened.unary("Upper", bytes(MESSAGE_BYTES_MAX * 50), compression=grpc.Compression.Gzip)
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_a_request_above_the_limit_is_refused_and_ends_its_handler(opened: Open) -> None:
    call = opened.stream("Echo")
    await call.write(bytes(MESSAGE_BYTES_MAX + 1))
    code, text = await _end(call)
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED and str(MESSAGE_BYTES_MAX) in text
    await until(lambda: not opened.methods.running)
    assert await opened.unary("Upper", b"on") == b"ON"  # The connection goes on.


async def test_a_status_follows_what_was_written_and_keeps_its_text(opened: Open) -> None:
    call = opened.stream("Refuse")
    assert await call.read() == b"first"
    assert await _end(call) == (grpc.StatusCode.OUT_OF_RANGE, "bis 5 — 50 % übrig\nx: y")
    assert dict(await call.trailing_metadata())["x-resume"] == "5"


async def test_a_fault_of_a_handler_is_logged_and_tells_the_client_nothing(
    opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    call = opened.stream("Fail")
    assert await _end(call) == (grpc.StatusCode.UNKNOWN, "the service failed; try again")
    assert "a secret of the service" in caplog.text


async def test_unknown_methods_are_unimplemented(opened: Open) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await opened.unary("None", b"")
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_a_deadline_and_a_client_that_leaves_end_the_handler(opened: Open) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as late:
        await opened.unary("Sleep", b"", timeout=0.2)
    assert late.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    await until(lambda: opened.methods.cancelled == 1)
    call = opened.stream("Echo")
    await call.initial_metadata()
    call.cancel()
    await until(lambda: opened.methods.cancelled == 2 and not opened.methods.running)


async def test_a_client_that_does_not_read_stops_its_writer_alone(opened: Open) -> None:
    """When full: the writer waits; other calls of the same connection go on."""
    opened.methods.count, opened.methods.size = 1_000, 10_000
    call = opened.stream("Pour")
    await until(lambda: opened.methods.poured > 10)
    before = -1
    while opened.methods.poured != before:
        before = opened.methods.poured
        await asyncio.sleep(0.1)
    assert before < 1_000
    assert await opened.unary("Upper", b"on") == b"ON"
    read = 0
    while await call.read() is not grpc.aio.EOF:
        read += 1
    assert read == 1_000 and await call.code() is grpc.StatusCode.OK


async def test_a_stopping_server_lets_calls_end_and_takes_no_more(opened: Open) -> None:
    call = opened.stream("Echo")
    await call.initial_metadata()
    stopping = asyncio.create_task(opened.server.stop(20))
    await asyncio.sleep(0.1)
    await call.write(b"still")
    assert await call.read() == b"still"
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await opened.unary("Upper", b"", timeout=5)
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
    await call.done_writing()
    assert await _end(call) == (grpc.StatusCode.OK, "")
    await asyncio.wait_for(stopping, 10)
    await asyncio.wait_for(opened.server.wait_for_termination(), 1)


async def test_a_server_that_stops_at_once_ends_calls(opened: Open) -> None:
    call = opened.stream("Echo")
    await call.initial_metadata()
    await opened.server.stop(None)
    assert await _end(call) == (grpc.StatusCode.UNAVAILABLE, "the server stops")
    assert not opened.methods.running


async def test_a_port_in_use_is_told_as_serve_expects_it() -> None:
    """Serve looks for another port where the cause is that this one is in use."""
    async with serving(Methods()) as (_, port):
        with pytest.raises(RuntimeError) as refused:
            GrpcServer(1).add_insecure_port(f"127.0.0.1:{port}")
        assert isinstance(refused.value.__cause__, OSError)


@pytest.mark.threat(35)
async def test_calls_and_connections_leave_no_work_for_the_garbage_collector() -> None:
    """Threat 35: it runs rarely, and holds the loop for the longer the more it finds; h2's own state is large."""
    methods, left = Methods(), list[weakref.ref[Any]]()
    async with serving(methods) as (server, port):
        begin = server._begin

        def begun(call: Any) -> None:
            left.append(weakref.ref(call))
            begin(call)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(server, "_begin", begun)
            peer = await RawPeer.connect(port)
            gc.collect()
            gc.disable()
            try:
                peer.call(1, PATHS["Echo"], ends=True)
                peer.call(3, PATHS["Sleep"], ("grpc-timeout", "20m"))
                peer.http.send_data(3, framed(b""), end_stream=True)
                peer.call(5, PATHS["Refuse"], ends=True)
                for stream in (1, 3, 5):
                    await peer.status(stream)
                for stream in (7, 9):
                    peer.call(stream, PATHS["Echo"])
                await until(lambda: methods.running == 2)
                peer.http.reset_stream(7)
                peer.flush()
                left += [weakref.ref(one) for one in server._connections]
                left += [weakref.ref(one._http) for one in server._connections]
                await until(lambda: methods.running == 1)
                peer.close()
                await until(lambda: len(left) == 7 and not any(one() for one in left))
            finally:
                gc.enable()
