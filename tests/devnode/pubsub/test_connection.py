import asyncio

import pytest

from devnode.pubsub.connection import Connection


async def test_texts_leave_in_order() -> None:
    """A reply is sent before its notifications, and a slot before the next slot."""
    connection = Connection()
    connection.offer("a")
    connection.offer("b")
    assert [await connection.next(), await connection.next()] == ["a", "b"]


async def test_a_waiting_sender_wakes() -> None:
    """The sender sleeps while there is nothing to send."""
    connection = Connection()
    waiting = asyncio.create_task(connection.next())
    await asyncio.sleep(0)
    assert not waiting.done()
    connection.offer("a")
    assert await waiting == "a"


@pytest.mark.parametrize(("messages_max", "characters_max"), [(2, 1_000), (1_000, 20)])
async def test_a_slow_reader_is_cut_off(messages_max: int, characters_max: int) -> None:
    """With too many or too long texts in the queue, the connection ends and the queue is dropped at once."""
    connection = Connection(messages_max, characters_max)
    connection.offer("0123456789")
    connection.offer("0123456789")
    assert not connection.is_cut
    connection.offer("x")
    assert connection.is_cut
    await connection.ended()
    connection.offer("y")
    assert not connection._queue and connection._characters == 0


async def test_sent_texts_do_not_count() -> None:
    """The limits apply to queued texts only."""
    connection = Connection(messages_max=1, characters_max=10)
    for _ in range(100):
        connection.offer("0123456789")
        assert await connection.next() == "0123456789"
    assert not connection.is_cut


async def test_the_hub_can_cut_a_connection() -> None:
    """The hub cuts all connections when it has missed events itself."""
    connection = Connection()
    ended = asyncio.create_task(connection.ended())
    await asyncio.sleep(0)
    assert not ended.done()
    connection.cut()
    connection.cut()
    await ended
