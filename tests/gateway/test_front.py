"""HAProxy and the door read the same requests out of any bytes: generated streams, played through both.

A few hundred streams in a usual run. `FRONT_STREAMS=20000 python -m pytest tests/gateway/test_front.py` plays more; the
seed of a failure is printed and can be given again with --hypothesis-seed.
"""

import asyncio
import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.framings import FRAMINGS, ID, KEY, Framing

from .front import HOP, QUIET_SECONDS, Answers, Client, Counting, Echo, Front, speak, standing

STREAMS = int(os.environ.get("FRONT_STREAMS", "300"))
_AGREE_SECONDS = 2.0
_PATIENCE = 100.0  # Times as long as usually, when a stream is played again.

SMUGGLED = (
    b"POST /rpc HTTP/1.1\r\nhost: a\r\nx-api-key: attacker\r\nx-front-id: forged\r\ncontent-length: 5\r\n\r\nstolen"
)
OPEN_TRAILERS = b"POST /rpc HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nx: "
UPGRADE = b"connection: upgrade\r\nupgrade: x"
BODIES = (b"", b"abc", b"0\r\n\r\n", SMUGGLED, OPEN_TRAILERS, b"\r\n" + SMUGGLED, b"x" * 70_000)
METHODS = (
    b"POST",
    b"POST",
    b"POST",
    b"GET",
    b"HEAD",
    b"PUT",
    b"OPTIONS",
    b"DELETE",
    b"CONNECT",
    b"PRI",
    b"post",
    b"G@T",
)
TARGETS = (
    b"/",
    b"/rpc",
    b"/rpc?x=1",
    b"/pricing",
    b"//",
    b"http://a/",
    b"http://b/rpc",
    b"*",
    b"a:1",
    b"/%0d%0a",
    b"/#x",
)
VERSIONS = (b"HTTP/1.1",) * 6 + (b"HTTP/1.0", b"HTTP/2.0", b"HTTP/0.9", b"HTTP/1.2", b"HTTP/1.10", b"http/1.1")
HEADERS = (
    *(b"x-api-key: attacker", b"x-forwarded-for: 9.9.9.9", b"x-front-id: forged", b"accept: */*"),
    *(b"connection: close", b"connection: keep-alive", b"connection: content-length", b"connection: transfer-encoding"),
    *(UPGRADE, UPGRADE, b"connection: Upgrade\r\nupgrade: websocket", b"upgrade: h2c", b"connection: upgrade"),
    b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAARAAAAAAAIAAAAA",
    b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZQ==",
    *(b"expect: 100-continue", b"expect: x", b"trailer: x-api-key", b"te: trailers", b"host: b", b"host:"),
    *(b"x-fold: 1\r\n 2", b" x: 1", b"x : 1", b": 1", b"x", b"x:", b"x-nul: \x00", b"x-high: \xff", b"x\xff: 1"),
    *(b"x-cr: a\rb", b"x-lf: a\nx-second: b", b"x-long: " + b"a" * 9_000, b"x-longer: " + b"a" * 20_000),
    *(b"proxy-connection: close", b"keep-alive: timeout=1", b"content-encoding: gzip", b"x-http-method-override: GET"),
)
# How the head says where the body ends: `%d` is the true length.
LENGTHS = (
    *(b"content-length: %d", b"content-length: %d\r\ncontent-length: %d", b"content-length: %d, %d", b""),
    *(
        b"content-length: +%d",
        b"content-length: 0x%d",
        b"content-length: %d ",
        b"content-length:\t%d",
        b"Content-Length : %d",
    ),
    *(b"content-length: 1", b"content-length: 100", b"content-length: 0", b"content-length: -1", b"content-length: a"),
    b"content-length: 99999999999999999999999",
)
CODINGS = (
    *(
        b"transfer-encoding: chunked",
        b"Transfer-Encoding: Chunked",
        b"transfer-encoding: identity",
        b"transfer-encoding:",
    ),
    *(b"transfer-encoding: gzip, chunked", b"transfer-encoding: chunked, identity", b"transfer-encoding: xchunked"),
    *(b"transfer-encoding: chunked\r\ntransfer-encoding: chunked", b"transfer-encoding:\x0bchunked"),
    *(b'transfer-encoding: "chunked"', b"transfer-encoding\r\n : chunked", b"transfer-encoding: chunked;x=1"),
    *(b"transfer-encoding: chunked\r\ncontent-length: %d", b"content-length: %d\r\ntransfer-encoding: chunked"),
)
TRAILERS = (
    *(b"", b"", b"x-api-key: victim\r\n", b"x-forwarded-for: 9.9.9.9\r\n", b"content-length: 5\r\n", b"x: 1\r\n 2\r\n"),
    *(b"transfer-encoding: chunked\r\nhost: b\r\n", b"x: " + b"a" * 9_000 + b"\r\n", b"x", b"x-front-id: forged\r\n"),
)
SIZES = (
    b"%x",
    b"%X",
    b"0%x",
    b"%x;a=b",
    b"%x ",
    b"+%x",
    b"0x%x",
    b"%x\r",
    b"000000000000000000%x",
    b"%x;" + b"a" * 300,
)
NOISE = (b"\r\n", b"\n", b"\r", b" ", b"\x00", b"0\r\n\r\n", b":", b"\r\n\r\n", b"\t", b"GET ", SMUGGLED, b"\xff")


def chunked(body: bytes, size: bytes, trailers: bytes) -> bytes:
    chunk = size % len(body) + b"\r\n" + body + b"\r\n" if body else b""
    return chunk + b"0\r\n" + trailers + b"\r\n"


@dataclass
class Parts:
    """Of one request: a sound one until oddities have been put in."""

    method: bytes = b"POST"
    target: bytes = b"/"
    version: bytes = b"HTTP/1.1"
    length: bytes = b"content-length: %d"
    size: bytes = b""  # Of a chunk; empty: the body does not come in chunks.
    trailers: bytes = b""
    headers: tuple[bytes, ...] = ()

    def made(self, body: bytes) -> bytes:
        length = self.length.replace(b"%d", b"%d" % len(body))
        if self.size:
            body = chunked(body, self.size, self.trailers)
        lines = (b" ".join((self.method, self.target, self.version)), b"host: a", *self.headers, length)
        return b"".join(line + b"\r\n" for line in lines if line) + b"\r\n" + body


def _values(name: str, values: Sequence[bytes]) -> st.SearchStrategy[dict[str, Any]]:
    return st.sampled_from(values).map(lambda value: {name: value})


_CODED = st.builds(
    lambda length, size, trailers: {"length": length, "size": size, "trailers": trailers},
    st.sampled_from(CODINGS[:1] * 8 + CODINGS),
    st.sampled_from(SIZES[:1] * 8 + SIZES),
    st.sampled_from(TRAILERS),
)
_HEADERS = st.lists(st.sampled_from(HEADERS), min_size=1, max_size=2).map(lambda lines: {"headers": tuple(lines)})
ODDITIES = st.one_of(
    *(_CODED, _HEADERS, _HEADERS, _values("length", LENGTHS), _values("method", METHODS)),
    *(_values("target", TARGETS), _values("version", VERSIONS)),
)


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """One request with at most two things odd about it."""
    odd: dict[str, Any] = {}
    for oddity in draw(st.lists(ODDITIES, max_size=2)):
        odd |= oddity
    return Parts(**odd).made(draw(st.sampled_from(BODIES)))


@st.composite
def streams(draw: st.DrawFn) -> list[bytes]:
    """All that a client sends over one connection, in the pieces in which it sends it."""
    sent = b"".join(draw(st.lists(requests(), min_size=1, max_size=3)))
    for noise in draw(st.one_of(st.just([]), st.just([]), st.lists(st.sampled_from(NOISE), max_size=2))):
        at = draw(st.integers(0, min(len(sent), 600)))
        removed = draw(st.sampled_from((0, 0, 1, 2, 5)))
        sent = sent[:at] + noise + sent[at + removed :]
    cuts = sorted(draw(st.lists(st.integers(0, min(len(sent), 600)), max_size=2)))
    return [sent[start:end] for start, end in zip([0, *cuts], [*cuts, len(sent)], strict=True)]


class Stage:
    """Front, door and an honest client, kept for many streams."""

    def __init__(self, runner: asyncio.Runner, front: Front, echo: Echo) -> None:
        self.runner, self.front, self.echo = runner, front, echo
        self.client = Client(front.port, b"honest")
        self.ids: set[str] = set()
        self.unsent = 0  # Requests that HAProxy gave up before it sent them.

    async def play(self, pieces: list[bytes], is_http2: bool = False, patience: float = 1.0) -> None:
        before = len(self.echo.seen)
        said, writer = await speak(self.front.port, pieces, quiet_seconds=QUIET_SECONDS * patience)
        try:
            sent, got = await self.client.asks()
        except (AssertionError, OSError, TimeoutError, asyncio.IncompleteReadError) as error:
            self.client.close()
            raise AssertionError("the next client was not answered") from error
        finally:
            writer.transport.abort()
        assert (got["body"], got["keys"]) == (sent, ["honest"]), "the next client got the answer to another request"
        for seen in self.echo.seen[before:]:
            self._is_one_of_the_fronts(seen)
        others = {seen["ids"][0] for seen in self.echo.seen[before:]} - set(got["ids"])
        answered = [found for body in Answers(said).bodies for found in _ids(body)]
        assert set(answered) <= others and len(set(answered)) == len(answered), "an answer went to somebody else"
        await self._agree()
        if is_http2:  # Not every request of HTTP/2 can be said in HTTP/1.1; HAProxy counts it all the same.
            self.unsent = self.front.forwarded() - Counting.begun
        more = self.front.forwarded() - Counting.begun - self.unsent
        if more > 0 and patience == 1.0:
            # On a busy machine this client may leave before the front has passed on what it counted: once more, slowly.
            self.unsent += more
            await self.play(pieces, patience=_PATIENCE)
            return
        assert more == 0, "one reads more requests than the other"

    def _is_one_of_the_fronts(self, seen: dict[str, Any]) -> None:
        assert len(seen["ids"]) == 1 and seen["ids"][0].startswith(self.front.secret), (
            f"no request of the front's: {seen}"
        )
        assert seen["ids"][0] not in self.ids, f"one request came twice: {seen}"
        self.ids.add(seen["ids"][0])
        (names,) = seen["front_names"]
        at_front = sorted(name for name in names.lower().split(",") if name and name not in {*HOP, "x-front-id"})
        assert at_front == seen["names"], f"the front sent other headers: {seen}"

    async def _agree(self) -> None:
        """Wait until both have read all that was sent."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_AGREE_SECONDS):
                while self.front.forwarded() != Counting.begun + self.unsent:  # noqa: ASYNC110
                    await asyncio.sleep(0.005)


def _ids(body: bytes) -> list[str]:
    return [body.split(b'"')[3].decode()] if body.startswith(b'{"ids": ["') else []


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with asyncio.Runner() as runner:
        standing_now = standing()
        front, echo = runner.run(standing_now.__aenter__())
        Counting.begun = front.forwarded()
        stage = Stage(runner, front, echo)
        yield stage
        stage.client.close()
        runner.run(standing_now.__aexit__(None, None, None))


@settings(max_examples=STREAMS, suppress_health_check=list(HealthCheck))
@given(pieces=streams())
@pytest.mark.threat(45, 46)
def test_front_and_door_read_the_same_requests(stage: Stage, pieces: list[bytes]) -> None:
    """Threats 45 and 46: as many requests, with the headers that the front sent, each answered to the client
    who asked; and the next client is served."""
    stage.runner.run(stage.play(pieces))


@pytest.mark.parametrize("framing", FRAMINGS, ids=lambda framing: framing.name)
@pytest.mark.threat(45, 46)
def test_known_framings_cross_nothing(stage: Stage, framing: Framing) -> None:
    """Threats 45 and 46: the same of every framing in the table that the whole product is shown to bear."""
    stage.runner.run(stage.play(framing.pieces(b"A" * len(KEY), b"1" * len(ID)), framing.is_http2))
