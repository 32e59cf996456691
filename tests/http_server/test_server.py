"""Threats 7, 45 and 46, on a real socket: what is refused, and that nothing behind it is read."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from functools import partial
from typing import Any, cast

import pytest
import uvicorn
from uvicorn.server import ServerState

from actors.http_server.exchange import Door, Doorway, HttpRequest
from actors.http_server.server import HEAD_BYTES_MAX, HttpServer
from tests import framings
from tests.framings import HIDDEN, HIDDEN_OPEN, Framing, chunks, heads, lengths, post, trailers, upgrades
from tests.raw_sockets import Line

_WEBSOCKET = b"\r\n".join(framings.WEBSOCKET)


class App:
    """Answers each request that came whole, and keeps it."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, list[tuple[bytes, bytes]], bytes]] = []
        self.begun = 0
        self.left = asyncio.Event()  # A request will not come whole.
        self.gate: asyncio.Event | None = None  # Holds answers back.

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.accept"})
            return
        self.begun += 1
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.left.set()
                return
            body, more = body + message["body"], message["more_body"]
        self.seen.append((scope["path"], scope["headers"], body))
        if self.gate is not None:
            await self.gate.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})


def sockets() -> Doorway:
    return Doorway(websocket_paths=frozenset((b"/ws",)))


@contextlib.asynccontextmanager
async def standing(app: App, entry: Doorway | None = None) -> AsyncIterator[int]:
    protocol: Any = partial(HttpServer, entry or sockets())
    config = uvicorn.Config(app, log_config=None, lifespan="off", http=protocol, access_log=False)
    config.load()
    state = ServerState()
    server = await asyncio.get_running_loop().create_server(lambda: protocol(config, state, {}), "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()
    for connection in list(state.connections):
        connection.transport.abort()
    for task in list(state.tasks):
        task.cancel()


@contextlib.asynccontextmanager
async def connected(app: App) -> AsyncIterator[Line]:
    async with standing(app) as port:
        line = Line(port)
        yield line
        line.close()


def is_refusal(said: bytes) -> bool:
    """One answer, the interface's body, and the end of the connection."""
    head, _, body = said.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ") and b"\r\nconnection: close" in head, said
    assert b"\r\ncontent-length: %d" % len(body) in head, said
    return bool(json.loads(body)["error"]["code"] == "INVALID_REQUEST")


def named(rows: list[Framing]) -> Any:
    return pytest.mark.parametrize("framing", rows, ids=lambda framing: framing.name)


# The front takes h2c out by itself, and takes GET for no upgrade; a server alone has to refuse them.
_REFUSED_HERE = [framing for framing in upgrades() if "HEAD" not in framing.name]


@named(_REFUSED_HERE)
@pytest.mark.threat(45)
async def test_an_upgrade_is_refused_and_nothing_behind_it_is_read(framing: Framing) -> None:
    """Threat 45: 400 and close; the bytes behind are never a request, and no application hears of it."""
    app = App()
    async with connected(app) as line:
        await line.says(*framing.pieces(b"K" * 53, b"1" * 12), HIDDEN)
        assert is_refusal(await line.hears())
    assert app.begun == 0


@pytest.mark.threat(45)
async def test_head_is_refused_without_a_body() -> None:
    """Threat 45: an answer to HEAD has none, or its body would be taken for the next answer."""
    async with connected(App()) as line:
        await line.says(post(b"connection: upgrade", b"upgrade: x", start=b"HEAD / HTTP/1.1"))
        said = await line.hears()
    assert said.startswith(b"HTTP/1.1 400 ") and said.endswith(b"\r\n\r\n")


@pytest.mark.threat(45)
async def test_a_websocket_is_served_where_it_is_offered() -> None:
    """Threat 45: paths of WebSockets are data. A body, another method or another path is refused, and a head
    that two servers may read differently (RFC 6455, 4.2.1)."""
    start = b"GET /ws?x=1 HTTP/1.1"
    app = App()
    async with connected(app) as line:
        await line.says(post(_WEBSOCKET, start=start, content=b""))
        assert (await line.hears(until=b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
    for refused in (
        post(_WEBSOCKET, b"content-length: %d", start=start),
        post(_WEBSOCKET, b"transfer-encoding: chunked", start=start, content=chunks()),
        post(_WEBSOCKET, start=b"POST /ws HTTP/1.1", content=b""),
        post(_WEBSOCKET, start=b"GET /ws/ HTTP/1.1", content=b""),
        post(_WEBSOCKET, start=b"GET /ws HTTP/1.0", content=b""),
        post(_WEBSOCKET.replace(b"websocket", b"websocket, h2c", 1), start=start, content=b""),
        post(_WEBSOCKET, b"connection: x", start=start, content=b""),
        post(_WEBSOCKET, b"upgrade: websocket", start=start, content=b""),
        post(_WEBSOCKET, b"content-length: 00", start=start, content=b""),
        post(_WEBSOCKET, b"content-length: 0", start=start, content=b""),
        post(_WEBSOCKET, b"expect: 100-continue", start=start, content=b""),
        post(_WEBSOCKET, b"host: a", start=start, content=b""),
        post(_WEBSOCKET, start=start, content=b"").replace(b"host: a\r\n", b""),
    ):
        async with connected(app) as line:
            await line.says(refused)
            assert is_refusal(await line.hears()), refused
    assert app.begun == 0


@named([framing for framing in heads() if " host" in framing.name])
async def test_a_request_has_one_host(framing: Framing) -> None:
    """RFC 9112, section 3.2: none under HTTP/1.1, or two, is 400 and close; other faults of it are not the server's."""
    app = App()
    async with connected(app) as line:
        await line.says(*framing.pieces(b"K" * 53, b"1" * 12))
        if "two" in framing.name or framing.name.endswith("no host"):
            assert is_refusal(await line.hears()) and app.begun == 0
        else:
            assert (await line.hears(b"ok")).startswith(b"HTTP/1.1 200 ") and app.begun == 1


@named([framing for framing in trailers() if "left open" not in framing.name])
@pytest.mark.threat(46)
async def test_trailers_are_refused(framing: Framing) -> None:
    """Threat 46: nothing after the head is a header, whatever its name; the application never sees the request
    whole."""
    app = App()
    async with connected(app) as line:
        await line.says(*framing.pieces(b"K" * 53, b"1" * 12), HIDDEN)
        assert is_refusal(await line.hears())
        async with asyncio.timeout(10):
            await app.left.wait()
    assert app.seen == []


@pytest.mark.parametrize("name", [b"x-api-key", b"x-forwarded-for"])
@pytest.mark.threat(46)
async def test_a_trailer_is_no_header_while_the_request_is_worked_on(name: bytes) -> None:
    """Threat 46: the headers that the application has are those of the head, also later."""
    app = App()
    async with connected(app) as line:
        await line.says(post(b"transfer-encoding: chunked", content=b"1\r\nx\r\n"), b"0\r\n%b: 1\r\n\r\n" % name)
        assert is_refusal(await line.hears())
    assert (app.begun, app.seen) == (1, [])


_AMBIGUOUS = {
    "length: coded, then counted",
    "length: counted, then coded",
    "length: coded twice",
    "length: chunked, then identity",
    "length: identity, then chunked",
    "length: compressed and chunked",
    "length: identity and counted",
    "length: an unknown coding",
    "length: twice",
    "length: twice the same",
    "length: a list",
    "length: with a sign",
    "length: beyond 64 bits",
}


@named([framing for framing in lengths() if framing.name in _AMBIGUOUS])
@pytest.mark.threat(7)
async def test_a_length_is_given_once_and_clearly(framing: Framing) -> None:
    """Threat 7."""
    app = App()
    async with connected(app) as line:
        await line.says(*framing.pieces(b"K" * 53, b"1" * 12), HIDDEN)
        assert is_refusal(await line.hears())
    assert app.seen == []


async def test_chunks_need_http_1_1() -> None:
    """Rule: a server of HTTP/1.0 would not know chunks, and read on at another place."""
    app = App()
    async with connected(app) as line:
        await line.says(post(b"transfer-encoding: chunked", start=b"POST / HTTP/1.0", content=chunks()))
        assert is_refusal(await line.hears())
    assert app.begun == 0


async def test_what_came_before_a_refusal_is_answered_first() -> None:
    """Rule: answers keep the order of the requests, refusals too; rubbish behind a call costs no answer."""
    app = App()
    app.gate = asyncio.Event()
    async with connected(app) as line:
        sound, odd = post(b"content-length: %d"), post(b"connection: upgrade", b"upgrade: x", b"content-length: %d")
        await line.says(sound + sound + odd, HIDDEN_OPEN)
        app.gate.set()
        said = await line.hears()
    assert said.count(b"HTTP/1.1 200 ") == 2
    assert is_refusal(said[said.index(b"HTTP/1.1 400 ") :])
    assert len(app.seen) == 2


async def test_a_request_that_waits_for_its_turn_is_not_begun_when_it_is_odd() -> None:
    """Rule: trailers are found when the request is queued behind another: that one is answered, this one refused."""
    app = App()
    app.gate = asyncio.Event()
    async with connected(app) as line:
        odd = post(b"transfer-encoding: chunked", content=chunks(trailers=b"x-api-key: 1\r\n"))
        await line.says(post(b"content-length: %d"), odd)
        app.gate.set()
        said = await line.hears()
    assert said.startswith(b"HTTP/1.1 200 ") and is_refusal(said[said.index(b"HTTP/1.1 400 ") :])
    assert (app.begun, len(app.seen)) == (1, 1)


async def test_nothing_is_read_behind_a_request_that_closes() -> None:
    """Rule: not one byte; another request there would be carried out, charged and never answered."""
    app = App()
    for closing in (
        post(b"connection: close", b"content-length: %d"),
        post(b"content-length: %d", start=b"POST / HTTP/1.0"),
    ):
        app.seen.clear()
        async with connected(app) as line:
            await line.says(closing + HIDDEN, HIDDEN)
            assert (await line.hears()).count(b"HTTP/1.1 ") == 1
        assert len(app.seen) == 1


_WITHOUT_END = {
    "a target": (b"GET /", b"a" * 1_024),
    "a value": (b"GET / HTTP/1.1\r\nx: ", b"a" * 1_024),
    "headers": (b"GET / HTTP/1.1\r\n", b"x: 1\r\n" * 170),
    "empty lines": (post(b"content-length: %d"), b"\r\n" * 512),
    "a chunk's extension": (post(b"transfer-encoding: chunked", content=b"1;x="), b"a" * 1_024),
    "a trailer": (post(b"transfer-encoding: chunked", content=b"1\r\nx\r\n0\r\nx: "), b"a" * 1_024),
}


@pytest.mark.parametrize("name", list(_WITHOUT_END))
async def test_a_part_without_an_end_is_refused(name: str) -> None:
    """Rule: memory is bounded: 100 kB of head, of extensions or of a trailer are not kept for anybody."""
    begun, more = _WITHOUT_END[name]
    async with connected(App()) as line:
        await line.says(begun)
        await line.says(*[more] * 100, pause_seconds=0)
        said = await line.hears()
    assert is_refusal(said[said.index(b"HTTP/1.1 400 ") :])


async def test_a_head_of_full_size_is_taken() -> None:
    """Rule: the limit is on the head, however it comes, and not on what comes with it."""
    app = App()
    async with connected(app) as line:
        await line.says(post(b"x: " + b"a" * (HEAD_BYTES_MAX - 200), b"content-length: %d", content=b"x" * 100_000))
        assert (await line.hears(until=b"ok")).startswith(b"HTTP/1.1 200 ")
        await line.says(post(b"x: " + b"a" * HEAD_BYTES_MAX, b"content-length: %d"))
        assert is_refusal(await line.hears())
    assert len(app.seen) == 1


async def test_a_mistake_of_ours_is_not_told_as_the_clients(caplog: pytest.LogCaptureFixture) -> None:
    """Rule: the parser takes every exception in its callbacks for a bad request; the log has it instead."""

    class Broken:
        def takes(self, request: HttpRequest) -> bool:
            raise AssertionError("an invariant is broken")

    async with standing(App(), Doorway(cast(Door, Broken()))) as port:
        line = Line(port)
        await line.says(post(b"content-length: %d"))
        assert await line.hears() == b""
        line.close()
    assert "an invariant is broken" in caplog.text


@pytest.mark.parametrize("target", [b"http://a", b"http://a?x=1", b"?x=1"])
async def test_a_target_without_a_path_is_refused(target: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """Threat 6: it is the client's mistake and not ours, so nobody writes errors into the log with it."""
    app = App()
    async with connected(app) as line:
        await line.says(post(start=b"GET " + target + b" HTTP/1.1", content=b""))
        assert is_refusal(await line.hears())
    assert app.begun == 0 and not caplog.text
