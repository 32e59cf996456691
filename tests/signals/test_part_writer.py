"""One part's writes: few, never ahead of other parts, and its position never ahead of what is written."""

from collections import deque

import pytest
from redis.asyncio import Redis

from actors.signals import part_writer
from actors.signals.log import NO_CURSOR, LogEntry, RedisSignalLog, SignalGap
from actors.signals.part_writer import HELD_MAX, PartWriter
from tests.signals.memory_store import MemorySignalLog
from tests.signals.test_log import put, signal


async def _writers(log: MemorySignalLog, parts: int) -> list[PartWriter]:
    await put(log, [], 100)
    await log.divide(parts)
    return [PartWriter(log, await log.claim(part, 1, None), deque()) for part in range(parts)]


async def test_a_signal_waits_until_the_other_part_has_come_to_its_slot() -> None:
    log = MemorySignalLog()
    one, other = await _writers(log, 2)
    one.has_read(150)
    one.add([signal(1, 150)])
    await one.write()
    assert one.held == 1 and not log.entries
    for slot, held in ((149, 1), (150, 0)):
        other.has_read(slot)
        await other.write()
        await one.write()
        assert one.held == held
    (entry,) = await log.read(NO_CURSOR, 9)
    assert entry.event == signal(1, 150) and one.count == 1


async def test_a_part_that_waits_in_vain_asks_more_rarely() -> None:
    """Questions of parts that wait for one that is far behind took more than their own work did."""
    log = MemorySignalLog()
    one, other = await _writers(log, 2)
    one.has_read(150)
    one.add([signal(1, 150)])
    pauses = [one.pause_seconds]
    for _ in range(6):
        await one.write()
        pauses.append(one.pause_seconds)
    assert pauses == pytest.approx([0.01, 0.02, 0.04, 0.08, 0.08, 0.08, 0.08])
    other.has_read(150)
    await other.write()
    await one.write()
    assert not one.held and one.pause_seconds == pytest.approx(0.01)


async def test_a_position_waits_for_what_is_held() -> None:
    """Blocks are final at once: a part that is killed then must read the slot again."""
    log = MemorySignalLog()
    one, other = await _writers(log, 2)
    one.has_read(150)
    one.add([signal(1, 150)])
    one.final = 150
    await one.write()
    assert log.positions[0] == 149 == one.claim.position
    other.has_read(150)
    await other.write()
    await one.write()
    one.has_read(151)
    await one.write()
    assert log.positions[0] == 150


async def test_a_lone_part_waits_for_nobody_and_writes_as_it_goes() -> None:
    log = MemorySignalLog()
    (one,) = await _writers(log, 1)
    one.add([signal(number, 200 - number) for number in range(3)])
    await one.write()
    assert [entry.event for entry in log.entries] == [signal(0, 200), signal(1, 199), signal(2, 198)]


async def test_a_gap_moves_the_position() -> None:
    log = MemorySignalLog()
    (one,) = await _writers(log, 1)
    await one.report_gap(SignalGap(101, 120, "gone"))
    assert one.claim.position == 120 == log.positions[0]


async def test_held_signals_are_bounded_and_written_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_writer, "_WRITTEN_AT_ONCE", 1_000)
    log, sizes = MemorySignalLog(), list[int]()
    one, other = await _writers(log, 2)
    one.has_read(150)
    one.add([signal(number, 150) for number in range(HELD_MAX)])
    await one.write()
    assert one.is_full
    other.has_read(150)
    await other.write()
    original = log.append

    async def counted(claim, position, reached, events):  # type: ignore[no-untyped-def]
        sizes.append(len(events))
        return await original(claim, position, reached, events)

    log.append = counted  # type: ignore[method-assign]
    await one.write()
    assert (
        not one.held
        and max(sizes) == 1_000
        and [entry.event for entry in log.entries] == [signal(number, 150) for number in range(HELD_MAX)]
    )


@pytest.mark.parametrize(("parts", "calls_most", "changes_most"), [(1, 1.0, 1.0), (4, 4.1, 4.1)])
async def test_few_commands_of_redis_are_needed_for_each_slot(
    redis_url: str, parts: int, calls_most: float, changes_most: float
) -> None:
    """One call of a script and one change of a field, for each part; a release before changed 13 fields."""
    async with Redis.from_url(redis_url) as client:
        await client.flushall()
        log, slots = RedisSignalLog(client), 50
        await put(log, [], 100)  # type: ignore[arg-type]
        await log.divide(parts)
        writers = [PartWriter(log, await log.claim(part, 1, None), deque[LogEntry]()) for part in range(parts)]
        before = await client.info("commandstats")
        for slot in range(200, 200 + slots):
            for writer in writers:
                writer.has_read(slot)
                await writer.write()
                writer.final = slot - 32
                await writer.write()
        after = await client.info("commandstats")
        assert _calls(after, before, "evalsha") <= calls_most * slots
        assert _calls(after, before, "hset") <= changes_most * slots


def _calls(after: dict, before: dict, command: str) -> int:  # type: ignore[type-arg]
    name = f"cmdstat_{command}"
    return int(after[name]["calls"]) - int(before.get(name, {"calls": 0})["calls"])
