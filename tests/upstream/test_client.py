"""One node's client, over real sockets: over kept connections, and over single ones where aiohttp is another."""

import asyncio
import contextlib
import gzip
import re
from collections.abc import AsyncIterator

import orjson
import pytest

from actors.config import UpstreamConfig
from actors.errors import Err
from actors.upstream import replies
from actors.upstream.client import NodeClient
from actors.upstream.replies import AnswerKind

from .nodes import RESULT, Answer, Exchange, RawNode, response, running

CLASS_TIMEOUT_MS = 5_000  # Long enough never to matter where a test is not about it.
pytestmark = pytest.mark.usefixtures("way")


def client_of(node: RawNode, **settings: int) -> NodeClient:
    return NodeClient(UpstreamConfig(**settings), node.url)


@contextlib.asynccontextmanager
async def scene(answer: Answer | None = None, **settings: int) -> AsyncIterator[tuple[RawNode, NodeClient]]:
    """A node that answers so, and a client that asks it."""
    async with running(RawNode(answer)) as node:
        client = client_of(node, **settings)
        try:
            yield node, client
        finally:
            await client.close()


async def test_the_request_is_one_call_with_the_callers_exact_params():
    """Decisions, "Batches towards the node": item by item, never a batch; the parameter bytes travel unchanged."""
    async with scene() as (node, client):
        answer = await client.call("getBalance", b'[ "k" ,1.50]', CLASS_TIMEOUT_MS)
        assert answer.reply(b"5") == RESULT.replace(b'"id":1', b'"id":5')
        sent = node.exchanges[0]
        assert sent.body == b'{"jsonrpc":"2.0","method":"getBalance","params":[ "k" ,1.50],"id":%b}' % sent.id
        head = sent.head
        assert head.startswith(b"POST / HTTP/1.1\r\n")
        assert b"Accept-Encoding: identity\r\n" in head


async def test_connections_are_bounded_and_waiting_calls_are_served_in_turn():
    """upstream.connections_max holds however many call at once."""
    async with scene(connections_max=3) as (node, client):
        answers = await asyncio.gather(*(client.call("getSlot", b"[]", CLASS_TIMEOUT_MS) for _ in range(50)))
        assert {answer.kind for answer in answers} == {AnswerKind.RESULT}
        assert node.most_open <= 3
        assert len(node.exchanges) == 50


async def test_waiting_for_a_connection_counts_as_waiting_for_the_answer():
    """A call that never got a connection in time is TIMED_OUT, and takes none from those behind it."""
    gate = asyncio.Event()

    async def gated(exchange: Exchange) -> None:
        await gate.wait()
        await exchange.send(exchange.response())

    async with scene(gated, connections_max=1) as (_, client):
        first = asyncio.ensure_future(client.call("getSlot", b"[]", CLASS_TIMEOUT_MS))
        await asyncio.sleep(0)  # So the first takes the only connection; else the second would.
        second = await client.call("getSlot", b"[]", 1)
        assert second.kind is AnswerKind.TIMED_OUT
        gate.set()
        assert (await first).kind is AnswerKind.RESULT
        assert (await client.call("getSlot", b"[]", CLASS_TIMEOUT_MS)).kind is AnswerKind.RESULT


@pytest.mark.threat(15)
async def test_a_hanging_node_times_out_and_its_connection_is_dropped():
    """Threat 15: the class's time is kept, and the late answer can reach nobody."""

    recovered = asyncio.Event()

    async def hang_first(exchange: Exchange) -> None:
        if not recovered.is_set():
            await exchange.hang()
        await exchange.send(exchange.response())

    async with scene(hang_first) as (node, client):
        assert (await client.call("getSlot", b"[]", 20)).kind is AnswerKind.TIMED_OUT
        recovered.set()
        assert (await client.call("getSlot", b"[]", CLASS_TIMEOUT_MS)).kind is AnswerKind.RESULT
        assert node.connections == 2


@pytest.mark.threat(15)
async def test_a_reset_in_mid_body_is_unreachable_and_not_asked_again():
    """Threat 15: once a byte of an answer came, the call is never repeated."""

    async def reset(exchange: Exchange) -> None:
        await exchange.send(exchange.response(RESULT)[:-5])
        exchange.reset()

    async with scene(reset) as (node, client):
        assert (await client.call("getSlot", b"[]", CLASS_TIMEOUT_MS)).kind is AnswerKind.UNREACHABLE
        assert len(node.exchanges) == 1


@pytest.mark.parametrize("announced", [True, False])
@pytest.mark.threat(15)
async def test_an_endless_answer_is_cut_off(announced):
    """Threat 15: a gigabyte is refused by its length, or where it exceeds the cap, not kept in memory."""

    async def flood(exchange: Exchange) -> None:
        if announced:
            await exchange.send(b"HTTP/1.1 200 OK\r\ncontent-length: 1073741824\r\n\r\n")
        else:
            await exchange.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        while True:
            await exchange.send((b"10000\r\n" + b"x" * 65_536 + b"\r\n") if not announced else b"x" * 65_536)

    async with scene(flood, answer_bytes_max=1 << 20) as (_, client):
        assert (await client.call("getSlot", b"[]", CLASS_TIMEOUT_MS)).kind is AnswerKind.OVERSIZED


@pytest.mark.parametrize("is_chunked", [False, True])
async def test_an_answer_to_a_probe_is_short(is_chunked):
    """30 MB in answer to each probe were parsed in the thread of the loop, 25 ms each. Calls may have long answers."""
    body = b'{"jsonrpc":"2.0","result":"%b","id":1}' % (b"x" * 5_000)

    async def long(exchange: Exchange) -> None:
        answer = exchange.response(body)
        if is_chunked:
            content = answer.partition(b"\r\n\r\n")[2]
            head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
            answer = head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(content), content)
        await exchange.send(answer)

    async with scene(long) as (_, client):
        assert (await client.ask("getSlot", b"[]", CLASS_TIMEOUT_MS, 4_096)).kind is AnswerKind.OVERSIZED
        assert (await client.ask("getSlot", b"[]", CLASS_TIMEOUT_MS, 6_000)).kind is AnswerKind.RESULT
        assert (await client.call("getSlot", b"[]", CLASS_TIMEOUT_MS)).kind is AnswerKind.RESULT


@pytest.mark.parametrize(
    "sent",
    [
        response(b"not json"),
        response(b'{"jsonrpc":"2.0","result":"ok","id":7}'),
        response(gzip.compress(b"x" * 1_000_000), b"content-encoding: gzip"),
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: abc\r\n\r\n",
    ],
    ids=["invalid-json", "wrong-id", "gzip-bomb", "not-http", "bad-length"],
)
@pytest.mark.threat(15)
async def test_garbage_poisons_the_connection(sent):
    """Threat 15: what is no answer is never passed on, and the connection that gave it is dropped."""

    async def garbage_first(exchange: Exchange) -> None:
        await exchange.send(sent if exchange.number == 0 else exchange.response())

    async with scene(garbage_first) as (node, client):
        first = await client.call("getSlot", b"[]", CLASS_TIMEOUT_MS)
        assert first.kind in (AnswerKind.GARBAGE, AnswerKind.OVERSIZED)
        assert (await client.call("getSlot", b"[]", CLASS_TIMEOUT_MS)).kind is AnswerKind.RESULT
        assert node.connections == 2


@pytest.mark.parametrize("length", [500, 5_000_000])
async def test_closing_ends_calls_in_mid_answer(length):
    """A replica that ends does not wait for a node that hangs."""

    async def half(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n{" % length)
        await exchange.hang()

    async with scene(half) as (_, client):
        call = asyncio.ensure_future(client.call("getSlot", b"[]", CLASS_TIMEOUT_MS))
        await asyncio.sleep(0.05)  # Until the head has been read.
        await client.close()
        assert (await call).kind is AnswerKind.UNREACHABLE


@pytest.mark.parametrize(("method", "asked"), [("getSlot", 2), ("sendTransaction", 1)])
async def test_a_connection_that_closes_is_unreachable(method, asked):
    """Only a read is worth a second try, and only one: the first may have met a node that was tidying up."""

    async def close(exchange: Exchange) -> None:
        exchange.writer.close()

    async with scene(close) as (node, client):
        assert (await client.call(method, b"[]", CLASS_TIMEOUT_MS)).kind is AnswerKind.UNREACHABLE
        assert len(node.exchanges) == asked


async def test_a_chunked_body_is_whole():
    """Chunks say where a body ends, as a length does; trailers behind them are no part of it."""

    async def chunked(exchange: Exchange) -> None:
        body = RESULT.replace(b"1}", exchange.id + b"}")
        chunks = b"5\r\n" + body[:5] + b"\r\n%x\r\n" % len(body[5:]) + body[5:] + b"\r\n0\r\nX-Api-Key: k\r\n\r\n"
        await exchange.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + chunks)

    async with scene(chunked) as (_, client):
        for _ in range(2):
            assert (await client.call("getSlot", b"[]", CLASS_TIMEOUT_MS)).value() == b'"ok"'


async def test_each_request_has_an_id_of_its_own():
    """Also the second try of a read. Ids tell nothing of how much is asked here: they begin anywhere."""

    async def close_first(exchange: Exchange) -> None:
        if exchange.number == 0:
            exchange.writer.close()
            return
        await exchange.send(exchange.response())

    async with running(RawNode(close_first)) as node:
        clients = [client_of(node), client_of(node)]
        for client in clients:
            for _ in range(3):
                assert (await client.call("getSlot", b"[]", CLASS_TIMEOUT_MS)).kind is AnswerKind.RESULT
            await client.close()
        ids = [exchange.id for exchange in node.exchanges]
        assert len(set(ids)) == len(ids) == 7
        assert {len(sent) for sent in ids} == {15}
        assert all(orjson.loads(exchange.body)["id"] < 2**53 for exchange in node.exchanges)


async def test_a_caller_who_leaves_takes_the_connection_along():
    """The answer that is still on its way must not be read as the next call's."""
    arrived = asyncio.Event()

    async def slow_first(exchange: Exchange) -> None:
        if exchange.number == 0:
            arrived.set()
            await exchange.hang()
        await exchange.send(exchange.response())

    async with scene(slow_first, connections_max=1) as (node, client):
        call = asyncio.ensure_future(client.call("getSlot", b"[]", CLASS_TIMEOUT_MS))
        await arrived.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert (await client.call("getSlot", b"[]", CLASS_TIMEOUT_MS)).kind is AnswerKind.RESULT
        assert node.connections == 2


async def test_without_a_connection_nothing_was_sent():
    """A pool may then try another node, even with a send; it is an answer of its own kind, not an exception."""
    async with running(RawNode()) as node:
        client = client_of(node)
    for method in ("getSlot", "sendTransaction"):
        answer = await client.call(method, b"[]", CLASS_TIMEOUT_MS)
        assert answer is replies.NOT_SENT and answer.kind is AnswerKind.UNREACHABLE


@pytest.mark.parametrize(("status", "turned_away"), [(b"503 Service Unavailable", True), (b"200 OK", False)])
async def test_an_error_with_a_busy_status_says_that_it_turned_the_call_away(status, turned_away):
    """Providers put JSON-RPC errors into their limits: no word of the chain's, so another node may be asked."""
    error = b'{"jsonrpc":"2.0","error":{"code":-32005,"message":"busy"},"id":1}'

    async def busy(exchange: Exchange) -> None:
        await exchange.send(exchange.response(error, status=status))

    async with running(RawNode(busy)) as node:
        client = NodeClient(UpstreamConfig(), node.url, "a")
        answer = await client.call("getSlot", b"[]", CLASS_TIMEOUT_MS)
        assert (answer.kind, answer.error_code) == (AnswerKind.ERROR, -32005)
        assert (answer.turned_away, answer.node) == (turned_away, "a")
        await client.close()


@pytest.mark.parametrize(
    ("header", "seconds"),
    [(b"", None), (b"3", 3), (b"0", 1), (b"86400", 60), (b"9" * 40, 60), (b"-5", None), (b"Wed, 21 Oct", None)],
)
@pytest.mark.parametrize("body", [b'{"jsonrpc":"2.0","error":{"code":429,"message":"x"},"id":1}', b"too many"])
async def test_http_429_is_a_refusal_to_take_the_call(header, seconds, body):
    """And no answer to it, whatever its body is: overload is 503 and free (interface, "HTTP statuses")."""

    async def busy(exchange: Exchange) -> None:
        told = (b"Retry-After: " + header,) if header else ()
        await exchange.send(exchange.response(body, *told, status=b"429 Too Many Requests"))

    async with running(RawNode(busy)) as node:
        client = NodeClient(UpstreamConfig(), node.url, "a")
        for method in ("getSlot", "sendTransaction"):
            answer = await client.call(method, b"[]", CLASS_TIMEOUT_MS)
            assert isinstance(answer, replies.RefusedAnswer) and answer.refusal is not None
            assert answer.refusal.err is Err.SERVICE_TEMPORARILY_UNAVAILABLE
            assert answer.refusal.retry_seconds == seconds
        await client.close()


async def test_the_url_becomes_host_target_and_credentials():
    """A provider's URL may carry a path, a query and basic credentials; none of them is lost or leaked elsewhere."""
    async with running(RawNode()) as node:
        host = node.url.removeprefix("http://").rstrip("/")
        client = NodeClient(UpstreamConfig(), f"http://me:p%40ss@{host}/v1/a%2Fkey?api-key=x%3D")
        assert (await client.call("getSlot", b"[]", CLASS_TIMEOUT_MS)).kind is AnswerKind.RESULT
        head = node.exchanges[0].head
        assert head.startswith(b"POST /v1/a%2Fkey?api-key=x%3D HTTP/1.1\r\n")
        assert f"Host: {host}\r\n".encode() in head
        assert re.search(rb"Authorization: Basic bWU6cEBzcw==\r\n", head)
        await client.close()
