"""Large bodies are read from the socket itself: whole, in order, not a byte too many, and the connection is kept."""

import asyncio
import random
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine
from hashlib import sha256
from typing import Any

import aiohttp
import pytest
import uvloop

from actors.config import UpstreamConfig
from actors.upstream import client as client_module
from actors.upstream import kept_connections
from actors.upstream.client import NodeClient
from actors.upstream.large_bodies import HASHED_FOR
from actors.upstream.replies import VALIDATED_BYTES_MAX, AnswerKind
from actors.upstream.socket_bodies import SocketBody

from .nodes import Exchange, RawNode, running
from .test_client import CLASS_TIMEOUT_MS

LONG = 30_000  # Milliseconds: none of these waits may end by its time.
FILLER = random.Random(1).randbytes(1_600_000).hex().encode()
BODY = b'{"jsonrpc":"2.0","result":"' + FILLER + b'","id":1}'
Run = Callable[[Coroutine[Any, Any, None]], Any]
# The product has uvloop, and can run without it; both have transports of their own.
loops = pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])


@pytest.fixture
def from_sockets(monkeypatch: pytest.MonkeyPatch) -> list[SocketBody]:
    """The bodies that were read in this way."""
    made: list[SocketBody] = []

    class Noted(SocketBody):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            made.append(self)

    monkeypatch.setattr(kept_connections, "SocketBody", Noted)
    return made


@loops
@pytest.mark.parametrize("step", [70_001, 1 << 22])
def test_large_bodies_are_read_whole_and_their_connection_is_kept(run: Run, step: int, from_sockets) -> None:
    """Three in a row with a small one between them, in whatever pieces they come."""

    async def answer(exchange: Exchange) -> None:
        whole = exchange.response(BODY if exchange.number != 1 else b'{"jsonrpc":"2.0","result":"ok","id":1}')
        for start in range(0, len(whole), step):
            await exchange.send(whole[start : start + step])

    async def calls() -> None:
        async with running(RawNode(answer)) as node:
            client = NodeClient(UpstreamConfig(), node.url, "a")
            for number in range(4):
                found = await client.call("getBlock", b"[5]", LONG)
                assert found.kind is AnswerKind.RESULT
                assert found.reply(b"1") == (BODY if number != 1 else b'{"jsonrpc":"2.0","result":"ok","id":1}')
            assert node.connections == 1
            assert len(from_sockets) == 3
            await client.close()

    run(calls())


def with_another_behind(body: bytes) -> Callable[[Exchange], Awaitable[None]]:
    """Answer with this body; behind the first one comes a second answer, which nobody has asked for."""

    async def answer(exchange: Exchange) -> None:
        stolen = exchange.response(b'{"jsonrpc":"2.0","result":"stolen","id":1}')
        await exchange.send(exchange.response(body) + (stolen if exchange.number == 0 else b""))

    return answer


@loops
@pytest.mark.threat(15)
def test_bytes_behind_a_large_body_are_read_by_nobody(run: Run, from_sockets) -> None:
    """Threat 15: they are no part of this answer, nor of the next call's, and their connection goes."""

    async def calls() -> None:
        async with running(RawNode(with_another_behind(BODY))) as node:
            client = NodeClient(UpstreamConfig(), node.url, "a")
            assert (await client.call("getBlock", b"[5]", LONG)).reply(b"1") == BODY
            for _ in range(10):  # Turns of the loop in which the surplus arrives.
                await asyncio.sleep(0.001)
            assert (await client.call("getBlock", b"[5]", LONG)).reply(b"1") == BODY
            assert node.connections == 2
            await client.close()

    run(calls())


@loops
@pytest.mark.parametrize("end", ["close", "reset"])
def test_a_large_body_that_breaks_off_is_no_answer_and_known_at_once(run: Run, end: str, from_sockets) -> None:
    """So the call is free, and its memory is given back."""

    async def half(exchange: Exchange) -> None:
        await exchange.send(exchange.response(BODY)[: len(BODY) // 2])
        exchange.writer.close() if end == "close" else exchange.reset()

    async def calls() -> None:
        async with running(RawNode(half)) as node:
            client = NodeClient(UpstreamConfig(), node.url, "a")
            began = time.monotonic()
            found = await client.call("getBlock", b"[5]", LONG)
            assert found.kind is AnswerKind.UNREACHABLE
            assert time.monotonic() - began < LONG / 2_000
            assert client._budget.bytes_free == client._budget.bytes_max
            await client.close()

    run(calls())


@loops
def test_a_client_that_closes_and_a_call_that_is_late_end_the_reading(run: Run, from_sockets) -> None:
    """Neither leaves a descriptor that the loop watches: the same node is asked again, and answers."""

    async def stall(exchange: Exchange) -> None:
        if exchange.number == 1:
            await exchange.send(exchange.response(BODY))
            return
        await exchange.send(exchange.response(BODY)[:-5])
        await exchange.hang()

    async def calls() -> None:
        async with running(RawNode(stall)) as node:
            client = NodeClient(UpstreamConfig(), node.url, "a")
            assert (await client.call("getBlock", b"[5]", 200)).kind is AnswerKind.TIMED_OUT
            assert (await client.call("getBlock", b"[5]", LONG)).reply(b"1") == BODY
            late = asyncio.create_task(client.call("getBlock", b"[5]", LONG))
            while len(from_sockets) < 3 or from_sockets[2]._left > 5:  # noqa: ASYNC110 - nothing tells it.
                await asyncio.sleep(0.005)
            await client.close()
            assert (await late).kind is AnswerKind.UNREACHABLE

    run(calls())


class _Begun:
    """What the parser has read of a body, and the connection that the rest of it comes over."""

    def __init__(self, begun: bytes, connection: socket.socket) -> None:
        self._begun, self._connection = begun, connection
        self.is_complete = False

    def read_nowait(self) -> bytes:
        return self._begun

    def feed_eof(self) -> None:
        self.is_complete = True

    def get_extra_info(self, name: str) -> socket.socket:
        assert name == "socket"
        return self._connection

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


@pytest.fixture
def pair():
    """Both ends of a connection; the second one does not block."""
    there, here = socket.socketpair()
    here.setblocking(False)
    yield there, here
    there.close()
    here.close()


async def test_a_rest_that_has_come_is_read_without_watching_its_socket(pair, monkeypatch) -> None:
    """And not a byte more: the next one is of another answer."""
    there, here = pair
    there.sendall(b"the rest" + b"HTTP/1.1 200 OK")
    begun: Any = _Begun(b"begun, ", here)
    monkeypatch.setattr(asyncio.get_running_loop(), "add_reader", None)
    parts: list[bytes] = []
    await SocketBody(begun, begun, len("begun, the rest")).into(parts.append)
    assert (parts, begun.is_complete) == ([b"begun, ", b"the rest"], True)
    assert here.recv(100) == b"HTTP/1.1 200 OK"


async def test_a_body_that_ends_too_early_at_the_first_look_is_no_answer(pair) -> None:
    there, here = pair
    there.close()
    begun: Any = _Begun(b"begun, ", here)
    with pytest.raises(aiohttp.ClientPayloadError):
        await SocketBody(begun, begun, 20).into(lambda _: None)
    assert not begun.is_complete


async def test_a_body_that_comes_byte_by_byte_is_the_same(pair) -> None:
    """The last byte as the others: until it is there, the answer is not."""
    there, here = pair
    begun: Any = _Begun(b"", here)
    parts: list[bytes] = []
    reading = asyncio.create_task(SocketBody(begun, begun, 40).into(parts.append))
    for number in range(40):
        while len(parts) <= number:
            assert not reading.done()
            await asyncio.sleep(0)
        there.sendall(b"%d" % (number % 10))
    await reading
    assert (b"".join(parts), begun.is_complete) == (b"0123456789" * 4, True)


async def test_other_work_has_its_turns_between_the_parts_of_a_large_body(from_sockets, monkeypatch) -> None:
    """Each part is hashed here: were they read until none is left, a fast node would hold the loop for all of it."""
    turns, parts = 0, list[tuple[int, int]]()

    class Noted(client_module.LargeBody):
        def add(self, received: bytes) -> None:
            parts.append((turns, len(received)))
            super().add(received)

    monkeypatch.setattr(client_module, "LargeBody", Noted)

    async def answer(exchange: Exchange) -> None:
        await exchange.send(exchange.response(BODY))

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with running(RawNode(answer)) as node:
        client, counting = NodeClient(UpstreamConfig(), node.url, "a"), asyncio.create_task(count())
        assert (await client.call("getBlock", b"[5]", LONG)).reply(b"1") == BODY
        counting.cancel()
        await client.close()
    at_once = [sum(size for turn, size in parts if turn == each) for each, _ in parts]
    assert sum(size for _, size in parts) > len(BODY)
    assert max(at_once) <= 1 << 20, "the parser's and one part"


@loops
@pytest.mark.parametrize("size", [300_000, 1_000_000, 5_000_000])
def test_the_hash_of_an_answer_is_there_when_its_body_is(run: Run, size: int, monkeypatch) -> None:
    """Of a body that is read quickly, no thread is woken for it: it would be awaited longer than the hash takes."""
    beside: list[bytes] = []

    class Noted(client_module.SideHash):
        def __init__(self, begun: bytes) -> None:
            super().__init__(begun)
            beside.append(begun)

    monkeypatch.setattr(client_module, "SideHash", Noted)
    body = b'{"jsonrpc":"2.0","result":"' + (FILLER * 2)[:size] + b'","id":1}'

    async def answer(exchange: Exchange) -> None:
        await exchange.send(exchange.response(body))

    async def calls() -> None:
        async with running(RawNode(answer)) as node:
            client = NodeClient(UpstreamConfig(), node.url, "a")
            HASHED_FOR.set((b"[5]", b"1", b"account"))
            found = await client.call("getBlock", b"[5]", LONG)
            assert found.hashed is not None
            assert found.hashed.digest == sha256(b"[5]\n" + body).digest()
            assert beside == ([b"[5]\n"] if size > 2 << 20 else [])
            await client.close()

    run(calls())


async def test_of_many_answers_at_once_most_are_hashed_beside_the_loop(monkeypatch) -> None:
    """Rule: nothing holds the loop longer than 5 ms, also where all of them come in one of its turns. Places come back,
    of bodies that break off too."""
    beside = 0

    class Noted(client_module.SideHash):
        def __init__(self, begun: bytes) -> None:
            super().__init__(begun)
            nonlocal beside
            beside += 1

    monkeypatch.setattr(client_module, "SideHash", Noted)
    body = b'{"jsonrpc":"2.0","result":"' + FILLER[:1_000_000] + b'","id":1}'
    asked, all_asked = 0, asyncio.Event()

    async def answer(exchange: Exchange) -> None:
        nonlocal asked
        asked += 1
        if asked == 10:
            all_asked.set()
        await exchange.send(exchange.response(body)[:100_000])
        await all_asked.wait()
        if asked == 10:
            await exchange.send(exchange.response(body)[100_000:])
        exchange.writer.close()

    async with running(RawNode(answer)) as node:
        client = NodeClient(UpstreamConfig(), node.url, "a")
        HASHED_FOR.set((b"[5]", b"1", b"account"))
        for found in await asyncio.gather(*(client.call("getBlock", b"[5]", LONG) for _ in range(10))):
            assert found.hashed is not None
            assert found.hashed.digest == sha256(b"[5]\n" + body).digest()
        assert beside == 6
        for _ in range(10):
            assert (await client.call("getBlock", b"[5]", LONG)).kind is AnswerKind.UNREACHABLE
        assert (beside, client._hashed_here) == (6, 0)
        await client.close()


@loops
@pytest.mark.parametrize("size", [100_000, 140_000, 200_000, 250_000])
@pytest.mark.threat(15)
def test_bytes_behind_a_body_of_any_size_are_nobodys(run: Run, size: int) -> None:
    """Threat 15. A parser that stops in the middle of a read keeps the rest of it: this must not become an answer."""
    body = b'{"jsonrpc":"2.0","result":"' + FILLER[:size] + b'","id":1}'

    async def calls() -> None:
        async with running(RawNode(with_another_behind(body))) as node:
            client = NodeClient(UpstreamConfig(), node.url, "a")
            for _ in range(3):
                assert (await client.call("getBlock", b"[5]", LONG)).reply(b"1") == body
            assert node.connections == 2
            await client.close()

    run(calls())


async def test_small_and_chunked_bodies_go_through_the_parser(from_sockets) -> None:
    """Only the parser knows where a chunk ends."""

    async def answer(exchange: Exchange) -> None:
        own = BODY.replace(b"1}", exchange.id + b"}")
        if exchange.number == 0:
            await exchange.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n%x\r\n" % len(own) + own)
            await exchange.send(b"\r\n0\r\n\r\n")
        else:
            least = b'{"jsonrpc":"2.0","result":"' + b"x" * (VALIDATED_BYTES_MAX - 50) + b'","id":1}'
            await exchange.send(exchange.response(least))

    async with running(RawNode(answer)) as node:
        client = NodeClient(UpstreamConfig(), node.url, "a")
        assert (await client.call("getBlock", b"[5]", CLASS_TIMEOUT_MS)).reply(b"1") == BODY
        found = await client.call("getBlock", b"[5]", CLASS_TIMEOUT_MS)
        assert (found.kind, found.size) == (AnswerKind.RESULT, VALIDATED_BYTES_MAX)
        assert from_sockets == []
        await client.close()


def test_an_encrypted_body_is_not_read_from_its_socket() -> None:
    """What is there is not what the node has said."""

    class Tls:
        def get_extra_info(self, name: str) -> object:
            return object()

    class Head:
        chunked, headers = False, {"Content-Length": "10000000"}

    payload: Any = object()
    assert kept_connections._reader_of(Any, Tls(), Head(), payload) is payload  # type: ignore[arg-type]
