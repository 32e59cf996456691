"""One WebSocket connection, spoken to in bytes: limits, pings, closing."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import pytest
from websockets.frames import Frame, Opcode

from actors.http_server import websocket
from actors.http_server.backlog import Backlog
from actors.http_server.unfinished_messages import UnfinishedMessages
from actors.http_server.websocket import WebSocket, text_frame
from tests.raw_sockets import Line

MASK = b"\x00\x00\x00\x00"


class Handler:
    """Answers each text with its length."""

    def __init__(self) -> None:
        self.texts: list[bytes] = []
        self.ends = 0
        self.socket: Any = None
        self.over = asyncio.Event()
        self.is_busy = False

    def opened(self, socket: WebSocket) -> None:
        self.socket = socket

    def message(self, text: bytes) -> None:
        self.texts.append(text)
        self.socket.send_text(b"%d" % len(text))

    def writable(self) -> None: ...

    def closed(self) -> None:
        self.ends += 1
        self.over.set()


class Connections(set[Any]):
    """Of a server; `gone` once one has left it."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()

    def discard(self, connection: Any) -> None:
        super().discard(connection)
        self.gone.set()


@contextlib.asynccontextmanager
async def connected(
    per_second_max: int = 1_000_000,
    backlog: Backlog | None = None,
    unfinished: UnfinishedMessages | None = None,
    owner: bytes = b"owner",
    message_bytes_max: int = 1_000,
) -> AsyncIterator[tuple[Line, Handler, Connections]]:
    handler, connections, backlog = Handler(), Connections(), backlog or Backlog(1 << 30)
    resize = partial((unfinished or UnfinishedMessages(1 << 30, 1 << 30)).resize, owner)
    server = await asyncio.get_running_loop().create_server(
        lambda: WebSocket(handler, message_bytes_max, per_second_max, connections, backlog, resize), "127.0.0.1", 0
    )
    line = Line(server.sockets[0].getsockname()[1])
    yield line, handler, connections
    line.close()
    server.close()


def frame(opcode: int, data: bytes = b"", fin: bool = True, masked: bool = True) -> bytes:
    head = bytes([(0x80 if fin else 0) | opcode])
    flag, size = 0x80 if masked else 0, len(data)
    length = bytes([flag | size]) if size < 126 else bytes([flag | 126]) + struct.pack(">H", size)
    return head + length + (MASK if masked else b"") + data


def close_code(said: bytes) -> int:
    """Of the close frame that ends what was said."""
    at = said.rindex(b"\x88")
    return int.from_bytes(said[at + 2 : at + 4], "big")


@pytest.mark.parametrize(
    ("bytes_sent", "code"),
    [
        (frame(1, b"hi", masked=False), 1002),
        (b"\xc1\x80" + MASK, 1002),  # A reserved bit.
        (frame(0, b"x"), 1002),  # A continuation of nothing.
        (b"\x81\xff" + struct.pack(">Q", 64 << 20) + MASK, 1009),  # Refused at its head: 64 MB are never read.
        (frame(1, b"x" * 600, fin=False) + frame(0, b"x" * 600), 1009),
        (frame(1, b"\xff\xfe"), 1007),
        (frame(8, struct.pack(">H", 1000)), 1000),
    ],
)
@pytest.mark.threat(30)
async def test_every_breach_has_its_close_code(bytes_sent: bytes, code: int) -> None:
    """And what follows is still read, so that the client sees the code and no reset."""
    async with connected() as (line, handler, connections):
        await line.says(bytes_sent, *[frame(1, b"x" * 900) * 10] * 20, pause_seconds=0)
        assert close_code(await line.hears()) == code
        assert handler.ends == 1
        line.close()
        async with asyncio.timeout(5):
            await connections.gone.wait()


async def test_messages_and_fragments_arrive_whole() -> None:
    """Text and binary are messages alike; a ping gets its pong."""
    async with connected() as (line, handler, _):
        await line.says(frame(1, b"ab"), frame(1, b"c", fin=False), frame(9, b"p"), frame(0, b"de"), frame(2, b"fghi"))
        said = await line.hears(until=b"\x8a\x01p")
        if text_frame(b"4") not in said:
            said += await line.hears(until=text_frame(b"4"))
        assert handler.texts == [b"ab", b"cde", b"fghi"]
        assert said.replace(b"\x8a\x01p", b"") == text_frame(b"2") + text_frame(b"3") + text_frame(b"4")


@pytest.mark.threat(30)
async def test_a_flood_of_messages_is_closed_with_4003() -> None:
    """Control frames count too."""
    async with connected(per_second_max=50) as (line, handler, _):
        await line.says(*[frame(1, b"x") * 40 + frame(9) * 40] * 3, pause_seconds=0)
        assert close_code(await line.hears()) == 4003
        assert len(handler.texts) <= 100 and handler.ends == 1


@pytest.mark.threat(30)
async def test_a_client_that_answers_no_ping_is_closed_after_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half-open connections end; one that answers stays."""
    monkeypatch.setattr(websocket, "PING_SECONDS", 0.02)
    async with connected() as (line, handler, _):
        said = await line.hears()
        assert said.count(b"\x89\x00") == 2 and close_code(said) == 1011 and handler.ends == 1
    async with connected() as (line, handler, _):
        for _ in range(6):
            await line.hears(until=b"\x89\x00")
            await line.says(frame(10))
        assert handler.ends == 0


@pytest.mark.threat(30)
async def test_a_client_that_never_reads_costs_little_and_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """The handler sees that it is full; after the close nothing waits for the client for ever."""
    monkeypatch.setattr(websocket, "LINGER_SECONDS", 0.05)
    monkeypatch.setattr(websocket, "TAKING_SECONDS_MAX", 0.1)
    async with connected() as (line, handler, connections):
        await filled(line, handler)
        handler.socket.close(1013, "too slow")
        async with asyncio.timeout(5):
            await connections.gone.wait()


async def filled(line: Line, handler: Handler) -> None:
    """Write to a client that reads nothing, until its connection is full."""
    await line.says(frame(1, b"x"))
    written = 0
    while not handler.socket.is_full:
        handler.socket.send_text(b"x" * 10_000)
        written += 1
        await asyncio.sleep(0)
    assert written < 2_000


async def test_a_client_that_reads_again_sees_the_close_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has some seconds to take what was written before the close frame."""
    monkeypatch.setattr(websocket, "LINGER_SECONDS", 0.05)
    async with connected() as (line, handler, connections):
        await filled(line, handler)
        handler.socket.close(1013, "too slow")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await connections.gone.wait()
        assert close_code(await line.hears()) == 1013


async def test_a_slow_client_with_a_large_answer_is_no_silent_one() -> None:
    """Its pongs are not read while it is full; what it takes between two pings shows that it lives."""
    async with connected() as (line, handler, _):
        await line.says(frame(1, b"x"))
        await line.hears(until=text_frame(b"1"))
        web_socket = handler.socket
        transport = web_socket._transport
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)
        web_socket.send_text(b"x" * (12 << 20))
        for _ in range(5):
            taken = web_socket.taken_bytes
            while web_socket.taken_bytes < taken + websocket.BUFFERED_BYTES_MAX:
                assert await asyncio.get_running_loop().sock_recv(line._socket, 1 << 18)
                await asyncio.sleep(0)
            web_socket._ping()
        assert web_socket.is_full and handler.ends == 0
        for _ in range(3):
            web_socket._ping()
        assert handler.ends == 1


@pytest.mark.threat(30)
async def test_answers_that_nobody_takes_are_bounded_over_all_connections() -> None:
    """The client with the most is let go, at once and alone, however little each of the others takes."""
    backlog = Backlog(8 << 20)
    async with connected(backlog=backlog) as (small, few, _), connected(backlog=backlog) as (large, many, gone):
        await filled(small, few)
        await filled(large, many)
        for _ in range(100):
            many.socket.send_text(b"x" * 100_000)
        assert many.ends == 1 and few.ends == 0
        assert backlog._total == few.socket._transport.get_write_buffer_size()
        async with asyncio.timeout(5):
            await gone.gone.wait()
        assert (await small.hears(until=text_frame(b"1"))).startswith(text_frame(b"1"))
        few.socket.close(1000, "done")
        await small.hears()
    assert backlog._total == 0


@pytest.mark.parametrize("is_fragmented", [False, True])
@pytest.mark.threat(30)
async def test_unfinished_messages_are_bounded_over_all_connections(
    is_fragmented: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection whose message does not fit is closed with 1013, whether it lacks frames or a part of one. Small
    messages need no room. There is room again when a message is complete, and when its client has left."""
    monkeypatch.setattr(websocket, "LINGER_SECONDS", 0.05)
    unfinished = UnfinishedMessages(110_000, 60_000)
    begun, rest = frame(1, b"x" * 50_000)[:-1], b"x"
    if is_fragmented:
        begun, rest = frame(1, b"x" * 49_999, fin=False), frame(0, b"x")
    async with contextlib.AsyncExitStack() as stack, asyncio.timeout(20):

        async def opened(owner: bytes) -> tuple[Line, Handler, Connections]:
            socket = connected(unfinished=unfinished, owner=owner, message_bytes_max=100_000)
            return await stack.enter_async_context(socket)

        (first, at_first, _), (second, _, second_connections) = await opened(b"a"), await opened(b"b")
        for line in (first, second):
            await line.says(begun)
        await until(lambda: unfinished.bytes > 99_000)
        for owner in (b"a", b"c"):  # Of the first the account has no room, of the second the process.
            line, handler, _ = await opened(owner)
            await line.says(begun, rest, *[frame(1, b"x")] * 3, pause_seconds=0)
            assert close_code(await line.hears()) == 1013
            assert handler.texts == [] and handler.ends == 1
        assert unfinished.owners == 2
        line, _, _ = await opened(b"c")
        await line.says(frame(1, b"x" * 500)[:-1], b"x")
        assert await line.hears(until=b"500") == text_frame(b"500")
        await first.says(rest)
        assert await first.hears(until=b"50000") == text_frame(b"50000")
        second.close()
        await second_connections.gone.wait()
        assert (unfinished.bytes, unfinished.owners, at_first.ends) == (0, 0, 0)


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 - a connection tells nobody what it has read.
        await asyncio.sleep(0)


async def test_empty_fragments_are_not_kept() -> None:
    """A message that never ends costs no memory by fragments of no length."""
    async with connected() as (line, handler, _):
        await line.says(frame(1, b"a", fin=False), *[frame(0, b"", fin=False)] * 50, frame(9, b"p"))
        await line.hears(until=b"\x8a\x01p")
        assert handler.socket._fragments == b"a"
        await line.says(frame(0, b"b"), frame(1, b""))
        await line.hears(until=text_frame(b"0"))
        assert handler.texts == [b"ab", b""]


@pytest.mark.parametrize("is_closed", [False, True])
@pytest.mark.threat(30)
async def test_pings_of_a_client_that_never_reads_cost_little(is_closed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each ping would add a pong: no more is read while the connection is full, and after the end none is answered."""
    monkeypatch.setattr(websocket, "LINGER_SECONDS", 60.0)
    async with connected() as (line, handler, _):
        await line.says(frame(1, b"x"))
        await line.hears(until=text_frame(b"1"))
        transport = handler.socket._transport
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)
        if is_closed:
            handler.socket.close(1000, "done")
        sending = asyncio.create_task(line.says(*[frame(9, b"p" * 125) * 400] * 200, frame(1, b"xy"), pause_seconds=0))
        async with asyncio.timeout(60):
            while not handler.socket.is_full and not sending.done():  # noqa: ASYNC110  # A transport tells nobody.
                await asyncio.sleep(0)
        assert transport.get_write_buffer_size() < 1_000_000
        assert is_closed or not transport.is_reading()
        if is_closed:
            line.close()
            assert transport.get_write_buffer_size() == 0
        else:  # Once the client reads, it is heard again.
            assert text_frame(b"2") in await line.hears(until=text_frame(b"2"))
        await sending


async def test_what_is_written_after_the_end_goes_nowhere() -> None:
    """A close is the last word."""
    async with connected() as (line, handler, _):
        await line.says(frame(1, b"x"))
        handler.socket.close(1000, "done")
        handler.socket.close(1011, "again")
        handler.socket.send_text(b"late")
        await line.says(frame(8, struct.pack(">H", 1000)))
        assert close_code(await line.hears()) == 1000


@pytest.mark.parametrize("size", [0, 125, 126, 65_535, 65_536])
def test_frames_are_those_of_the_standard(size: int) -> None:
    """A client's library reads what is encoded here."""
    assert text_frame(b"x" * size) == Frame(Opcode.TEXT, b"x" * size).serialize(mask=False)


async def test_a_connection_that_leaves_waits_for_its_handler_and_takes_nothing_more() -> None:
    """1012 comes when the last message is answered; once, however often it is told."""
    async with connected() as (line, handler, _):
        handler.is_busy = True
        await line.says(frame(1, b"ab"))
        await line.hears(until=text_frame(b"2"))
        handler.socket.leave(1012, "restart")
        handler.socket.leave(1001, "another")
        await line.says(frame(1, b"abc"))
        handler.socket.idle()
        assert handler.socket.is_open and handler.texts == [b"ab"]
        handler.is_busy = False
        handler.socket.idle()
        assert close_code(await line.hears()) == 1012
        assert handler.texts == [b"ab"] and handler.ends == 1


async def test_the_end_of_the_server_is_told_as_a_restart() -> None:
    async with connected() as (line, _, connections):
        await line.says(frame(1, b"ab"))
        await line.hears(until=text_frame(b"2"))
        for connection in list(connections):
            connection.shutdown()
        assert close_code(await line.hears()) == 1012
