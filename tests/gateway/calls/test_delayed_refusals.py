"""Guards that refusals of callers that are told to wait leave at a steady pace."""

import asyncio
from collections.abc import Callable

import pytest

from actors.gateway.calls import delayed_refusals
from actors.gateway.calls.delayed_refusals import DelayedRefusals


class PlayedTimers:
    """Stands for the loop's timers: `tick` lets the time of one pass."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.due = []
        monkeypatch.setattr(asyncio.get_running_loop(), "call_later", self._call_later)

    def _call_later(self, _seconds: float, callback: Callable[[], None]) -> object:
        self.due.append(callback)
        return callback

    async def tick(self) -> None:
        due, self.due = self.due, []
        for callback in due:
            callback()
        await asyncio.sleep(0)


@pytest.mark.threat(59)
async def test_so_many_refusals_leave_in_a_tick(monkeypatch):
    """Threats 59 and 63: a client on many connections gets its refusals one after the other, and in order."""
    timers, delayed, left = PlayedTimers(monkeypatch), DelayedRefusals(), []

    async def refuse(number: int) -> None:
        await delayed.wait()
        left.append(number)

    tasks = [asyncio.ensure_future(refuse(number)) for number in range(12)]
    await asyncio.sleep(0)
    assert left == []
    for expected in (5, 10, 12):
        await timers.tick()
        assert left == list(range(expected))
    await timers.tick()
    assert not timers.due, "nothing waits, so no timer wakes the process"
    assert all(task.done() for task in tasks)
    assert delayed_refusals.PER_SECOND * delayed_refusals.TICK_SECONDS == 5


async def test_what_waits_is_bounded_and_those_who_left_take_no_turn(monkeypatch):
    timers, delayed = PlayedTimers(monkeypatch), DelayedRefusals(waiting_max=6)
    tasks = [asyncio.ensure_future(delayed.wait()) for _ in range(7)]
    await asyncio.sleep(0)
    assert tasks[6].done() and not any(task.done() for task in tasks[:6])
    tasks[0].cancel()
    await timers.tick()
    await asyncio.sleep(0)
    assert all(task.done() for task in tasks)
