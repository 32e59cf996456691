"""The log is written in parts; a store that is away costs the calls of that time, and no memory."""

from actors.call_log.core import WAITING_OF_ACCOUNT_MAX, CallsOfAccount, RecentCalls
from actors.call_log.writer import CallLogWriter
from actors.clock import ManualClock
from actors.telemetry.metrics import Metrics
from tests.call_log.memory_store import MemoryCallLogStore, read
from tests.call_log.test_core import noted


class WatchedStore(MemoryCallLogStore):
    def __init__(self) -> None:
        super().__init__(10_000, 100_000)
        self.parts: list[int] = []

    async def append(self, accounts: list[CallsOfAccount], now_ms: int) -> None:  # type: ignore[override]
        self.parts.append(sum(len(one.calls) for one in accounts))
        await super().append(accounts, now_ms)


def missing(metrics: Metrics) -> int:
    return metrics.calls_not_logged._values[()]


def note(recent: RecentCalls, account: int, count: int, ended_at: float) -> None:
    for _ in range(count):
        room = recent.room_of(account.to_bytes(32, "big"), 1)
        assert room is not None
        room.append(noted(ended_at=ended_at))


async def test_what_was_noted_is_written_in_parts() -> None:
    store, clock, metrics = WatchedStore(), ManualClock(), Metrics()
    writer = CallLogWriter(store, clock, metrics)
    for account in range(100):
        note(writer.recent, account, 7, clock.monotonic())
    await writer.write()
    await writer.write()
    assert sum(store.parts) == 700 and max(store.parts) < 210 and len(store.parts) >= 3
    assert len(await read(store, (99).to_bytes(32, "big"), None, 100, clock.now_ms())) == 7


async def test_while_the_store_is_away_calls_are_dropped_and_counted() -> None:
    """And the log goes on when it is back. What is left is written at the end."""
    store, clock, metrics = WatchedStore(), ManualClock(), Metrics()
    writer = CallLogWriter(store, clock, metrics)
    store.down = True
    note(writer.recent, 1, 5, clock.monotonic())
    await writer.write()
    assert (missing(metrics), writer.recent.take()) == (5, [])
    store.down = False
    for _ in range(WAITING_OF_ACCOUNT_MAX + 3):
        room = writer.recent.room_of((2).to_bytes(32, "big"), 1)
        if room is not None:
            room.append(noted())
    note(writer.recent, 1, 2, clock.monotonic())
    await writer.stop()
    assert (missing(metrics), len(await read(store, (1).to_bytes(32, "big"), None, 100, clock.now_ms()))) == (5 + 3, 2)
