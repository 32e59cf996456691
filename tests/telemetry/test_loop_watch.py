"""The watch of an event loop sees work that keeps the loop from its timer."""

import asyncio

import pytest
from prometheus_client import generate_latest

from actors.telemetry import loop_watch
from actors.telemetry.loop_watch import LoopWatch
from actors.telemetry.metrics import Metrics


class _Times:
    """Times that a test sets: of the world, and of the thread's work."""

    def __init__(self) -> None:
        self.now = self.worked = 0.0

    def monotonic(self) -> float:
        return self.now

    def thread_seconds(self) -> float:
        return self.worked


def _value(metrics: Metrics, name: str, **labels: str) -> float:
    value = metrics.registry.get_sample_value(f"ledger_gateway_{name}", labels)
    assert value is not None, name
    return value


async def _round() -> None:
    """Let the timer fire: it is due in no time, and the loop fires timers once a round."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def test_a_round_that_works_is_held_and_one_that_waits_is_stalled() -> None:
    """A callback of 20 ms is in the histogram and in the maximum of the minute; a wait of the thread is told apart."""
    metrics, times = Metrics(), _Times()
    watch = LoopWatch(metrics, tick_seconds=0, clock=times)
    watch.start()
    await _round()
    assert _value(metrics, "event_loop_held_max_seconds") == 0.0
    times.now, times.worked = 0.02, 0.02
    await _round()
    times.now, times.worked = 0.52, 0.02
    await _round()
    watch.stop()
    assert _value(metrics, "event_loop_held_max_seconds") == 0.02
    assert _value(metrics, "event_loop_stalled_max_seconds") == 0.5
    ticks = _value(metrics, "event_loop_held_seconds_count")
    assert ticks - _value(metrics, "event_loop_held_seconds_bucket", le="0.005") == 1
    assert _value(metrics, "event_loop_held_seconds_sum") == 0.02
    assert _value(metrics, "event_loop_stalled_seconds_sum") == 0.5


async def test_a_loop_that_has_nothing_to_do_is_looked_at_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each tick wakes an idle process. A tick that finds work wakes the watch as well, for the rounds after it."""
    metrics, times = Metrics(), _Times()
    pauses: list[float] = []

    class Loop:
        def call_later(self, seconds: float, tick: object) -> object:
            pauses.append(seconds)
            return asyncio.get_event_loop_policy()  # Never asked to cancel: the watch is not stopped here.

    monkeypatch.setattr(loop_watch.asyncio, "get_running_loop", Loop)
    watch = LoopWatch(metrics, tick_seconds=0.005, clock=times)
    watch.start()
    for now, worked in ((9.9, 0.001), (10.1, 0.002), (10.2, 0.003), (10.31, 0.033), (20.0, 0.034), (20.4, 0.035)):
        times.now, times.worked = now, worked
        watch._tick()
    assert pauses == [0.005, 0.005, 0.25, 0.25, 0.005, 0.005, 0.25]
    assert _value(metrics, "event_loop_held_max_seconds") > 0.0


async def test_a_stopped_watch_sets_no_timer() -> None:
    """The loop of a replica that closes has nothing left to do."""
    metrics = Metrics()
    watch = LoopWatch(metrics, tick_seconds=0, clock=_Times())
    watch.start()
    await _round()
    watch.stop()
    ticks = _value(metrics, "event_loop_held_seconds_count")
    await _round()
    assert _value(metrics, "event_loop_held_seconds_count") == ticks > 0
    assert "event_loop_held_max_seconds" in generate_latest(metrics.registry).decode()
