"""Subscriptions over real sockets: the real door and hubs, whose connections are cut."""

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Response

from actors.signals.log import NO_CURSOR
from actors.signals.subscriptions import SignalSubscriptions
from ledger_gateway import Denied, Gap, Gateway, Notification, PaymentNeeded, Session, Stream, Unreachable, Wallet
from ledger_gateway import stream as stream_module
from ledger_gateway.errors import LedgerGatewayError
from tests.signals.test_hub import World as SignalWorld
from tests.streams.world import Sockets, open_sockets

from .world import Waits

ROOTS = "rootSubscribe"
LOGS = "logsSubscribe"


def client(sockets: Sockets, credential: Any, waits: Waits | None = None) -> Gateway:
    options: dict[str, Any] = {"sleep": waits or Waits(), "jitter": lambda: 0.0, "now": sockets.world.clock.now}
    return Gateway(f"http://127.0.0.1:{sockets.port}", credential, **options)


async def _next(events: AsyncIterator[Any]) -> Any:
    async with asyncio.timeout(20):
        return await anext(events)


async def _connected(stream: Stream, connections: int, *subscriptions: Any) -> None:
    """Wait until so many connections were made, and the subscriptions are made again."""
    async with asyncio.timeout(20):
        # A stream tells nobody when it is back.
        while stream.connections < connections or any(each.id is None for each in subscriptions):  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def _cut(stream: Stream, *subscriptions: Any) -> None:
    """Lose the connection as a network does, without a close frame, and wait for the next one."""
    assert stream._socket is not None
    connections = stream.connections
    stream._socket.transport.abort()
    await _connected(stream, connections + 1, *subscriptions)


@contextlib.asynccontextmanager
async def with_signals() -> AsyncIterator[tuple[Sockets, SignalWorld, Any]]:
    signals = SignalWorld()
    hub = await signals.hub()
    async with open_sockets(kinds=[SignalSubscriptions(hub)]) as sockets:
        yield sockets, signals, hub


async def test_a_break_is_told_and_the_subscription_goes_on() -> None:
    """Native subscriptions cannot go back: a Gap with the last slot comes before the first event after the loss."""
    async with open_sockets() as sockets:
        customer = await sockets.world.customer(credits=100)
        async with client(sockets, customer.api_key) as gateway, gateway.stream() as stream:
            roots, logs = await stream.subscribe(ROOTS), await stream.subscribe(LOGS, "all")
            told, told_logs = aiter(roots), aiter(logs)
            await sockets.node.notify(ROOTS, 7)
            assert await _next(told) == Notification(7, 7)
            await _cut(stream, roots, logs)
            assert await _next(told) == Gap(7, None, "the connection was lost")
            assert isinstance(await _next(told_logs), Gap)
            await sockets.node.notify(ROOTS, 9)
            assert await _next(told) == Notification(9, 9)
            await roots.close()
            assert [event async for event in told] == []
            await sockets.node.until(ROOTS, 0)


async def test_signals_are_exactly_the_uninterrupted_set_whatever_breaks() -> None:
    """Threat 32 from a client's side: breaks at any place, replays after them; each signal once, in order."""
    async with with_signals() as (sockets, signals, hub):
        customer = await sockets.world.customer(credits=1_000)
        await signals.write(3)
        async with client(sockets, customer.api_key) as gateway, gateway.stream() as stream:
            subscription = await stream.signals(since=NO_CURSOR, kinds=["newPair"])
            events, mints = aiter(subscription), []
            for _ in range(4):
                await signals.write(2)
                await signals.publish(hub)
                mints.append((await _next(events)).mint)
                await _cut(stream, subscription)
                await signals.write(1)
                await signals.publish(hub)
            while len(mints) < signals.written:
                mints.append((await _next(events)).mint)
            assert mints == [f"M{number}" for number in range(signals.written)] and stream.connections == 5


async def test_a_stream_ends_with_the_error_where_a_new_connection_would_end_so_too() -> None:
    """No account, no such method, a key that is replaced, a balance below 10: each is told as its error."""
    async with open_sockets() as sockets:
        customer, poor = await sockets.world.customer(credits=100), await sockets.world.customer(credits=5)
        for credential, error in (
            (poor.api_key, PaymentNeeded),
            ("srpc_live_" + "A" * 43, Denied),
            (None, PaymentNeeded),
        ):
            async with client(sockets, credential) as gateway, gateway.stream() as stream:
                with pytest.raises(error):
                    await stream.subscribe(ROOTS)
        async with client(sockets, customer.api_key) as gateway, gateway.stream() as stream:
            with pytest.raises(LedgerGatewayError):
                await stream.subscribe("nothingSubscribe")
            events = aiter(await stream.subscribe(ROOTS))
            path = "/account/api-key"
            await sockets.world.http.post(path, content=b"{}", headers=customer.headers("POST", path, b"{}"))
            await sockets.watch.check()
            with pytest.raises(Denied):
                await _next(events)


async def test_a_session_that_has_ended_signs_in_again() -> None:
    async with open_sockets() as sockets:
        session = Session(Wallet(bytes((await sockets.world.customer(credits=100)).key)))
        async with client(sockets, session) as gateway, gateway.stream() as stream:
            events = aiter(await stream.subscribe(ROOTS))
            token = session.token
            await sockets.world.http.post("/auth/logout", headers={"authorization": f"Bearer {token}"})
            await sockets.watch.check()
            assert isinstance(await _next(events), Gap)
            await _connected(stream, 2)
            assert session.token not in (None, token)


async def test_a_dead_or_hostile_server_ends_the_beginning() -> None:
    """A first connection is tried a few times; a server that takes a subscription
    and hangs up, and one that speaks no JSON-RPC, cost no fee for ever."""
    waits = Waits()
    async with (
        Gateway("http://127.0.0.1:9", "key", sleep=waits, jitter=lambda: 0.0) as gateway,
        gateway.stream() as stream,
    ):
        with pytest.raises(Unreachable):
            await stream.subscribe(ROOTS)
    assert len(waits.seconds) == 3

    async def hostile(connection: ServerConnection) -> None:
        await connection.recv()
        await connection.send("[" * 50_000)

    async def flapping(connection: ServerConnection) -> None:
        number = json.loads(await connection.recv())["id"]
        await connection.send(json.dumps({"jsonrpc": "2.0", "id": number, "result": 1}))
        await connection.close(1012)

    async with serve(flapping, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}"
        async with Gateway(url, "key", sleep=waits) as gateway, gateway.stream() as stream:
            with pytest.raises(Unreachable, match="in a row"):
                async for event in await stream.subscribe(ROOTS):
                    assert isinstance(event, Gap)
            assert stream.connections == 10

    async def mistaken(connection: ServerConnection) -> None:
        number = json.loads(await connection.recv())["id"]
        await connection.send(json.dumps({"jsonrpc": "2.0", "id": number + 1, "result": 1}))
        await connection.wait_closed()

    for handler, told in ((hostile, "not JSON"), (mistaken, "an id that no request had: 2")):
        async with serve(handler, "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}"
            async with Gateway(url, "key", sleep=waits) as gateway, gateway.stream() as stream:
                with pytest.raises(LedgerGatewayError, match=told):
                    await stream.subscribe(ROOTS)


async def test_an_answer_that_comes_too_late_does_not_end_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """An id that was given up is known, and the next request is answered."""
    monkeypatch.setattr(stream_module, "_ANSWER_SECONDS", 0.05)

    async def slow(connection: ServerConnection) -> None:
        first = json.loads(await connection.recv())["id"]
        second = json.loads(await connection.recv())["id"]
        for number in (first, second):
            await connection.send(json.dumps({"jsonrpc": "2.0", "id": number, "result": number}))
        await connection.wait_closed()

    async with serve(slow, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}"
        async with Gateway(url, "key", sleep=Waits()) as gateway, gateway.stream() as stream:
            with pytest.raises(Unreachable, match="gave no answer"):
                await stream.subscribe(ROOTS)
            monkeypatch.setattr(stream_module, "_ANSWER_SECONDS", 20.0)
            assert (await stream.subscribe(ROOTS)).id == 2


def _busy(connection: ServerConnection, number: int) -> Response | None:
    """A handshake that is refused for seven seconds, the first time."""
    if number > 1:
        return None
    return Response(503, "busy", Headers({"Retry-After": "7", "Content-Length": "0"}), b"")


async def _reply(connection: ServerConnection, **end: Any) -> None:
    number = json.loads(await connection.recv())["id"]
    await connection.send(json.dumps({"jsonrpc": "2.0", "id": number, **end}))


async def test_a_break_waits_as_long_as_it_is_told_and_no_subscription_is_lost() -> None:
    """A handshake that names a time is made again after it; a connection that ends while a subscription is being made
    does not hold the next one up; a subscription that is refused for a reason that passes is asked for again."""
    waits, handshakes, sockets = Waits(), itertools.count(1), itertools.count(1)
    limited = {"code": -32005, "message": "x", "data": {"source": "gateway", "constant": "RATE_LIMITED"}}
    limited["data"]["retry_after_secs"] = 3  # type: ignore[index]

    async def serving(connection: ServerConnection) -> None:
        turn = next(sockets)
        if turn == 2:
            await connection.recv()  # Gone before it answers.
        else:
            if turn == 3:
                await _reply(connection, error=limited)
            await _reply(connection, result=turn)
        if turn < 3:
            await connection.close(1012)
        told = {"subscription": turn, "result": 9}
        with contextlib.suppress(ConnectionClosed):
            await connection.send(json.dumps({"jsonrpc": "2.0", "method": "rootNotification", "params": told}))
        await connection.wait_closed()

    async with serve(
        serving, "127.0.0.1", 0, process_request=lambda connection, _: _busy(connection, next(handshakes))
    ) as server:
        url = f"http://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}"
        async with Gateway(url, "key", sleep=waits, jitter=lambda: 0.0) as gateway, gateway.stream() as stream:
            events = aiter(await stream.subscribe(ROOTS))
            lost = "the connection was lost"
            assert [await _next(events) for _ in range(3)] == [*[Gap(None, None, lost)] * 2, Notification(9, 9)]
    assert waits.seconds[0] == 7.0 and 3.0 in waits.seconds
