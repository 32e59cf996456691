"""The short way and ASGI answer alike, in order, over one connection; spoken to in bytes."""

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple

import httptools
import pytest
import uvicorn

from actors.gateway.calls.answers import LARGE_BYTES
from actors.gateway.calls.replies import Response
from actors.http_server.exchange import HttpRequest
from actors.upstream import replies

from .doubles import TRANSACTION, ScriptedNode
from .test_wire import BODY, both_ways, listening, post, serving
from .world import Wallet, World, a_world, call


class Client:
    """One connection; reads whole answers."""

    @classmethod
    async def connect(cls, port: int) -> "Client":
        client = cls()
        client.reader, client.writer = await asyncio.open_connection("127.0.0.1", port)
        return client

    def __init__(self) -> None:
        self.reader: Any = None
        self.writer: Any = None
        self._parser = httptools.HttpResponseParser(self)
        self._headers: list[tuple[bytes, bytes]] = []
        self._body = b""
        self._answers: list[tuple[int, list[tuple[bytes, bytes]], bytes]] = []

    def send(self, *requests: bytes) -> None:
        self.writer.write(b"".join(requests))

    async def read(self, count: int) -> list[tuple[int, list[tuple[bytes, bytes]], bytes]]:
        """Status, headers and body of so many answers, in the order in which they came."""
        while len(self._answers) < count:
            data = await asyncio.wait_for(self.reader.read(65_536), 10)
            assert data, "the connection ended"
            self._parser.feed_data(data)
        taken, self._answers = self._answers[:count], self._answers[count:]
        return taken

    async def is_ended(self) -> bool:
        return await asyncio.wait_for(self.reader.read(1), 10) == b""

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        self._answers.append((self._parser.get_status_code(), self._headers, self._body))
        self._headers, self._body = [], b""


def numbered(key: str, number: int, *headers: bytes, target: bytes = b"/") -> bytes:
    return post(key, json.dumps(call(id=number)).encode(), target, *headers)


class UnderWay(NamedTuple):
    """A call that its node has, and does not answer before `node.gate` is set."""

    world: World
    server: uvicorn.Server
    node: ScriptedNode
    customer: Wallet
    client: Client


@contextlib.asynccontextmanager
async def under_way(*requests: Callable[[str], bytes]) -> AsyncIterator[UnderWay]:
    """The first of these, each made with the customer's key, is under way; all are of one connection."""
    node = ScriptedNode()
    node.gate = asyncio.Event()
    async with a_world(node) as world, serving(world.door, swift=True) as (server, port):
        customer = await world.customer(10)
        client = await Client.connect(port)
        client.send(*(request(customer.api_key) for request in requests))
        await node.asked.wait()
        yield UnderWay(world, server, node, customer, client)


def first(key: str) -> bytes:
    return numbered(key, 1)


def ids(answered: list[tuple[int, Any, bytes]]) -> list[Any]:
    assert {status for status, _, _ in answered} == {200}, answered
    return [json.loads(body)["id"] for _, _, body in answered]


def same(answered: tuple[int, list[tuple[bytes, bytes]], bytes]) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Without what is another one each time: the date, the request's id (and so the length), what is made of time."""
    status, headers, body = answered
    other = (b"date", b"x-request-id", b"x-receipt", b"payment-required", b"content-length")
    kept = [(name, value) for name, value in headers if name not in other]
    return status, kept, re.sub(rb'"requestId":"[^"]*"|"nonce":"[^"]*"|"issuedAt":"[^"]*"', b"", body)


async def test_both_ways_answer_with_the_same_bytes():
    """Rule: the short way is a matter of speed; no client can tell which one it was given."""
    async with a_world() as world:
        customer, poor = await world.customer(1_000), await world.customer()
        key = customer.api_key
        requests = [
            post(key, BODY),
            post(key, BODY, b"/rpc?x=1"),
            post(key, BODY, b"/", b"origin: https://app.test"),
            post(key, json.dumps([call(id=1), call("noSuch", id=2), 7]).encode()),
            post(key, b"{"),
            post(key, b""),
            post(key, b"[]"),
            post(key, json.dumps(call("noSuchMethod")).encode()),
            post(key, json.dumps(call("getBalance", 7)).encode()),
            post(key, json.dumps(call("getBlock")).encode()),
            post(poor.api_key, BODY),
            post("srpc_live_no", BODY),
            post(key, BODY, b"/", b"x-request-id: forged"),
            post(key, BODY, b"/", b"content-encoding: gzip"),
            b"POST / HTTP/1.1\r\nhost: gateway.test\r\ncontent-length: %d\r\n\r\n" % len(BODY) + BODY,
            b"POST /?api-key=%b HTTP/1.1\r\nhost: gateway.test\r\ncontent-length: %d\r\n\r\n"
            % (key.encode(), len(BODY))
            + BODY,
            b"GET / HTTP/1.1\r\nhost: gateway.test\r\n\r\n",
            b"OPTIONS /rpc HTTP/1.1\r\nhost: gateway.test\r\norigin: https://app.test\r\n\r\n",
        ]
        seen = []
        for swift in (False, True):
            async with listening(world.door, swift) as port:
                answered = []
                for request in requests:  # Each on a connection of its own: some answers end theirs.
                    client = await Client.connect(port)
                    client.send(request)
                    answered += await client.read(1)
                    client.writer.close()
            # The credits and the rate have moved on between the two.
            moving = (b"x-credits-remaining", b"x-ratelimit-remaining", b"ratelimit")
            seen.append(
                [(s, [h for h in headers if h[0] not in moving], body) for s, headers, body in map(same, answered)]
            )
        asgi, short = seen
        assert len({status for status, _, _ in asgi}) >= 5
        for number, (one, other) in enumerate(zip(asgi, short, strict=True)):
            assert one == other, requests[number]


async def test_every_answer_has_an_id_of_its_own_that_is_no_strangers():
    """Rule: ids are made here, so none can be forged into a log."""
    async with a_world() as world, listening(world.door, swift=True) as port:
        customer = await world.customer(10)
        client = await Client.connect(port)
        client.send(numbered(customer.api_key, 1, b"x-request-id: forged"), numbered(customer.api_key, 2))
        found = [dict(headers)[b"x-request-id"] for _, headers, _ in await client.read(2)]
        assert len(set(found)) == 2 and b"forged" not in found
        client.writer.close()


@both_ways
async def test_requests_of_one_segment_are_answered_in_order(swift):
    """Rule: answers keep the order of the requests, whichever way each of them goes."""
    async with a_world() as world, listening(world.door, swift) as port:
        customer = await world.customer(100)
        client = await Client.connect(port)
        health = b"GET /pricing HTTP/1.1\r\nhost: gateway.test\r\n\r\n"
        key = customer.api_key
        client.send(numbered(key, 1), health, numbered(key, 2), numbered(key, 3), health, numbered(key, 4))
        answered = await client.read(6)
        assert ids([answered[at] for at in (0, 2, 3, 5)]) == [1, 2, 3, 4]
        client.send(*(numbered(key, number) for number in range(50)))
        assert ids(await client.read(50)) == list(range(50))
        client.writer.close()


@both_ways
async def test_a_request_may_come_in_pieces(swift):
    """Rule: nothing depends on how the network cuts a request."""
    async with a_world() as world, listening(world.door, swift) as port:
        customer = await world.customer(10)
        client = await Client.connect(port)
        request = numbered(customer.api_key, 7)
        for at in range(len(request)):
            client.send(request[at : at + 1])
            await client.writer.drain()
            await asyncio.sleep(0)
        assert ids(await client.read(1)) == [7]
        client.writer.close()


@both_ways
@pytest.mark.parametrize("version", [b"1.1", b"1.0"])
async def test_a_connection_ends_when_it_was_said_to(swift, version):
    """By header, or by being of HTTP/1.0."""
    async with a_world() as world, listening(world.door, swift) as port:
        customer = await world.customer(10)
        client = await Client.connect(port)
        headers = (b"connection: close",) if version == b"1.1" else ()
        client.send(numbered(customer.api_key, 1, *headers).replace(b"HTTP/1.1", b"HTTP/" + version))
        ((status, sent, _),) = await client.read(1)
        assert (status, dict(sent)[b"connection"]) == (200, b"close")
        assert await client.is_ended()


@both_ways
async def test_a_client_that_asks_before_it_sends_is_told_to_go_on(swift):
    """Rule: Expect: 100-continue is answered before the body."""
    async with a_world() as world, listening(world.door, swift) as port:
        customer = await world.customer(10)
        client = await Client.connect(port)
        head, _, body = numbered(customer.api_key, 1, b"expect: 100-continue").partition(b"\r\n\r\n")
        client.send(head + b"\r\n\r\n")
        assert (await client.read(1))[0][0] == 100
        client.send(body)
        assert ids(await client.read(1)) == [1]
        client.writer.close()


async def test_a_body_that_is_too_long_is_refused_and_the_rest_is_not_read():
    """Threat 10: in chunks too, where no length says so beforehand."""
    async with a_world(gateway={"body_bytes_max": 65_536}) as world, listening(world.door, swift=True) as port:
        customer = await world.customer(10)
        client = await Client.connect(port)
        client.send(post(customer.api_key, b"", b"/", b"transfer-encoding: chunked", length=False))
        client.send(b"%x\r\n" % 70_000 + b"x" * 70_000 + b"\r\n")
        ((status, headers, body),) = await client.read(1)
        assert (status, dict(headers)[b"connection"]) == (400, b"close")
        assert b"longer than 65536 bytes" in body
        assert await client.is_ended()
        assert await world.debits(customer) == []


@pytest.mark.threat(36)
async def test_who_leaves_before_the_answer_pays_nothing():
    """Threat 36: noticed at once, the node's work is given up, and the hold is released."""
    async with under_way(first) as (world, _, node, customer, client):
        client.writer.close()
        async with asyncio.timeout(10):
            while not node.abandoned:  # noqa: ASYNC110  # The loop's own turns, until the socket's end is seen.
                await asyncio.sleep(0)
        await world.door.close()
        assert (await world.balance(customer), await world.debits(customer)) == (10, [])


@pytest.mark.threat(36)
async def test_leaving_is_no_way_to_send_for_free():
    """Threat 36: the node acts on a send in any case, so it is carried to its end and charged."""
    sent = json.dumps(call("sendTransaction", TRANSACTION, {"encoding": "base64"})).encode()
    async with under_way(lambda key: post(key, sent)) as (world, server, node, customer, client):
        client.writer.close()
        async with asyncio.timeout(10):
            while server.server_state.tasks:  # noqa: ASYNC110  # Until the call has been taken from its caller.
                await asyncio.sleep(0)
        node.gate.set()
        await world.door.close()
        assert (node.abandoned, await world.debits(customer)) == (0, [("sendTransaction", 2)])


async def test_a_server_that_ends_lets_the_call_end_and_says_so():
    """Rule: replicas drain: what is under way is answered, and its connection closed."""
    async with under_way(first) as (_, server, node, _, client):
        for connection in list(server.server_state.connections):
            connection.shutdown()
        node.gate.set()
        ((status, headers, _),) = await client.read(1)
        assert (status, dict(headers)[b"connection"]) == (200, b"close")
        assert await client.is_ended()


def large_node() -> ScriptedNode:
    body = b'{"jsonrpc":"2.0","result":"' + b"x" * (20 * LARGE_BYTES) + b'","id":1}'
    return ScriptedNode(lambda *_: replies.judge(body))


async def test_a_large_answer_leaves_as_its_client_takes_it_and_the_connection_goes_on():
    """Rule: a slow client holds some pieces of an answer, never two whole ones, and loses nothing."""
    async with a_world(large_node()) as world, listening(world.door, swift=True) as port:
        customer = await world.customer(10)
        client = await Client.connect(port)
        client.send(numbered(customer.api_key, 1), numbered(customer.api_key, 2))
        answered = await client.read(2)
        assert ids(answered) == [1, 2]
        assert {len(json.loads(body)["result"]) for _, _, body in answered} == {20 * LARGE_BYTES}
        client.writer.close()


class _Broken:
    """A door that lets another's words begin a header of their own."""

    body_bytes_max = 100

    late = None

    def takes(self, request: HttpRequest) -> bool:
        return True

    async def answer(self, request: HttpRequest) -> Response:
        return Response(200, b"{}", [(b"content-length", b"2"), (b"x-node", b"a\r\nset-cookie: b")])


async def test_no_value_begins_a_header_of_its_own():
    """Rule: bugs are assertions: nothing of such an answer leaves, and the connection ends."""
    async with listening(_Broken(), swift=True) as port:  # type: ignore[arg-type]
        client = await Client.connect(port)
        client.send(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{}")
        assert await client.is_ended()


class _Clockwork:
    """A loop's clock and timers, moved by the test."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.now = 0.0
        self.timers: list[tuple[float, Any]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, callback: Any) -> Any:
        self.timers.append((self.now + seconds, callback))
        return asyncio.TimerHandle(0, callback, (), self._loop)

    def advance(self, seconds: float) -> None:
        self.now += seconds
        due, self.timers = [t for t in self.timers if t[0] <= self.now], [t for t in self.timers if t[0] > self.now]
        for _, callback in due:
            callback()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)


async def test_an_idle_connection_is_closed_and_a_busy_one_is_not():
    """Rule: keep-alive counts from the last answer; one timer serves them all."""
    async with a_world() as world, serving(world.door, swift=True) as (server, port):
        customer = await world.customer(100)
        client = await Client.connect(port)
        client.send(numbered(customer.api_key, 0))
        await client.read(1)
        (connection,) = server.server_state.connections
        clockwork = connection.loop = _Clockwork(connection.loop)
        limit = connection.timeout_keep_alive
        connection.timeout_keep_alive_task.cancel()
        connection.timeout_keep_alive_task = None
        for number in range(1, 10):
            client.send(numbered(customer.api_key, number))
            assert ids(await client.read(1)) == [number]
            clockwork.advance(limit * 0.6)
            assert len(clockwork.timers) == 1
        clockwork.advance(limit * 0.3)
        assert not connection.transport.is_closing()
        clockwork.advance(limit)
        assert await client.is_ended()
