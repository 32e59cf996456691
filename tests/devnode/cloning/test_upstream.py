"""Reading another node: what its answers may be, and nodes that misbehave over real HTTP."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import orjson
import pytest
from solders.account import Account
from solders.pubkey import Pubkey

from devnode.cloning import upstream as upstream_module
from devnode.cloning.upstream import HttpUpstream, TooMuch, Unusable, UpstreamError, origin_of, read_answer

OWNER = Pubkey.from_bytes(b"\x09" * 32)


def answer(*values: object) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0", "id": 1, "result": {"context": {"slot": 5}, "value": list(values)}})


def shown(**changed: object) -> dict[str, object]:
    data = [base64.b64encode(b"abc").decode(), "base64"]
    return {"lamports": 7, "owner": str(OWNER), "executable": False, "data": data, "rentEpoch": 0} | changed


def test_accounts_are_read_and_become_rent_exempt() -> None:
    first, second, third = read_answer(answer(shown(), None, shown(lamports=0)), 3)
    assert first == Account(7, b"abc", OWNER, False, 2**64 - 1)
    assert second is third is None, "without lamports there is no account"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"lamports": -1}, "lamports"),
        ({"lamports": 2**64}, "lamports"),
        ({"lamports": True}, "lamports"),
        ({"lamports": "7"}, "lamports"),
        ({"owner": "no"}, "owner"),
        ({"owner": None}, "owner"),
        ({"executable": 1}, "executable"),
        ({"data": "abc"}, "not base64"),
        ({"data": ["abc", "base58"]}, "not base64"),
        ({"data": ["a$%c", "base64"]}, "not valid base64"),
        ({"data": ["abc", "base64"]}, "not valid base64"),
        ({"data": [5, "base64"]}, "not base64"),
        ({"data": [base64.b64encode(bytes(10 * 2**20 + 1)).decode(), "base64"]}, "larger than"),
    ],
)
def test_one_bad_account_does_not_spoil_the_others(changed: dict[str, object], said: str) -> None:
    values = json.dumps({"id": 1, "result": {"value": [shown(**changed), shown()]}}).encode()
    bad, good = read_answer(values, 2)
    assert isinstance(bad, Unusable) and said in bad.reason
    assert isinstance(good, Account)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no JSON",
        b"[]",
        b"5",
        b'{"id": 1}',
        b'{"id": 1, "result": null}',
        b'{"id": 1, "result": {"value": 5}}',
        b'{"id": 2, "result": {"value": [null]}}',
        b'{"id": 1, "result": {"value": []}}',
        b'{"id": 1, "result": {"value": [null, null]}}',
    ],
)
def test_an_answer_to_something_else_is_refused_whole(body: bytes) -> None:
    with pytest.raises(UpstreamError):
        read_answer(body, 1)


def test_an_error_of_the_node_is_told_in_short() -> None:
    with pytest.raises(UpstreamError) as caught:
        read_answer(orjson.dumps({"id": 1, "error": {"code": -1, "message": "slow\n\x1b[31m" + "x" * 9_999}}), 1)
    assert str(caught.value).startswith("it refused: slow??[31mxxx") and len(str(caught.value)) < 250
    with pytest.raises(UpstreamError, match="it refused: without a reason"):
        read_answer(b'{"error": "?"}', 1)


def test_a_url_is_shown_without_its_secrets() -> None:
    assert origin_of("https://user:word@node.example:8899/key/abc?api-key=1") == "https://node.example:8899"
    assert origin_of("http://[::1]:8899") == "http://[::1]:8899"
    for text in ("", "node.example", "ftp://x", "http://", "http://x:99999999"):
        with pytest.raises(ValueError):
            origin_of(text)


Answerer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(answers: Answerer) -> AsyncIterator[HttpUpstream]:
    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            await answers(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(one, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    upstream = HttpUpstream(f"http://127.0.0.1:{port}/?api-key=secret")
    try:
        yield upstream
    finally:
        await upstream.close()
        server.close()


def plain(head: bytes, body: bytes = b"") -> Answerer:
    async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head + b"content-length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()

    return answers


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        (plain(b"HTTP/1.1 500 Oops\r\n"), "it answered HTTP 500"),
        (plain(b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\n"), "it answered HTTP 302"),
        (plain(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n", b"\x1f\x8b"), "not JSON"),
        (plain(b"no HTTP at all\r\n"), "it cannot be reached"),
    ],
)
async def test_a_node_that_answers_otherwise(answers: Answerer, said: str) -> None:
    """Redirects are not followed, and compressed answers are not opened."""
    async with serving(answers) as upstream:
        with pytest.raises(UpstreamError, match=said) as caught:
            await upstream.accounts([OWNER])
    assert "secret" not in str(caught.value)


async def test_an_answer_without_an_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream_module, "ANSWER_BYTES_MAX", 1_000_000)
    sent = 0

    async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(bytes(100_000))
            sent += 100_000
            await writer.drain()

    async with serving(answers) as upstream:
        with pytest.raises(TooMuch):
            await upstream.accounts([OWNER])
    assert sent < 20_000_000


async def test_a_node_that_is_not_there() -> None:
    upstream = HttpUpstream("http://127.0.0.1:1")
    with pytest.raises(UpstreamError, match=r"it cannot be reached \(ClientConnector"):
        await upstream.accounts([OWNER])
    await upstream.close()
