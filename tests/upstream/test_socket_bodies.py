"""Large bodies are read from the socket itself: whole, in order, not a byte too many, and the connection is kept."""

import asyncio
import random
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from actors.config import UpstreamConfig
from actors.upstream import kept_connections
from actors.upstream.client import NodeClient
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


@loops
@pytest.mark.threat(15)
def test_bytes_behind_a_large_body_are_read_by_nobody(run: Run, from_sockets) -> None:
    """Threat 15: they are no part of this answer, nor of the next call's, and their connection goes."""

    async def twice(exchange: Exchange) -> None:
        stolen = exchange.response(b'{"jsonrpc":"2.0","result":"stolen","id":1}')
        await exchange.send(exchange.response(BODY) + (stolen if exchange.number == 0 else b""))

    async def calls() -> None:
        async with running(RawNode(twice)) as node:
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
