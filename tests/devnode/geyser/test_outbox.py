"""The queue of a subscriber: order, limits, the end."""

import asyncio
import logging

import pytest

from devnode.geyser.outbox import Ended, Outbox
from devnode.geyser.refusals import BROKEN, LAGGED_SENDING, SHUTTING_DOWN


async def rest(outbox: Outbox) -> list[bytes]:
    return [await outbox.next() for _ in range(len(outbox))]


async def test_both_parts_are_joined_and_kept_in_order() -> None:
    """The first update in is the first out."""
    outbox = Outbox()
    outbox.put(b"a", b"1")
    outbox.put(b"", b"2")
    assert await rest(outbox) == [b"a1", b"2"]


async def test_waiting_ends_with_the_next_update() -> None:
    """A put wakes the task that waits in `next`."""
    outbox = Outbox()
    waiting = asyncio.create_task(outbox.next())
    await asyncio.sleep(0)
    assert not waiting.done()
    outbox.put(b"a", b"")
    assert await waiting == b"a"


@pytest.mark.parametrize("bounds", [{"updates_max": 2}, {"bytes_max": 8}], ids=["updates", "bytes"])
async def test_a_slow_subscriber_gets_the_queue_and_then_the_end(bounds: dict[str, int]) -> None:
    """All updates before the limit are sent, none after it."""
    outbox = Outbox(**bounds)
    for number in range(5):
        outbox.put(b"upd", b"%d" % number)
    assert await rest(outbox) == [b"upd0", b"upd1"]
    with pytest.raises(Ended) as ended:
        await outbox.next()
    assert ended.value.end == LAGGED_SENDING


async def test_sent_updates_do_not_count() -> None:
    """The limit applies to queued updates only."""
    outbox = Outbox(updates_max=1, bytes_max=4)
    for _ in range(5):
        outbox.put(b"abc", b"d")
        assert await outbox.next() == b"abcd"
    assert not outbox.is_ended


async def test_replayed_updates_do_not_count() -> None:
    """The limit applies to the updates behind a replay."""
    outbox = Outbox(updates_max=2, bytes_max=8)
    for number in range(10):
        outbox.put_replayed(b"", b"%d" % number)
    outbox.put(b"", b"x")
    outbox.put(b"", b"y")
    assert not outbox.is_ended
    outbox.put(b"", b"z")
    assert outbox.is_ended
    assert b"".join(await rest(outbox)) == b"0123456789xy"


async def test_reading_replayed_updates_frees_no_space() -> None:
    """They did not count, so sending them allows no more live updates."""
    outbox = Outbox(updates_max=1, bytes_max=1)
    outbox.put_replayed(b"", b"long ago")
    outbox.put(b"", b"x")
    assert await outbox.next() == b"long ago"
    outbox.put(b"", b"y")
    assert outbox.is_ended
    assert await rest(outbox) == [b"x"]


async def test_the_first_end_counts() -> None:
    """The first reason is kept, because an end can cause other errors."""
    outbox = Outbox()
    outbox.end(SHUTTING_DOWN)
    outbox.end(LAGGED_SENDING)
    outbox.put(b"", b"late")
    outbox.put_replayed(b"", b"late")
    with pytest.raises(Ended) as ended:
        await outbox.next()
    assert ended.value.end == SHUTTING_DOWN


async def test_a_failed_task_ends_the_stream(caplog: pytest.LogCaptureFixture) -> None:
    """A subscriber does not wait for ever after a task failed, and the log has the exception."""

    async def broken() -> None:
        raise ValueError("a defect")

    outbox = Outbox()
    task = asyncio.create_task(broken())
    outbox.end_on_failure(task)
    with caplog.at_level(logging.ERROR, logger="devnode"), pytest.raises(Ended) as ended:
        await outbox.next()
    assert ended.value.end == BROKEN
    assert "a defect" in caplog.text


async def test_a_cancelled_task_does_not_end_the_stream() -> None:
    """A replay is cancelled whenever another one starts."""
    outbox = Outbox()
    task = asyncio.create_task(asyncio.sleep(60))
    outbox.end_on_failure(task)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await asyncio.sleep(0)
    assert not outbox.is_ended
