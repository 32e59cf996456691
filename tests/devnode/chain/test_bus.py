import asyncio

import pytest

from devnode.chain.bus import Bus, Closed, Lagged, SlotConfirmed, SlotFinalized, SlotOpened


async def test_events_arrive_in_order_and_by_kind() -> None:
    bus = Bus()
    subscription = bus.subscribe(SlotConfirmed, SlotFinalized)
    assert bus.wants(SlotConfirmed) and not bus.wants(SlotOpened)
    bus.publish(SlotConfirmed(1))
    bus.publish(SlotOpened(2, 1))
    bus.publish(SlotFinalized(1))
    assert [await subscription.next(), await subscription.next()] == [SlotConfirmed(1), SlotFinalized(1)]


async def test_a_waiting_reader_wakes() -> None:
    bus = Bus()
    subscription = bus.subscribe(SlotConfirmed)
    reader = asyncio.create_task(subscription.next())
    await asyncio.sleep(0)
    bus.publish(SlotConfirmed(5))
    assert await reader == SlotConfirmed(5)


async def test_a_slow_subscription_is_cut_off_and_raises_lagged() -> None:
    """A slow reader uses bounded memory, does not affect others, and cannot miss events without knowing."""
    bus = Bus()
    slow, other = bus.subscribe(SlotConfirmed, capacity=2), bus.subscribe(SlotConfirmed)
    for slot in range(4):
        bus.publish(SlotConfirmed(slot))
    with pytest.raises(Lagged):
        await slow.next()
    with pytest.raises(Lagged):
        slow.drain()
    assert len(other.drain()) == 4


async def test_a_closed_subscription_hears_nothing_more() -> None:
    bus = Bus()
    subscription = bus.subscribe(SlotConfirmed)
    subscription.close()
    subscription.close()
    assert not bus.wants(SlotConfirmed)
    with pytest.raises(Closed):
        await subscription.next()


def test_a_node_that_lags_publishes_late_and_in_order() -> None:
    """Each event is delivered that many slots late; when the lag ends, all held events are delivered at once."""
    bus = Bus()
    heard = bus.subscribe(SlotOpened, SlotConfirmed)
    bus.hold(2, 10)
    bus.publish(SlotConfirmed(9))
    for slot in (11, 12):
        bus.publish(SlotOpened(slot, slot - 1))
    assert heard.drain() == [SlotConfirmed(9)]
    bus.publish(SlotOpened(13, 12))
    assert heard.drain() == [SlotOpened(11, 10)]
    bus.publish(SlotConfirmed(12))
    bus.hold(0, 13)
    assert heard.drain() == [SlotOpened(12, 11), SlotOpened(13, 12), SlotConfirmed(12)]
    bus.publish(SlotOpened(14, 13))
    assert heard.drain() == [SlotOpened(14, 13)]
