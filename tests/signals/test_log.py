"""Both logs: a signal is written once, in one order; forks are corrected; positions never run ahead."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest
from redis.asyncio import Redis

from actors.signals.events import SignalEvent
from actors.signals.log import (
    NO_CURSOR,
    SUBSCRIBED_WALLETS_MAX,
    DivisionChanged,
    LogEntry,
    NothingToDo,
    PartTaken,
    PositionLost,
    RedisSignalLog,
    SignalGap,
    SignalLog,
    SignalLogUnavailable,
    body_of,
    cursor_key,
    entry_of,
    parse_cursor,
)
from actors.signals.positions import SLICES, Division
from actors.storage.connections import open_redis
from tests.signals.memory_store import MemorySignalLog


def signal(number: int = 0, slot: int = 100, kind: str = "newPair") -> SignalEvent:
    return SignalEvent(kind, "P" * 32, f"S{number}", slot, f"M{number}", ("a", "b"), "SOL", "classic", False)


async def put(log: SignalLog, events: Sequence[SignalEvent], position: int = 0) -> list[str | None]:
    """Write signals as the one classifier that there is, or as the first one."""
    claim = await log.claim(0, 1, None)
    return list((await log.append(claim, max(position, claim.position), position, events)).cursors)


async def take_back(log: SignalLog, slot: int, events: Sequence[SignalEvent]) -> list[str]:
    return await log.correct(await log.claim(0, 1, None), slot, events)


async def tell_gap(log: SignalLog, gap: SignalGap) -> None:
    await log.report_gap(await log.claim(0, 1, None), gap)


@pytest.fixture(params=["memory", "redis"])
async def log(request: pytest.FixtureRequest, redis_url: str) -> AsyncIterator[SignalLog]:
    if request.param == "memory":
        yield MemorySignalLog()
        return
    client = Redis.from_url(redis_url)
    await client.flushall()
    yield RedisSignalLog(client)
    await client.aclose()


async def _changes(log: SignalLog) -> list[tuple[str, int]]:
    return [(entry.change, entry.event.slot) for entry in await log.read(NO_CURSOR, 100) if entry.event]


async def test_a_signal_is_written_once_however_often_it_is_reported(log: SignalLog) -> None:
    """Decisions, "one signal": signature, kind and mint."""
    both = await put(log, [signal(1), signal(2)], 5)
    assert None not in both and sorted(both, key=lambda c: cursor_key(str(c))) == both
    assert await put(log, [signal(1), signal(1, slot=103), signal(1, kind="graduation")], 9) == [
        *(None, None),
        (await log.latest(1))[0].cursor,
    ]
    assert [entry.event for entry in await log.read(NO_CURSOR, 100)] == [
        *(signal(1), signal(2)),
        signal(1, kind="graduation"),
    ]
    assert await _position(log) == 9


async def test_many_writers_at_once_write_each_signal_once(log: SignalLog) -> None:
    """The same signal of two parts cannot be, but of an old division and a new one it can."""
    signals, claim = [signal(number) for number in range(20)], await log.claim(0, 1, None)
    answers = await asyncio.gather(*(log.append(claim, 1, 1, signals) for _ in range(5)))
    assert sum(cursor is not None for answer in answers for cursor in answer.cursors) == 20
    assert len(await log.read(NO_CURSOR, 1_000)) == 20


async def test_a_lost_fork_is_corrected_once(log: SignalLog) -> None:
    """Threat 32: removed; restored when the transaction lands again; neither is charged."""
    await put(log, [signal(1, slot=100)])
    assert await take_back(log, 100, [signal(1, slot=100)]) == ["removed"]
    assert await take_back(log, 100, [signal(1, slot=100)]) == []
    await put(log, [signal(1, slot=105)])
    assert await _changes(log) == [("event", 100), ("removed", 100), ("restored", 105)]
    assert [entry.is_charged for entry in await log.read(NO_CURSOR, 9)] == [True, False, False]


async def test_a_signal_of_two_forks_moves_to_the_one_that_lives(log: SignalLog) -> None:
    """The same transaction in two forks; the loss of the second one changes nothing."""
    for number, lost in ((1, 100), (2, 103)):
        await put(log, [signal(number, slot=100), signal(number, slot=103)])
        assert await take_back(log, lost, [signal(number, slot=100)]) == (["moved"] if lost == 100 else [])
    assert await _changes(log) == [("event", 100), ("event", 100), ("moved", 103)] or await _changes(log) == [
        *(("event", 100), ("moved", 103), ("event", 100)),
    ]


async def test_a_log_that_lost_its_last_second_says_so(log: SignalLog) -> None:
    """Redis may lose a second; the classifier then goes back to the position that fits."""
    claim = await log.claim(0, 1, None)
    await log.append(claim, 50, 60, [signal(1)])
    later = Division(claim.division.epoch + 1, 1)
    for knows_more in (replace(claim, position=60), replace(claim, epoch=9), replace(claim, division=later)):
        with pytest.raises(PositionLost):
            await log.append(knows_more, 61, 61, [signal(2)])
    assert await _position(log) == 50
    assert len(await log.read(NO_CURSOR, 9)) == 1


async def test_a_classifier_whose_part_was_claimed_writes_nothing(log: SignalLog) -> None:
    """Money rule 12: the write itself is refused, whatever it is; so it is once the work is divided anew."""
    mine = await log.claim(0, 1, None)
    await log.append(mine, 50, 50, [signal(1)])
    other = await log.claim(0, 1, None)
    assert (other.epoch, other.position) == (2, 50)
    for claim, refused in ((mine, PartTaken), (other, DivisionChanged)):
        if refused is DivisionChanged:
            await log.divide(2)
        for write in (
            log.append(claim, 60, 60, [signal(2)]),
            log.correct(claim, 100, [signal(1)]),
            log.report_gap(claim, SignalGap(51, 60, "gone")),
        ):
            with pytest.raises(refused):
                await write
    assert [entry.change for entry in await log.read(NO_CURSOR, 9)] == ["event"]
    assert await _position(log) == 50


async def test_another_number_of_parts_begins_where_the_slowest_was(log: SignalLog) -> None:
    """Threat 69: one part, then three, then two. Dividing again what is divided so changes nothing."""
    await put(log, [signal(1)], 100)
    three = await log.divide(3)
    assert await log.divide(3) == three == await log.division()
    parts = [await log.claim(part, 1, None) for part in range(3)]
    assert [(claim.part, claim.position, claim.is_lost) for claim in parts] == [(n, 100, False) for n in range(3)]
    for claim, position in zip(parts, (120, 110, 130), strict=True):
        await log.append(claim, position, position + 5, [])
    two = await log.divide(2)
    assert two.epoch > three.epoch and two.parts == 2
    assert [(await log.claim(part, 1, None)).position for part in range(2)] == [110, 110]
    with pytest.raises(NothingToDo):
        await log.claim(2, 1, None)


async def test_a_part_is_told_what_the_slowest_of_the_others_has_reached(log: SignalLog) -> None:
    await put(log, [signal(1)], 100)
    await log.divide(3)
    first, second, third = [await log.claim(part, 1, None) for part in range(3)]
    assert (await log.append(first, 100, 140, [])).others_reached == 101
    assert (await log.append(second, 100, 130, [])).others_reached == 101
    assert (await log.append(third, 100, 150, [])).others_reached == 130
    assert (await log.append(third, 100, 120, [])).others_reached == 130
    assert (await log.append(second, 100, 155, [])).others_reached == 140, "what was reached stays so"
    assert (await log.append(first, 100, 160, [])).others_reached == 150


async def test_all_parts_of_a_new_log_begin_at_the_slot_of_the_first_one(log: SignalLog) -> None:
    """Else signals would be missing between the beginnings of two parts, and nobody would know."""
    await log.divide(2)
    with pytest.raises(NothingToDo):
        await log.claim(1, 2, None)
    first = await log.claim(0, 2, None)
    assert first.position == 0 and not first.is_lost
    await log.append(first, 99, 100, [])
    assert (await log.claim(1, 2, None)).position == 99


async def test_positions_of_a_release_before_are_taken_over_and_its_classifiers_refused(redis_url: str) -> None:
    """A program that is further keeps its position as a floor; an epoch that such a classifier has is an old one."""
    client = Redis.from_url(redis_url)
    await client.flushall()
    log = RedisSignalLog(client)
    await client.xadd("signals:log", {"c": "gap", "b": '{"from_slot":1,"to_slot":2,"reason":"x"}'})
    await client.hset("signals:positions", mapping=dict.fromkeys(SLICES, 500) | {SLICES[3]: 450, SLICES[5]: 470})
    await client.hset("signals:epochs", mapping=dict.fromkeys(SLICES, 7))
    claims = [await log.claim(part, 4, None) for part in range(4)]
    for claim in claims:
        assert (claim.position, claim.is_lost, claim.division.parts) == (450, False, 4)
        assert claim.floors == {name: 470 if name == SLICES[5] else 500 for name in SLICES if name != SLICES[3]}
    assert {int(each) for each in await client.hmget("signals:epochs", *SLICES)} == {8}
    await client.aclose()


async def test_a_classifier_that_knows_less_than_the_log_begins_where_it_knows(log: SignalLog) -> None:
    """After a restored Redis: the position that another one restored may be further than this one has read."""
    await put(log, [], 50)
    claim = await log.claim(0, 1, None)
    assert (await log.claim(0, 1, replace(claim, position=40))).position == 40
    assert (await log.claim(0, 1, replace(claim, position=60))).position == 50


async def _position(log: SignalLog, part: int = 0) -> int:
    return (await log.claim(part, 1, None)).position


async def test_a_gap_is_an_entry_and_moves_the_position(log: SignalLog) -> None:
    await tell_gap(log, SignalGap(5, 9, "gone"))
    (entry,) = await log.read(NO_CURSOR, 9)
    assert (entry.change, entry.event, entry.gap) == ("gap", None, SignalGap(5, 9, "gone"))
    assert await _position(log) == 9
    for gap, told in ((SignalGap(6, 9, "gone"), 1), (SignalGap(6, 10, "gone"), 2)):
        await tell_gap(log, gap)
        assert len(await log.read(NO_CURSOR, 9)) == told, "what is told is not told again by another part"


async def test_reading_continues_after_a_cursor_and_wakes_on_news(log: SignalLog) -> None:
    cursors = await put(log, [signal(number) for number in range(5)])
    assert [entry.cursor for entry in await log.read(str(cursors[1]), 2)] == cursors[2:4]
    assert await log.oldest() == cursors[0]
    reading = asyncio.create_task(log.read(str(cursors[4]), 9, 5_000))
    await asyncio.sleep(0)
    (fresh,) = await put(log, [signal(9)])
    assert [entry.cursor for entry in await reading] == [fresh]


async def test_a_new_subscription_takes_no_wallet_out_of_the_watched_ones(log: SignalLog) -> None:
    """One that would is told so, in place of a silent gap for somebody else."""
    many = [f"w{number}" for number in range(SUBSCRIBED_WALLETS_MAX)]
    assert await log.watch_more(["mine"], 1_000)
    assert not await log.watch_more(many, 1_000) and await log.watched(1_000) == {"mine"}
    assert await log.watch_more(many[1:], 1_000)
    assert await log.watch_more(["mine", many[1]], 1_030), "they are watched already"
    await log.watch([f"webhook{number}" for number in range(5_000)], 1_030, for_webhooks=True)
    assert len(await log.watched(1_030)) == SUBSCRIBED_WALLETS_MAX + 5_000
    assert await log.subscribed_wallets(1_030) == SUBSCRIBED_WALLETS_MAX, "those of webhooks take no place of these"
    assert await log.watch_more(["mine"], 1_031) and not await log.watch_more(["other"], 1_031)
    assert await log.watch_more(["other"], 1_095), "most have ended"
    assert not await log.watch_more(["third"], 1_095, 1) and await log.watch_more(["third"], 1_095, 2)


async def test_wallets_are_watched_for_a_minute(log: SignalLog) -> None:
    await log.watch(["a", "b"], 1_000)
    await log.watch(["b"], 1_050)
    assert await log.watched(1_060) == {"a", "b"}
    assert await log.watched(1_061) == {"b"}


def test_only_whole_cursors_are_cursors() -> None:
    assert parse_cursor("1700000000000-3") == (1_700_000_000_000, 3)
    for text in ("", "5", "5-", "-1", "5-1-1", "05-1", " 5-1", "5-1\n", "9" * 16 + "-1", "٣-1", "$", "5-99999999999"):
        assert parse_cursor(text) is None, text


def test_an_entry_survives_being_stored() -> None:
    for entry in (LogEntry("1-1", "event", signal()), LogEntry("1-2", "gap", gap=SignalGap(1, 2, "x"))):
        assert entry_of(entry.cursor, entry.change, body_of(entry)) == entry


async def test_a_redis_that_is_away_is_told_as_such() -> None:
    client = open_redis("redis://127.0.0.1:1")  # With the tries that the product makes.
    with pytest.raises(SignalLogUnavailable):
        await RedisSignalLog(client).claim(0, 1, None)
    await client.aclose()


async def test_the_stream_is_bounded_by_size_and_age(redis_url: str) -> None:
    """Both approximately: Redis lets go of whole nodes of a hundred entries."""
    client = Redis.from_url(redis_url)
    await client.flushall()
    log = RedisSignalLog(client, length_max=100)
    for start in range(0, 1_000, 100):
        await put(log, [signal(number) for number in range(start, start + 100)])
    assert await client.xlen("signals:log") <= 2 * 100
    await log.trim(cursor_key((await log.latest(1))[0].cursor)[0] + 1)
    assert await client.xlen("signals:log") <= 100
    await client.aclose()


async def test_a_lost_log_is_restored_with_its_cursors(log: SignalLog) -> None:
    """Old cursors go on, later ones are later, known signals are known, a removed one is restored for free; the parts
    come back as they were, each where its own classifier or the history knows it to be."""
    await log.divide(2)
    claim = await log.claim(0, 2, None)
    await log.append(claim, 90, 100, [signal(number) for number in range(4)])
    await log.correct(claim, 100, [signal(3)])
    before = await log.read(NO_CURSOR, 100)
    await lose_everything(log)
    assert not await log.is_whole() and await log.read(NO_CURSOR, 100) == []
    for _ in range(2):
        await log.restore({"restored": 70, "0": 90}, before)
    assert await log.is_whole() and await log.read(NO_CURSOR, 100) == before
    again = await log.claim(0, 1, replace(claim, position=90))
    assert (again.division, again.position) == (claim.division, 90)
    assert (await log.claim(1, 1, None)).position == 70
    assert (await log.append(again, 91, 91, [signal(1)])).cursors == [None]
    (first, fresh) = (await log.append(again, 92, 92, [signal(3, slot=105), signal(9)])).cursors
    assert cursor_key(before[-1].cursor) < cursor_key(str(first)) < cursor_key(str(fresh))
    assert [entry.change for entry in await log.read(before[-1].cursor, 9)] == ["restored", "event"]


async def lose_everything(log: SignalLog) -> None:
    if isinstance(log, RedisSignalLog):
        await log._redis.flushall()
    else:
        assert isinstance(log, MemorySignalLog)
        log.lose_everything()
