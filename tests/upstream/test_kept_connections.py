"""Connections that are kept from call to call: used again while they are clean, and only then."""

import asyncio
import contextlib
from functools import partial

import pytest
from aiohttp.client_proto import ResponseHandler

from actors.config import UpstreamConfig
from actors.upstream import client as client_module
from actors.upstream import kept_connections, replies
from actors.upstream.client import NodeClient
from actors.upstream.connections import UnsupportedAiohttp, node_address
from actors.upstream.kept_connections import KeptConnections, StrictConnection
from actors.upstream.replies import AnswerKind

from .nodes import RESULT, Exchange, response
from .test_client import CLASS_TIMEOUT_MS, scene


class Counted:
    """aiohttp's parser, which notes how many bytes it gets at once."""

    def __init__(self, feed, fed: list[int]) -> None:
        self._feed, self._fed = feed, fed

    def feed_data(self, data: bytes):
        self._fed.append(len(data))
        return self._feed(data)

    def feed_eof(self) -> None:
        return None


async def close_second(exchange: Exchange) -> None:
    if exchange.number == 1:
        exchange.writer.close()
    else:
        await exchange.send(exchange.response())


async def test_a_connection_is_kept_and_used_again():
    """One connection serves call after call."""
    async with scene() as (node, client):
        for _ in range(5):
            assert (await client.call("getSlot", b"[]", CLASS_TIMEOUT_MS)).kind is AnswerKind.RESULT
        assert node.connections == 1


async def test_idle_connections_are_closed_after_some_seconds(monkeypatch):
    """A node must not keep a connection for each call of a burst that is long over."""
    monkeypatch.setattr(kept_connections, "_KEPT_SECONDS", 0.05)
    async with scene() as (node, client):
        await asyncio.gather(*(client.call("getSlot", b"[]", CLASS_TIMEOUT_MS) for _ in range(3)))
        kept = client._connections
        connections = [connection for connection, _ in kept._idle]
        assert len(connections) == node.connections == 3
        sweep = kept._sweep
        assert sweep is not None
        sweep.cancel()
        kept._end_idle(60.0)
        assert len(kept._idle) == 3 and kept._sweep is not None, "they are looked at again later"
        kept._end_idle(0.0)
        assert not kept._idle and kept._sweep is None and all(connection.closed for connection in connections)


async def test_idle_connections_are_closed_a_few_at_a_time(monkeypatch):
    """Closing 500 in one turn held the event loop for 20 ms, three seconds after each burst of as many calls."""
    monkeypatch.setattr(kept_connections, "_CLOSED_AT_ONCE_MAX", 2)
    monkeypatch.setattr(kept_connections, "_CLOSING_PAUSE_SECONDS", 0.0)
    async with scene() as (node, client):
        await asyncio.gather(*(client.call("getSlot", b"[]", CLASS_TIMEOUT_MS) for _ in range(5)))
        kept = client._connections
        kept._trusted_since = asyncio.get_running_loop().time()
        left = []
        kept._end_idle(60.0)
        while kept._idle:
            left.append(len(kept._idle))
            assert kept._take_idle() is None, "no call gets one that is about to be closed"
            await asyncio.sleep(0)
        assert (list(dict.fromkeys(left)), kept._open, kept._sweep) == ([3, 1], 0, None)
        assert (await client.call("getSlot", b"[]", CLASS_TIMEOUT_MS)).kind is AnswerKind.RESULT
        assert node.connections == 6


async def test_callers_beyond_the_limit_get_the_connections_of_those_before_them():
    """An idle connection counts as used, so it must not wait here while callers wait in the pool."""
    async with scene(connections_max=2) as (node, client):
        for _ in range(3):
            answers = await asyncio.gather(*(client.call("getSlot", b"[]", CLASS_TIMEOUT_MS) for _ in range(7)))
            assert {answer.kind for answer in answers} == {AnswerKind.RESULT}
            assert client._connections._open == len(client._connections._idle) <= 2
        assert node.connections == 2


async def test_an_idle_connection_does_not_go_where_nobody_waits_for_one():
    """A caller that makes a connection below the limit is not waiting for one. aiohttp's pool would keep the idle one,
    and a read that is repeated would get it: closed by now, too."""
    async with scene(connections_max=3) as (node, client):
        await client.call("getSlot", b"[]", CLASS_TIMEOUT_MS)
        kept = client._connections
        kept._connecting = 2
        await client.call("getSlot", b"[]", CLASS_TIMEOUT_MS)
        assert (len(kept._idle), kept._open, node.connections) == (1, 1, 1)
        kept._connecting = 3
        await client.call("getSlot", b"[]", CLASS_TIMEOUT_MS)
        assert (len(kept._idle), kept._open) == (0, 0), "one of three more callers waits beyond the limit"


async def test_a_second_answer_to_one_request_reaches_nobody():
    """Surplus bytes would be taken for the next call's answer; the connection goes instead."""

    async def twice(exchange: Exchange) -> None:
        stolen = exchange.response(b'{"jsonrpc":"2.0","result":"stolen","id":1}')
        await exchange.send(exchange.response() + stolen if exchange.number == 0 else exchange.response())

    async with scene(twice) as (node, client):
        for _ in range(3):
            answer = await client.call("getSlot", b"[]", CLASS_TIMEOUT_MS)
            assert answer.value() == b'"ok"'
        assert node.connections == 2


async def test_an_answer_that_nobody_asked_for_reaches_nobody():
    """aiohttp would keep it, and give it to whoever is next on the connection: another customer's call."""
    said = asyncio.Event()

    async def again_later(exchange: Exchange) -> None:
        await exchange.send(exchange.response())
        if exchange.number == 0:
            await said.wait()
            await exchange.send(exchange.response(b'{"jsonrpc":"2.0","result":"stolen","id":1}'))

    async with scene(again_later) as (node, client):
        assert (await client.call("getSlot", b"[]", CLASS_TIMEOUT_MS)).value() == b'"ok"'
        said.set()
        for _ in range(10):  # Turns of the loop in which the surplus arrives.
            await asyncio.sleep(0.001)
        assert (await client.call("getSlot", b"[]", CLASS_TIMEOUT_MS)).value() == b'"ok"'
        assert node.connections == 2


async def test_a_kept_connection_that_was_closed_meanwhile_costs_nothing():
    """A node that tidies up its idle connections is asked again on a fresh one, once."""

    async with scene(close_second) as (node, client):
        assert (await client.call("getSlot", b"[]", CLASS_TIMEOUT_MS)).kind is AnswerKind.RESULT
        assert (await client.call("getSlot", b"[]", CLASS_TIMEOUT_MS)).kind is AnswerKind.RESULT
        assert len(node.exchanges) == 3
        assert node.connections == 2


async def test_a_read_is_repeated_on_a_new_connection_and_not_on_another_idle_one():
    """A node that restarts, or drops idle connections, drops all: the second attempt would meet the next closed one."""

    async def close_fourth(exchange: Exchange) -> None:
        if exchange.number == 3:
            exchange.writer.close()
        else:
            await exchange.send(exchange.response())

    async with scene(close_fourth) as (node, client):
        await asyncio.gather(*(client.call("getSlot", b"[]", CLASS_TIMEOUT_MS) for _ in range(3)))
        kept = [connection for connection, _ in client._connections._idle]
        assert len(kept) == node.connections == 3
        assert (await client.call("getSlot", b"[]", CLASS_TIMEOUT_MS)).kind is AnswerKind.RESULT
        assert node.connections == 4 and client._connections._take_idle() not in kept


async def test_a_body_that_turns_out_malformed_is_garbage_at_once():
    """Threat 15: nobody waits until his time is up for what is known to be broken."""
    chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n" + RESULT[:5] + b"\r\n"
    told = asyncio.Event()

    async def malformed(exchange: Exchange) -> None:
        await exchange.send(chunked)
        await told.wait()
        await exchange.send(b"zz\r\nno chunk\r\n")
        await exchange.hang()

    async with scene(malformed) as (node, client):
        asyncio.get_running_loop().call_later(0.05, told.set)  # Once the head is being read from.
        answer = await client.call("getSlot", b"[]", CLASS_TIMEOUT_MS)
        assert (answer.kind, len(node.exchanges)) == (AnswerKind.GARBAGE, 1)


@pytest.mark.threat(15)
async def test_an_answer_in_crumbs_is_garbage_before_it_keeps_this_side_busy():
    """Threat 15: 256 kB of chunks of a byte each, in one read, held the event loop for 15 ms. A node that sends its
    answer in chunks of a few hundred bytes is understood."""
    loop = asyncio.get_running_loop()
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    for size, count in ((1, 40_000), (200, 1_200)):
        connection, transport, reading = kept_connections._asked(loop)
        fed: list[int] = []
        feed = connection._parser.feed_data
        connection._parser = Counted(feed, fed)
        connection.data_received(head)
        message, payload = kept_connections._received(reading)
        assert message.chunked
        connection.data_received(b"%x\r\n%b\r\n" % (size, b"x" * size) * count)
        assert max(fed) <= kept_connections._SLICE_BYTES
        is_taken = size > 1
        assert (payload.exception() is None, transport.ended) == (is_taken, not is_taken)
        if is_taken:
            assert payload.total_bytes == size * count
        else:
            assert sum(fed) <= len(head) + kept_connections._SLICE_BYTES
        connection.close()


@pytest.mark.threat(15)
async def test_crumbs_behind_a_full_body_are_parsed_some_at_a_time():
    """Threat 15: the parser stops where a body is full, and takes what came with it later, in one go. It stops again by
    itself, before it holds the event loop for 5 ms. What an honest node sends so arrives whole, in its order."""
    loop = asyncio.get_running_loop()
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    full = b"f" * 270_000
    for chunks in ([b"%d" % number * 2_000 for number in range(100, 200)], [b"c"] * 40_000):
        connection, _, reading = kept_connections._asked(loop)
        sent = head + b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in (full, *chunks))
        for start in range(0, len(sent), 1 << 18):  # As uvloop reads.
            connection.data_received(sent[start : start + (1 << 18)])
        _, payload = kept_connections._received(reading)
        found, most = b"", 0
        while payload._buffer:
            before = len(payload._http_chunk_splits)
            found += payload.read_nowait()
            most = max(most, len(payload._http_chunk_splits) - before)
        assert found == full + b"".join(chunks) and most <= 8_192
        connection.close()


async def test_a_send_is_not_repeated_when_its_kept_connection_was_closed():
    """Nobody knows whether the node had it: the caller is told, and nothing is sent twice."""

    async with scene(close_second) as (node, client):
        assert (await client.call("sendTransaction", b'["a"]', CLASS_TIMEOUT_MS)).kind is AnswerKind.RESULT
        answer = await client.call("sendTransaction", b'["b"]', CLASS_TIMEOUT_MS)
        assert answer.kind is AnswerKind.UNREACHABLE
        assert answer is not replies.NOT_SENT
        assert len(node.exchanges) == 2


async def test_a_send_takes_a_connection_that_was_used_just_now_or_a_new_one(monkeypatch):
    """One that has been idle may be closed by the node in the very moment of the send; a read would be repeated."""
    async with scene() as (node, client):
        for method in ("getSlot", "sendTransaction"):
            await client.call(method, b"[]", CLASS_TIMEOUT_MS)
        assert node.connections == 1
        monkeypatch.setattr(kept_connections, "_KEPT_SECONDS", -1.0)  # As if it had been idle for longer.
        await client.call("sendTransaction", b"[]", CLASS_TIMEOUT_MS)
        assert node.connections == 2


@pytest.mark.threat(47)
async def test_interim_answers_are_passed_over_and_never_without_end():
    """Threat 47: "100 Continue" is no answer; a node may say it a few times, and switches to no protocol."""
    interim = b"HTTP/1.1 100 Continue\r\n\r\n"

    async def answer(exchange: Exchange) -> None:
        match exchange.number:
            case 0:
                await exchange.send(interim * 3 + exchange.response())
            case 1:
                await exchange.send(interim * 100)
                await exchange.hang()
            case 2:
                await exchange.send(b"HTTP/1.1 101 Go\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n")
                await exchange.hang()

    async with scene(answer) as (node, client):
        kinds = [(await client.call("getSlot", b"[]", CLASS_TIMEOUT_MS)).kind for _ in range(3)]
        assert kinds == [AnswerKind.RESULT, AnswerKind.GARBAGE, AnswerKind.GARBAGE]
        assert node.connections == 2


@pytest.mark.threat(47)
async def test_an_answer_to_half_a_request_is_none():
    """Threat 47: what answers before it has read cannot have answered this; the rest is sent to nobody."""
    heads = 0

    async def answer_at_the_head(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal heads
        await reader.readuntil(b"\r\n\r\n")
        heads += 1
        writer.write(response(b'{"jsonrpc":"2.0","error":{"code":413,"message":"too large"},"id":1}', status=b"413 No"))
        with contextlib.suppress(ConnectionError):
            await reader.read(1)
            await asyncio.Event().wait()

    server = await asyncio.start_server(answer_at_the_head, "127.0.0.1", 0, limit=1 << 10)
    client = NodeClient(UpstreamConfig(), f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
    for _ in range(2):
        answer = await client.call("sendTransaction", b'["' + b"x" * (16 << 20) + b'"]', CLASS_TIMEOUT_MS)
        assert answer.kind is AnswerKind.UNREACHABLE
        assert answer is not replies.NOT_SENT
    assert heads == 2
    await client.close()
    server.close()


def test_this_aiohttp_is_as_known():
    """Else every deployment pays a connection for each call."""
    loop = asyncio.new_event_loop()
    kept_connections._check_aiohttp(loop)
    loop.close()


@pytest.mark.parametrize(
    ("owner", "name", "replacement"),
    [
        (ResponseHandler, "set_response_params", None),
        (ResponseHandler, "should_close", True),
        (StrictConnection, "data_received", ResponseHandler.data_received),
        (StrictConnection, "set_exception", ResponseHandler.set_exception),
        (ResponseHandler, "read", None),
    ],
)
async def test_an_aiohttp_that_does_otherwise_is_noticed_before_it_is_used(monkeypatch, owner, name, replacement):
    """A name that is gone, bytes that are kept, readers that are not told: each is a reason to do without it."""
    gone = property()  # Whoever looks is told that there is no such name.
    monkeypatch.setattr(owner, name, gone if replacement is None else replacement)
    with pytest.raises(UnsupportedAiohttp):
        KeptConnections(node_address("http://127.0.0.1:1"), 1)


async def test_a_pool_that_makes_other_connections_carries_no_request(caplog):
    """Where they are made is no public place: it is looked at with each, and the call goes another way."""
    client_module._warn_of_single_connections.cache_clear()
    async with scene() as (node, client):
        client._connections = kept = KeptConnections(node_address(node.url), 10)
        kept._connector._factory = partial(ResponseHandler, loop=asyncio.get_running_loop())
        answers = await asyncio.gather(*(client.call("sendTransaction", b"[]", CLASS_TIMEOUT_MS) for _ in range(3)))
        assert {answer.kind for answer in answers} == {AnswerKind.RESULT}
        assert len(node.exchanges) == 3
        assert caplog.text.count("every call to a node opens its own connection") == 1


@pytest.mark.threat(47)
async def test_a_second_answer_that_arrives_in_pieces_reaches_nobody():
    """Threat 47: its beginning comes with the first answer, its end as if it answered the next request."""

    async def in_pieces(exchange: Exchange) -> None:
        if exchange.number == 0:
            await exchange.send(exchange.response() + b"HTTP/1.1 200 OK\r\nx: ")
        elif exchange.number == 1:
            await exchange.send(exchange.response(b'{"jsonrpc":"2.0","result":"stolen","id":1}') + exchange.response())
        else:
            await exchange.send(exchange.response())

    async with scene(in_pieces) as (node, client):
        answers = [await client.call("getSlot", b"[]", CLASS_TIMEOUT_MS) for _ in range(3)]
        assert b'"ok"' == answers[0].value() == answers[2].value()
        assert not answers[1].answered or answers[1].value() != b'"ok"'
        assert node.connections == 2
