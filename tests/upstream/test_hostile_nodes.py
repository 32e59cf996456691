"""Threats 15 and 47: nodes that answer somebody else, not whole, or with a word that is not theirs to say."""

from collections.abc import Callable

import pytest

from actors.upstream.replies import AnswerKind

from .nodes import RESULT, Exchange, response
from .test_client import CLASS_TIMEOUT_MS, scene

pytestmark = pytest.mark.usefixtures("way")

TEXT = b'"' + b"x" * 300_000 + b'"'  # As a result it makes an answer of which the two ends are looked at alone.
LAYOUTS: dict[str, Callable[[bytes], bytes]] = {
    "id last": lambda id: b'{"jsonrpc":"2.0","result":"for another","id":%b}' % id,
    "id first": lambda id: b'{"jsonrpc":"2.0","id":%b,"result":"for another"}' % id,
    "another order": lambda id: b'{"id": %b, "result": "for another", "jsonrpc": "2.0"}' % id,
    "an error": lambda id: b'{"jsonrpc":"2.0","error":{"code":-32002,"message":"for another"},"id":%b}' % id,
    "large, id last": lambda id: b'{"jsonrpc":"2.0","result":%b,"id":%b}' % (TEXT, id),
    "large, id first": lambda id: b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (id, TEXT),
    "large, another order": lambda id: b'{"id":%b,"jsonrpc":"2.0","result":%b}' % (id, TEXT),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.threat(47)
async def test_the_answer_to_another_request_is_nobodys(layout):
    """Threat 47: a late answer is known by its id, wherever that is, and its connection is not used again."""
    first = b""

    async def late(exchange: Exchange) -> None:
        nonlocal first
        first = first or exchange.id
        await exchange.send(response(LAYOUTS[layout](exchange.id if exchange.number == 2 else first)))

    async with scene(late) as (node, client):
        answers = [await client.call("sendTransaction", b"[]", CLASS_TIMEOUT_MS) for _ in range(3)]
        assert [answer.answered for answer in answers] == [True, False, True]
        assert answers[1].kind is AnswerKind.GARBAGE
        assert len({exchange.writer for exchange in node.exchanges[1:]}) == 2


@pytest.mark.parametrize("version", [b"HTTP/1.0", b"HTTP/1.1"])
@pytest.mark.parametrize("kept", [b"", b"connection: keep-alive\r\n", b"transfer-encoding: gzip\r\n"])
@pytest.mark.threat(47)
async def test_an_answer_without_length_is_not_whole(version, kept):
    """Threat 47: only a length or chunks tell a whole body from one that was cut."""

    async def until_the_end(exchange: Exchange) -> None:
        body = RESULT.replace(b"1}", exchange.id + b"}")
        await exchange.send(version + b" 200 OK\r\n" + kept + b"\r\n" + body)
        exchange.writer.close()

    async with scene(until_the_end) as (node, client):
        assert (await client.call("getSlot", b"[]", CLASS_TIMEOUT_MS)).kind is AnswerKind.GARBAGE
        assert len(node.exchanges) == 1


@pytest.mark.threat(47)
async def test_an_answer_cut_at_a_brace_is_not_whole():
    """Threat 47: the ends of a large answer look right wherever its middle ends in a brace."""

    async def cut(exchange: Exchange) -> None:
        body = b'{"jsonrpc":"2.0","id":%b,"result":{"a":%b}' % (exchange.id, TEXT)
        if exchange.number == 0:
            await exchange.send(b"HTTP/1.1 200 OK\r\n\r\n" + body)
        elif exchange.number == 1:
            await exchange.send(response(body + b"}")[:-1])
        else:
            await exchange.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n%x\r\n" % len(body) + body)
        exchange.writer.close()

    async with scene(cut) as (_, client):
        kinds = [(await client.call("getBlock", b"[5]", CLASS_TIMEOUT_MS)).kind for _ in range(3)]
        assert kinds == [AnswerKind.GARBAGE, AnswerKind.UNREACHABLE, AnswerKind.UNREACHABLE]


ERROR = b'{"jsonrpc":"2.0","error":{"code":401,"message":"no such key"},"id":1}'


@pytest.mark.parametrize("body", [RESULT, ERROR, b"busy"], ids=["result", "error", "page"])
@pytest.mark.parametrize("status", [201, 206, 301, 302, 303, 307, 308, 401, 402, 403, 407])
@pytest.mark.threat(47)
async def test_a_door_that_sends_us_elsewhere_or_away_is_no_answer(status, body):
    """Threat 47: redirects are not followed, and a no to our own key is no customer's answer, whatever it
    carries."""

    async def door(exchange: Exchange) -> None:
        location = b"location: " + node.url.encode()
        await exchange.send(exchange.response(body, location, status=b"%d Door" % status))

    async with scene(door) as (node, client):
        assert (await client.call("getSlot", b"[]", CLASS_TIMEOUT_MS)).kind is AnswerKind.UNREACHABLE
        assert len(node.exchanges) == 1


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, ERROR, AnswerKind.ERROR),
        (404, ERROR, AnswerKind.ERROR),
        (500, ERROR, AnswerKind.ERROR),
        (400, RESULT, AnswerKind.UNREACHABLE),
        (503, RESULT, AnswerKind.UNREACHABLE),
        (503, b"busy", AnswerKind.UNREACHABLE),
    ],
)
async def test_a_result_comes_with_status_200_alone(status, body, kind):
    """Errors come with others too, as some providers do; a result that says it failed is neither."""

    async def answer(exchange: Exchange) -> None:
        await exchange.send(exchange.response(body, status=b"%d No" % status))

    async with scene(answer) as (_, client):
        assert (await client.call("getSlot", b"[]", CLASS_TIMEOUT_MS)).kind is kind


@pytest.mark.parametrize(
    "framing",
    [
        (b"content-length: %d", b"content-length: %d"),
        (b"content-length: %d", b"content-length: 5"),
        (b"content-length: %d, %d",),
        (b"content-length: %d", b"transfer-encoding: chunked"),
        (b"transfer-encoding: chunked", b"content-length: %d"),
        (b"content-length : %d",),
    ],
)
@pytest.mark.threat(47)
async def test_a_body_whose_length_is_said_twice_is_no_answer(framing):
    """Threat 47: two lengths are two opinions of where the next answer begins."""

    async def ambiguous(exchange: Exchange) -> None:
        body = RESULT.replace(b"1}", exchange.id + b"}")
        lines = [line.replace(b"%d", b"%d" % len(body)) for line in framing]
        await exchange.send(b"\r\n".join([b"HTTP/1.1 200 OK", *lines, b"", b""]) + body)

    async with scene(ambiguous) as (_, client):
        assert (await client.call("getSlot", b"[]", CLASS_TIMEOUT_MS)).kind is AnswerKind.GARBAGE
