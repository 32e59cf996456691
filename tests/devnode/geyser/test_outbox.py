"""What waits for a subscriber: order, bounds, the end."""

import asyncio
import logging

import pytest

from actors.devnode.geyser.outbox import Ended, Outbox
from actors.devnode.geyser.refusals import BROKEN, LAGGED_SENDING, SHUTTING_DOWN


async def rest(outbox: Outbox) -> list[bytes]:
    return [await outbox.next() for _ in range(len(outbox))]


async def test_both_parts_come_as_one_in_order() -> None:
    """First in, first out."""
    outbox = Outbox()
    outbox.put(b"a", b"1")
    outbox.put(b"", b"2")
    assert await rest(outbox) == [b"a1", b"2"]


async def test_waiting_ends_with_the_next_update() -> None:
    """A writer that waits is woken."""
    outbox = Outbox()
    waiting = asyncio.create_task(outbox.next())
    await asyncio.sleep(0)
    assert not waiting.done()
    outbox.put(b"a", b"")
    assert await waiting == b"a"


@pytest.mark.parametrize("bounds", [{"updates_max": 2}, {"bytes_max": 8}], ids=["updates", "bytes"])
async def test_a_slow_subscriber_gets_what_waits_and_then_the_end(bounds: dict[str, int]) -> None:
    """Nothing in between is missing, and nothing comes after."""
    outbox = Outbox(**bounds)
    for number in range(5):
        outbox.put(b"upd", b"%d" % number)
    assert await rest(outbox) == [b"upd0", b"upd1"]
    with pytest.raises(Ended) as ended:
        await outbox.next()
    assert ended.value.end == LAGGED_SENDING


async def test_what_was_read_makes_room() -> None:
    """The bound is on what waits, not on what was ever sent."""
    outbox = Outbox(updates_max=1, bytes_max=4)
    for _ in range(5):
        outbox.put(b"abc", b"d")
        assert await outbox.next() == b"abcd"
    assert not outbox.is_ended


async def test_a_replay_is_not_bounded_but_what_follows_it_is() -> None:
    """It was asked for; the present is measured by itself."""
    outbox = Outbox(updates_max=2, bytes_max=8)
    for number in range(10):
        outbox.put_replayed(b"", b"%d" % number)
    outbox.put(b"", b"x")
    outbox.put(b"", b"y")
    assert not outbox.is_ended
    outbox.put(b"", b"z")
    assert outbox.is_ended
    assert b"".join(await rest(outbox)) == b"0123456789xy"


async def test_room_is_counted_rightly_after_a_replay() -> None:
    """Reading replayed updates gives no room for more of the present."""
    outbox = Outbox(updates_max=1, bytes_max=1)
    outbox.put_replayed(b"", b"long ago")
    outbox.put(b"", b"x")
    assert await outbox.next() == b"long ago"
    outbox.put(b"", b"y")
    assert outbox.is_ended
    assert await rest(outbox) == [b"x"]


async def test_the_first_end_counts() -> None:
    """Why a stream ended is not overwritten by what its end brings about."""
    outbox = Outbox()
    outbox.end(SHUTTING_DOWN)
    outbox.end(LAGGED_SENDING)
    outbox.put(b"", b"late")
    outbox.put_replayed(b"", b"late")
    with pytest.raises(Ended) as ended:
        await outbox.next()
    assert ended.value.end == SHUTTING_DOWN


async def test_a_broken_task_ends_the_stream(caplog: pytest.LogCaptureFixture) -> None:
    """A subscriber does not wait for ever for something that broke, and the log says what it was."""

    async def broken() -> None:
        raise ValueError("a defect")

    outbox = Outbox()
    task = asyncio.create_task(broken())
    outbox.follow(task)
    with caplog.at_level(logging.ERROR, logger="devnode"), pytest.raises(Ended) as ended:
        await outbox.next()
    assert ended.value.end == BROKEN
    assert "a defect" in caplog.text


async def test_a_cancelled_task_ends_nothing() -> None:
    """A replay gives way to another one all the time."""
    outbox = Outbox()
    task = asyncio.create_task(asyncio.sleep(60))
    outbox.follow(task)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await asyncio.sleep(0)
    assert not outbox.is_ended
