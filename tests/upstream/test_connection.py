import asyncio

import pytest

from actors.upstream.connection import AnswerMalformed, AnswerTooLarge, ConnectionBroken, NodeConnection
from actors.upstream.room import LARGE_BYTES, Room

LATER = 1e9  # Loop time that no test reaches.
WHOLE = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Wire(asyncio.Transport):
    """What the connection wrote, and whether it hung up."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.aborted = self.closed = self.paused = False

    def write(self, data):
        self.written += data

    def abort(self):
        self.aborted = True

    def close(self):
        self.closed = True

    def is_closing(self):
        return self.closed or self.aborted

    def pause_reading(self):
        self.paused = True

    def resume_reading(self):
        self.paused = False


def connected() -> tuple[NodeConnection, Wire]:
    connection, wire = NodeConnection(100, Room(1 << 20)), Wire()
    connection.connection_made(wire)
    return connection, wire


async def test_an_answer_in_single_bytes_is_the_same_answer():
    """How TCP cuts the bytes means nothing."""
    connection, wire = connected()
    future = connection.exchange(b"request", LATER)
    for byte in WHOLE:
        connection.data_received(bytes((byte,)))
    assert await future == (200, b"ok", None)
    assert wire.written == b"request"
    assert connection.usable


async def test_connection_close_ends_the_connection_with_the_answer():
    """A node that says close is believed."""
    connection, wire = connected()
    future = connection.exchange(b"", LATER)
    connection.data_received(WHOLE.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"))
    assert await future == (200, b"ok", None)
    assert not connection.usable
    assert wire.closed


async def test_bytes_that_nobody_asked_for_end_the_connection():
    """An idle connection that speaks cannot be trusted with the next call."""
    connection, wire = connected()
    connection.data_received(WHOLE)
    assert not connection.usable
    assert wire.aborted


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 101\r\n\r\n", AnswerTooLarge),
        (b"HTTP/1.1 200 OK\r\ncontent-length: %b\r\n\r\n" % (b"9" * 4000), Exception),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n65\r\n" + b"x" * 101, AnswerTooLarge),
        (b"HTTP/1.1 200 OK\r\ncontent-encoding: br\r\ncontent-length: 2\r\n\r\nok", AnswerMalformed),
        (b"\x16\x03\x01", AnswerMalformed),
    ],
)
async def test_what_breaks_the_rules_fails_the_exchange_and_the_connection(sent, error):
    """Size, encoding and form are judged as the bytes come in."""
    connection, wire = connected()
    future = connection.exchange(b"", LATER)
    connection.data_received(sent)
    with pytest.raises(error):
        await future
    assert not connection.usable
    assert wire.aborted


async def test_a_broken_connection_says_whether_an_answer_had_begun():
    """Only an untouched exchange may be tried again elsewhere."""
    for sent, untouched in ((b"", True), (b"HTTP/1.1 2", False)):
        connection, _ = connected()
        future = connection.exchange(b"", LATER)
        if sent:
            connection.data_received(sent)
        connection.connection_lost(None)
        with pytest.raises(ConnectionBroken) as caught:
            await future
        assert caught.value.untouched is untouched


async def test_an_orderly_end_in_mid_body_is_no_answer():
    """A length that was promised and not kept is a broken connection, however politely it ended."""
    connection, _ = connected()
    future = connection.exchange(b"", LATER)
    connection.data_received(WHOLE[:-1])
    connection.connection_lost(None)
    with pytest.raises(ConnectionBroken):
        await future


async def test_time_runs_out():
    """At the given loop time the exchange fails and the connection is dropped."""
    connection, wire = connected()
    future = connection.exchange(b"", 0.0)
    with pytest.raises(TimeoutError):
        await future
    assert wire.aborted
    assert not connection.usable


async def test_a_large_answer_is_read_on_when_there_is_room():
    """Announced: before its body is read. Not announced: as it grows, each time by as much again."""
    for head, end in (
        (b"content-length: %d\r\n\r\n" % (2 * LARGE_BYTES), b""),
        (b"transfer-encoding: chunked\r\n\r\n%x\r\n" % (2 * LARGE_BYTES), b"\r\n0\r\n\r\n"),
    ):
        room, wire = Room(16 * LARGE_BYTES), Wire()
        connection = NodeConnection(16 * LARGE_BYTES, room)
        connection.connection_made(wire)
        assert room.claim(15 * LARGE_BYTES, lambda: None)
        future = connection.exchange(b"", LATER)
        connection.data_received(b"HTTP/1.1 200 OK\r\n" + head + b"x" * (LARGE_BYTES + 1))
        assert wire.paused
        room.give_back(15 * LARGE_BYTES)
        assert not wire.paused
        connection.data_received(b"x" * (LARGE_BYTES - 1) + end)
        status, body, lease = await future
        assert (status, len(body)) == (200, 2 * LARGE_BYTES)
        assert room.bytes_free < room.bytes_max
        del lease, future
        assert room.bytes_free == room.bytes_max
