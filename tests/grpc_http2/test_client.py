"""The client over real sockets: grpcio's own server, ours, and peers that break off or say nothing."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from actors.grpc_http2 import client as client_module
from actors.grpc_http2 import server_connection
from actors.grpc_http2.client import GrpcClient
from actors.grpc_http2.client_call import CallFailed, ClientCall
from tests.grpc_http2.servers import SERVICE, Methods, serving, until

WINDOW_BYTES = 1 << 20
LONG = 3 * WINDOW_BYTES
WAIT_SECONDS = 60.0
PATH = "/test.Echo/Talk"
ECHO = f"/{SERVICE}/Echo"


@contextlib.asynccontextmanager
async def client_of(port: int, **metadata: str) -> AsyncIterator[GrpcClient]:
    client = GrpcClient(f"http://127.0.0.1:{port}", metadata, LONG + 9, WINDOW_BYTES)
    yield client
    await client.close()


@contextlib.asynccontextmanager
async def grpcio(talk: Any, *options: tuple[str, int]) -> AsyncIterator[int]:
    unlimited = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
    server = grpc.aio.server(options=[*unlimited, *options])
    _, service, method = PATH.split("/")
    handler = grpc.stream_stream_rpc_method_handler(talk)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield port
    finally:
        await server.stop(0)


async def _echoed(call: ClientCall, *messages: bytes) -> list[bytes]:
    found = list[bytes]()
    async with asyncio.timeout(WAIT_SECONDS):
        for message in messages:
            call.write(message)
        while len(found) < len(messages):
            found += await call.read()
    return found


async def test_long_messages_go_both_ways_with_a_server_of_grpcio() -> None:
    """Longer than the windows of both sides."""

    async def talk(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        assert dict(context.invocation_metadata())["x_token"] == "secret"
        async for request in requests:
            yield request

    async with grpcio(talk) as port, client_of(port, x_token="secret") as client:
        sent = [bytes([number % 251]) * length for number, length in enumerate((0, 1, LONG, 70_000))]
        call = await client.open(PATH)
        assert await _echoed(call, *sent) == sent
        call.close()


async def test_calls_share_a_connection_and_one_that_is_not_read_stops_itself_alone() -> None:
    """When full: what the peer may send of a call is bounded, and the others go on."""
    methods = Methods()
    methods.count, methods.size = 1_000, 10_000
    async with serving(methods) as (server, port), client_of(port) as client:
        stuck = await client.open(f"/{SERVICE}/Pour")
        calls = [await client.open(ECHO) for _ in range(20)]
        before = -1
        while methods.poured != before:
            before = methods.poured
            await asyncio.sleep(0.1)
        assert 0 < methods.poured < 1_000
        for number, call in enumerate(calls):
            assert await _echoed(call, bytes([number])) == [bytes([number])]
        assert len(client._connections) == 1 == len(server._connections)
        count = 0
        with pytest.raises(CallFailed) as ended:
            while True:
                count += len(await stuck.read())
        assert count == 1_000 and ended.value.code is grpc.StatusCode.OK
        for call in calls:
            call.close()
        await until(lambda: not methods.running)


async def test_a_server_that_takes_few_calls_on_a_connection_gets_more_connections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few = server_connection._SETTINGS | {server_connection._CODE.MAX_CONCURRENT_STREAMS: 2}
    monkeypatch.setattr(server_connection, "_SETTINGS", few)
    async with serving(Methods()) as (_, port), client_of(port) as client:
        calls = [await client.open(ECHO) for _ in range(5)]
        assert len(client._connections) == 3
        for call in calls:
            assert await _echoed(call, b"on") == [b"on"]
        calls[0].close()
        await client.open(ECHO)
        assert len(client._connections) == 3


async def test_a_server_that_leaves_ends_what_it_did_not_take() -> None:
    """RFC 9113, 6.8. The next call makes a new connection."""
    methods = Methods()
    async with serving(methods) as (server, port), client_of(port) as client:
        call = await client.open(ECHO)
        assert await _echoed(call, b"one") == [b"one"]
        (connection,) = server._connections
        connection.leave()
        assert await _echoed(call, b"still") == [b"still"]
        other = await client.open(ECHO)
        assert len(client._connections) == 2
        assert await _echoed(other, b"two") == [b"two"]
        call.close()
        await until(lambda: len(client._connections) == 1)


async def test_nobody_who_listens_and_nobody_who_speaks_http_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "_CONNECT_SECONDS", 0.3)
    async with client_of(1) as client:
        with pytest.raises(CallFailed, match="UNAVAILABLE: no connection: Connection"):
            await client.open(PATH)

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    for talk, told in ((hang_up, "does not speak HTTP/2"), (say_nothing, "TimeoutError")):
        server = await asyncio.start_server(talk, "127.0.0.1", 0)
        async with server, client_of(server.sockets[0].getsockname()[1]) as client, asyncio.timeout(WAIT_SECONDS):
            with pytest.raises(CallFailed, match=told):
                await client.open(PATH)


async def test_a_peer_that_falls_silent_is_cut_off_and_its_calls_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that is lost closes nothing; a call that has nothing to say is answered by its peer's pings."""
    for name, seconds in (("_LOOK_SECONDS", 0.05), ("_QUIET_SECONDS", 0.1), ("_SILENT_SECONDS", 0.3)):
        monkeypatch.setattr(client_module, name, seconds)
    async with serving(Methods()) as (server, port), client_of(port) as client, asyncio.timeout(WAIT_SECONDS):
        call = await client.open(ECHO)
        await asyncio.sleep(1.0)
        assert await _echoed(call, b"on") == [b"on"]
        (connection,) = server._connections
        connection._transport.pause_reading()  # As if its machine were gone.
        with pytest.raises(CallFailed, match="UNAVAILABLE"):
            await call.read()
        assert not client._connections


async def test_a_connection_without_calls_closes_and_the_next_call_makes_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Connections that many calls needed are not kept for ever, and one that has died unseen takes no call."""
    monkeypatch.setattr(client_module, "_LOOK_SECONDS", 0.05)
    async with serving(Methods()) as (server, port), client_of(port) as client:
        for _ in range(2):
            call = await client.open(ECHO)
            assert await _echoed(call, b"on") == [b"on"]
            await asyncio.sleep(0.2)
            assert len(client._connections) == 1
            call.close()
            await until(lambda: not client._connections and not server._connections)


async def test_a_peer_that_takes_calls_no_more_gets_no_heap_of_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    none = server_connection._SETTINGS | {server_connection._CODE.MAX_CONCURRENT_STREAMS: 0}
    async with serving(Methods()) as (server, port), client_of(port) as client:
        call = await client.open(ECHO)
        assert await _echoed(call, b"on") == [b"on"]
        (connection,) = server._connections
        connection._http.update_settings({server_connection._CODE.MAX_CONCURRENT_STREAMS: 0})
        connection._transport.write(connection._http.data_to_send())
        (mine,) = client._connections
        await until(lambda: not mine.has_room)
        monkeypatch.setattr(server_connection, "_SETTINGS", none)
        with pytest.raises(CallFailed, match="no connection: the peer takes no calls"):
            await client.open(ECHO)
        assert await _echoed(call, b"on") == [b"on"]
        call.close()
        await until(lambda: not client._connections and not server._connections)


async def test_many_calls_share_the_failure_of_one_attempt() -> None:
    """Else a thousand subscriptions make a thousand attempts a second at a node that is away."""
    accepted = 0

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal accepted
        accepted += 1
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    async with server, client_of(server.sockets[0].getsockname()[1]) as client, asyncio.timeout(WAIT_SECONDS):
        ends = await asyncio.gather(*(client.open(PATH) for _ in range(1_000)), return_exceptions=True)
        assert all(isinstance(end, CallFailed) for end in ends) and 0 < accepted < 10
        await asyncio.sleep(client_module._REFUSED_SECONDS)
        before = accepted
        with pytest.raises(CallFailed):
            await client.open(PATH)
        await until(lambda: accepted == before + 1)


async def test_a_connection_without_numbers_for_calls_is_replaced() -> None:
    """RFC 9113, 5.1.1: they are used up after 2^30 calls."""
    async with serving(Methods()) as (_, port), client_of(port) as client:
        first = await client.open(ECHO)
        (connection,) = client._connections
        connection._http.highest_outbound_stream_id = client_module._STREAMS_LAST
        second = await client.open(ECHO)
        assert len(client._connections) == 2
        for call in (first, second):
            assert await _echoed(call, b"on") == [b"on"]


async def test_a_host_that_can_be_no_name_is_told() -> None:
    client = GrpcClient(f"http://{'a' * 70}.example:1", {}, LONG, WINDOW_BYTES)
    with pytest.raises(CallFailed, match="UNAVAILABLE: no connection"):
        await client.open(PATH)
    await client.close()


async def test_whoever_stops_waiting_for_a_call_leaves_nothing_behind() -> None:
    """A feed may be stopped at each point of its beginning; others that wait for the connection get one."""
    async with serving(Methods()) as (server, port), client_of(port) as client:
        passes, has_begun = 0, False
        while not has_begun:
            opening, other = (asyncio.create_task(client.open(ECHO)) for _ in range(2))
            for _ in range(passes):
                await asyncio.sleep(0)
            has_begun = not opening.cancel()
            async with asyncio.timeout(WAIT_SECONDS):
                assert await _echoed(await other, b"on") == [b"on"]
            assert len(client._connections) == 1
            for connection in tuple(client._connections):
                connection.close()
            await until(lambda: not client._connections and not server._connections)
            passes += 1
        assert passes > 3
