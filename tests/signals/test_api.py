"""The reader for other contexts: everything once, in order, bounded; gaps are told; a read repeated is the same."""

import orjson
import pytest

from actors.signals.api import ACTOR_PREFIX, Classifiers, LoggedSignal, SignalReader
from actors.signals.log import NO_CURSOR, SignalGap
from actors.signals.replays import Replays
from tests.signals.memory_store import MemorySignalLog
from tests.signals.test_hub import World
from tests.signals.test_log import signal, take_back, tell_gap


def _reader(world: World) -> SignalReader:
    return SignalReader(world.log, Replays(world.log, world.history))


@pytest.mark.parametrize("archived", [0, 4])
async def test_pages_go_on_where_the_one_before_ended(archived: int) -> None:
    """Decisions, "cursors and gaps": from the stream and the history alike, at most `count` at once."""
    world = World()
    reader = _reader(world)
    beginning = await reader.newest()
    await world.write(7)
    await world.history.add(world.log.entries[:archived])
    world.log.entries = world.log.entries[archived:]
    cursor, got = beginning, list[LoggedSignal]()
    while page := await reader.read(cursor, 3):
        assert len(page.signals) <= 3 and page == await reader.read(cursor, 3)
        if not page.signals:
            break
        got += page.signals
        cursor = page.cursor
    assert [each.mint for each in got] == [f"M{number}" for number in range(7)]
    assert len({each.cause for each in got}) == 7 and all(each.is_first for each in got)
    assert orjson.loads(got[0].body)["cursor"] == got[0].cursor
    assert await reader.newest() == got[-1].cursor == cursor
    assert (await reader.read(cursor, 3, wait_ms=1)).cursor == cursor


async def test_corrections_have_the_cause_of_their_signal_and_are_not_first() -> None:
    """Threat 32: nobody pays twice for one signal."""
    world = World()
    await world.write(1, slot=100)
    await take_back(world.log, 100, [signal(0, slot=100)])
    first, removed = (await _reader(world).read(NO_CURSOR, 10)).signals
    assert (first.cause, first.is_first) == (removed.cause, True) and not removed.is_first
    assert orjson.loads(removed.body)["correction"] == "removed"


async def test_what_is_lost_is_told_and_passed() -> None:
    """A gap of the chain is an entry of the log; dropped days are one of the stores."""
    world = World()
    await tell_gap(world.log, SignalGap(5, 9, "gone"))
    world.history.kept_from_ms = 1_600_000_000_000
    page = await _reader(world).read("1500000000000-0", 10)
    gaps = [orjson.loads(gap)["gap"] for gap in page.gaps]
    assert [(gap["from_cursor"], gap["from_slot"]) for gap in gaps] == [
        *(("1500000000000-0", None), (page.cursor, 5)),
    ]
    assert page.signals == [] and (await _reader(world).read(page.cursor, 10)).gaps == []


async def test_health_tells_of_the_worst_classifier() -> None:
    """`none` where one has no source, the largest lag, the newest gap; one that stays without a source is told."""
    log = MemorySignalLog()
    await log.divide(2)
    classifiers = Classifiers(log)
    await classifiers.look()
    one, other = classifiers._classifiers
    assert classifiers.are_read  # Both are starting.
    assert classifiers.sources() == {"source": "none", "lag_slots": None}
    one.state = {"source": "yellowstone", "lag_slots": 1, "source_away_seconds": 0.0, "gap": {"to_slot": 5}}
    other.state = {"source": "blocks", "lag_slots": 3, "source_away_seconds": 3.9, "gap": {"to_slot": 9}}
    one._has_answered = other._has_answered = True
    assert classifiers.sources() == {"source": "blocks", "lag_slots": 3, "gap": {"to_slot": 9}}
    assert classifiers.are_read
    other.state = {"source": "none", "source_away_seconds": 4.0}
    assert classifiers.sources()["source"] == "none" and not classifiers.are_read
    await classifiers.stop()


async def test_health_follows_the_number_of_classifiers() -> None:
    """Threat 69: those that have no part any more are not asked, new ones are; a log that is away changes nothing."""
    log = MemorySignalLog()
    classifiers = Classifiers(log)
    for parts, expected in ((None, 1), (4, 4), (2, 2), (None, 2)):
        if parts is None:
            log.stored = None
        else:
            await log.divide(parts)
        await classifiers.look()
        assert len(classifiers._classifiers) == expected
    assert [each._handle._name for each in classifiers._classifiers] == [f"{ACTOR_PREFIX}0", f"{ACTOR_PREFIX}1"]
    await classifiers.stop()
