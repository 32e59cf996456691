"""Floods of frames on one WebSocket: they are counted as they are parsed, and the loop belongs to others too."""

import asyncio
import struct

import pytest
from websockets.frames import Frame, Opcode
from websockets.server import ServerProtocol

from actors.http_server import websocket
from actors.http_server.websocket import text_frame
from tests.http_server.test_websocket import MASK, close_code, connected, frame

SLICE_FRAMES_MAX = -(-websocket.SLICE_BYTES // len(frame(10)))


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[Opcode]:
    """The kind of each frame that any connection has parsed."""
    kinds: list[Opcode] = []
    take = ServerProtocol.recv_frame

    def recv_frame(self: ServerProtocol, frame: Frame) -> None:
        kinds.append(frame.opcode)
        take(self, frame)

    monkeypatch.setattr(ServerProtocol, "recv_frame", recv_frame)
    return kinds


@pytest.mark.parametrize(
    "flood",
    [frame(10), frame(9), frame(10, b"x" * 125), frame(0, b"x", fin=False), frame(0, fin=False)],
    ids=["empty pongs", "empty pings", "long pongs", "fragments of one byte", "empty fragments"],
)
@pytest.mark.threat(59)
async def test_frames_behind_the_limit_are_not_parsed(flood: bytes, parsed: list[Opcode]) -> None:
    """A megabyte of them is dropped; the client sees 4003."""
    async with connected(per_second_max=200, message_bytes_max=1 << 20) as (line, handler, _):
        begin = frame(1, fin=False) if flood[0] & 0x0F == 0 else b""
        await line.says(begin + flood * ((1 << 20) // len(flood)), pause_seconds=0)
        assert close_code(await line.hears()) == 4003 and handler.ends == 1
        # The frames may come in two seconds.
        assert 200 < len(parsed) <= 2 * 200 + SLICE_FRAMES_MAX
        assert handler.socket.has_broken_a_rule


@pytest.mark.threat(59)
async def test_a_client_that_was_told_of_the_end_has_the_same_limit(parsed: list[Opcode]) -> None:
    async with connected(per_second_max=200) as (line, handler, _):
        await line.says(frame(1, b"x"))
        handler.socket.close(1000, "done")
        await line.says(frame(10) * 100_000, pause_seconds=0)
        assert close_code(await line.hears()) == 1000 and not handler.socket.has_broken_a_rule
        assert len(parsed) <= 2 * 200 + SLICE_FRAMES_MAX


@pytest.mark.threat(59)
async def test_many_frames_leave_the_loop_to_others(parsed: list[Opcode]) -> None:
    """Only so many are taken in one turn, and nothing is read meanwhile; all arrive in the end, in order."""
    async with connected() as (line, handler, _):
        await line.says(frame(1, b"x"))
        await line.hears(until=text_frame(b"1"))
        parsed.clear()
        handler.socket.data_received(b"".join(frame(1, b"%d" % number) for number in range(1_000)) + frame(1, b"en"))
        seen = -1
        while handler.texts[-1] != b"en":
            assert len(parsed) - max(seen, 0) <= websocket.FRAMES_AT_ONCE + SLICE_FRAMES_MAX
            assert len(parsed) > seen and not handler.socket._transport.is_reading()
            seen = len(parsed)
            await asyncio.sleep(0)
        assert handler.texts[1:] == [*(b"%d" % number for number in range(1_000)), b"en"]
        assert handler.socket._transport.is_reading()


async def test_a_large_message_leaves_the_loop_to_others() -> None:
    async with connected(message_bytes_max=1 << 20) as (line, handler, _):
        await line.says(frame(1, b"x"))
        await line.hears(until=text_frame(b"1"))
        head = b"\x81\xff" + struct.pack(">Q", 1 << 20) + MASK
        handler.socket.data_received(head + b"x" * (1 << 20))
        taken = len(handler.socket._protocol.reader.buffer)
        assert 0 < taken <= websocket.SLICES_AT_ONCE * websocket.SLICE_BYTES
        assert text_frame(b"%d" % (1 << 20)) in await line.hears(until=text_frame(b"%d" % (1 << 20)))


async def test_a_handler_that_wants_no_more_gets_no_more_than_one_slice() -> None:
    """What has arrived waits, also when the connection was full meanwhile."""
    async with connected() as (line, handler, _):
        await line.says(frame(1, b"x"))
        await line.hears(until=text_frame(b"1"))
        handler.socket.pause_reading()
        handler.socket.data_received(frame(1, b"y") * 500)
        handler.socket.pause_writing()
        handler.socket.resume_writing()
        await asyncio.sleep(0)
        assert len(handler.texts) == 1 and not handler.socket._transport.is_reading()
        handler.socket.resume_reading()
        await asyncio.sleep(0)
        handler.socket.pause_reading()
        assert len(handler.texts) <= 1 + 2 * SLICE_FRAMES_MAX
        handler.socket.resume_reading()
        while len(handler.texts) < 501:  # noqa: ASYNC110  # The rest comes turn by turn.
            await asyncio.sleep(0)


@pytest.mark.threat(59)
async def test_a_client_that_goes_on_after_a_breach_is_read_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket, "DROPPED_BYTES_MAX", 10_000)
    async with connected(per_second_max=200) as (line, handler, connections):
        sending = asyncio.create_task(line.says(*[frame(10) * 10_000] * 100, pause_seconds=0))
        async with asyncio.timeout(5):
            await handler.over.wait()
        await asyncio.sleep(0)
        while handler.socket._transport.is_reading():  # noqa: ASYNC110  # A transport tells nobody.
            await asyncio.sleep(0)
        async with asyncio.timeout(10):
            await connections.gone.wait()
        sending.cancel()
