"""The watch of an event loop sees work that keeps the loop from its timer."""

import asyncio

from prometheus_client import generate_latest

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
