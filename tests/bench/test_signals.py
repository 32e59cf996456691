"""The measurement of signals: what its node sends is read as it is meant, and a wrong delivery is no figure."""

import asyncio
import time

import pytest

from actors.geyser_proto.geyser_pb2 import SubscribeUpdate
from actors.signals.classify import classify
from actors.signals.from_geyser import read_update
from bench.scenario import Wrong
from bench.signals import Subscriber, catch_up, check_complete, warm_up
from bench.streams import Goal
from bench.yellowstone_servers import THRESHOLD, Template, trade


def test_an_update_carries_its_time_and_is_a_signal() -> None:
    """A measurement of nothing would look fast; the quick writer writes what protobuf writes."""
    for lamports, count in ((THRESHOLD + 5, 1), (5, 0)):
        made = SubscribeUpdate.FromString(Template(7).filled(3, lamports))
        assert made == trade(7, 3, lamports)
        transaction = read_update(made.transaction.slot, made.transaction.transaction)
        assert transaction is not None
        events = classify(transaction, large_swap_lamports=THRESHOLD)
        assert [event.lamports for event in events] == [lamports] * count


def test_a_signal_that_is_missing_doubled_or_out_of_order_fails_the_measurement() -> None:
    check_complete([1, 2, 3], [[1, 2, 3], [1, 2, 3]])
    for wrong in ([1, 2], [1, 2, 2, 3], [2, 1, 3]):
        with pytest.raises(Wrong):
            check_complete([1, 2, 3], [[1, 2, 3], wrong])


async def test_late_subscribers_are_waited_for_and_dead_ones_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow machine is no fault; a subscriber that gets nothing more is found by check_complete."""
    loop = asyncio.get_running_loop()
    early, late = (Subscriber("/ws", "k", [], loop.create_future(), None, Goal()) for _ in range(2))
    early.stamps.append(9)
    monkeypatch.setattr("bench.signals._STILL_SECONDS", 60.0)
    loop.call_soon(late.stamps.append, 5)
    loop.call_later(0.01, late.stamps.append, 9)
    await catch_up([early, late], 9)
    assert late.stamps == [5, 9]
    monkeypatch.setattr("bench.signals._STILL_SECONDS", -1.0)
    await catch_up([early, late], 10)


@pytest.mark.parametrize(("age", "catches_up"), [(1.0, True), (1.0, False), (0.0, True)])
async def test_the_measurement_begins_without_a_backlog_or_tells_of_it(
    monkeypatch: pytest.MonkeyPatch, age: float, catches_up: bool
) -> None:
    """A backlog from the time in which the subscribers connect is not the delay that the aim is about."""
    monkeypatch.setattr("bench.signals._WARM_SECONDS", 0.3)
    monkeypatch.setattr("bench.signals._WARM_SECONDS_MAX", 2.0 if catches_up else 0.5)
    reader, told = Subscriber("/ws", "k", [], asyncio.get_running_loop().create_future(), None, Goal()), 0

    async def tell() -> None:
        nonlocal told
        while True:
            told += 1
            delay = 0.0 if catches_up and told > 5 else age
            reader.stamps.append(int((time.monotonic() - delay) * 1e6))
            reader.delays.append(delay)
            await asyncio.sleep(0.01)

    telling = asyncio.create_task(tell())
    _, has_backlog = await warm_up(reader)
    telling.cancel()
    assert has_backlog is not catches_up
    assert told > 5
