"""The queue of one client."""

import asyncio

import pytest

from actors.streams.yellowstone import ends as geyser_ends
from actors.streams.yellowstone.outbox import GeyserOutbox, StreamEnded
from actors.streams.yellowstone.queues import GeyserQueues


async def test_updates_leave_in_order_and_then_the_end() -> None:
    outbox = GeyserOutbox(10, 1_000)
    outbox.put(1, b"a", b"b")
    outbox.put(2, b"", b"c")
    outbox.end(geyser_ends.SHUTTING_DOWN)
    outbox.put(3, b"", b"late")
    assert [await outbox.next(), await outbox.next()] == [b"ab", b"c"]
    with pytest.raises(StreamEnded) as ended:
        await outbox.next()
    assert ended.value.end is geyser_ends.SHUTTING_DOWN


@pytest.mark.parametrize(("updates", "size"), [(3, 1_000_000), (1_000, 30)])
@pytest.mark.threat(30)
async def test_a_full_queue_is_dropped_and_names_the_last_slot(updates: int, size: int) -> None:
    """Threat 30: bounded by number and by bytes; what waited is let go of, and the end says where to go on."""
    outbox = GeyserOutbox(updates, size)
    hurried: list[bool] = []
    outbox.on_end = lambda end, is_hurried: hurried.append(is_hurried)
    outbox.put(7, b"", b"x" * 10)
    await outbox.next()
    for slot in range(8, 20):
        outbox.put(slot, b"", b"x" * 10)
    assert outbox.is_ended and outbox.waiting_bytes == 0 and hurried == [True]
    with pytest.raises(StreamEnded, match=r"lagged to send an update.*last slot sent is 7.*from_slot 7") as ended:
        await outbox.next()
    assert ended.value.end.code == geyser_ends.RESOURCE_EXHAUSTED


async def test_one_update_may_be_larger_than_the_queue() -> None:
    """A block: alone it is sent, and what comes behind it waits for it."""
    outbox = GeyserOutbox(10, 100)
    outbox.put(1, b"", b"x" * 1_000)
    assert not outbox.is_ended and len(await outbox.next()) == 1_000


async def test_an_end_at_once_leaves_nothing_to_send() -> None:
    """A revoked key gets no further update."""
    outbox = GeyserOutbox(10, 100)
    waiting = asyncio.create_task(outbox.next())
    await asyncio.sleep(0)
    outbox.put(1, b"", b"one")
    outbox.put(2, b"", b"two")
    outbox.end(geyser_ends.BROKEN, at_once=True)
    with pytest.raises(StreamEnded):
        await waiting


async def test_what_a_client_that_is_gone_had_waiting_is_counted_no_more() -> None:
    """Nor what its reader kept, nor what comes late."""
    queues = GeyserQueues(1_000, 1_000)
    outbox = GeyserOutbox(10, 100, queues, b"account")
    for slot in range(3):
        outbox.put(slot, b"", b"x" * 10)
    assert outbox.keep(5) and queues.bytes == 25
    await outbox.next()
    assert queues.bytes == 15
    outbox.close()
    outbox.put(4, b"", b"late")
    assert queues.bytes == 5 and not outbox.keep(-5)
    assert (queues.bytes, queues.accounts, outbox.waiting_bytes) == (0, 0, 0)
