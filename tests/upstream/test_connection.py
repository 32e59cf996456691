import asyncio

import pytest

from actors.upstream.connection import AnswerMalformed, AnswerTooLarge, ConnectionBroken, NodeConnection

LATER = 1e9  # Loop time that no test reaches.
WHOLE = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Wire(asyncio.Transport):
    """What the connection wrote, and whether it hung up."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.aborted = self.closed = False

    def write(self, data):
        self.written += data

    def abort(self):
        self.aborted = True

    def close(self):
        self.closed = True


def connected() -> tuple[NodeConnection, Wire]:
    connection, wire = NodeConnection(answer_bytes_max=100), Wire()
    connection.connection_made(wire)
    return connection, wire


async def test_an_answer_in_single_bytes_is_the_same_answer():
    """How TCP cuts the bytes means nothing."""
    connection, wire = connected()
    future = connection.exchange(b"request", LATER)
    for byte in WHOLE:
        connection.data_received(bytes((byte,)))
    assert await future == (200, b"ok")
    assert wire.written == b"request"
    assert connection.usable


async def test_connection_close_ends_the_connection_with_the_answer():
    """A node that says close is believed."""
    connection, wire = connected()
    future = connection.exchange(b"", LATER)
    connection.data_received(WHOLE.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"))
    assert await future == (200, b"ok")
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
