"""Both logs: a signal is written once, in one order; forks are corrected; positions never run ahead."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis

from actors.signals.events import SignalEvent
from actors.signals.log import (
    NO_CURSOR,
    SUBSCRIBED_WALLETS_MAX,
    LogEntry,
    PositionLost,
    RedisSignalLog,
    SignalGap,
    SignalLog,
    SignalLogUnavailable,
    SliceTaken,
    body_of,
    cursor_key,
    entry_of,
    parse_cursor,
)
from actors.signals.positions import Claim
from tests.signals.memory_store import MemorySignalLog


def signal(number: int = 0, slot: int = 100, kind: str = "newPair") -> SignalEvent:
    return SignalEvent(kind, "P" * 32, f"S{number}", slot, f"M{number}", ("a", "b"), "SOL", "classic", False)


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
    both = await log.append([Claim("p")], 5, [signal(1), signal(2)])
    assert None not in both and sorted(both, key=lambda c: cursor_key(str(c))) == both
    assert await log.append([Claim("q")], 9, [signal(1), signal(1, slot=103), signal(1, kind="graduation")]) == [
        *(None, None),
        (await log.latest(1))[0].cursor,
    ]
    assert [entry.event for entry in await log.read(NO_CURSOR, 100)] == [
        *(signal(1), signal(2)),
        signal(1, kind="graduation"),
    ]
    assert await _positions(log, "p", "q", "new") == [5, 9, 5]


async def test_many_writers_at_once_write_each_signal_once(log: SignalLog) -> None:
    """Two classifiers of one partition run for a while after the loss of a machine."""
    signals = [signal(number) for number in range(20)]
    answers = await asyncio.gather(*(log.append([Claim("p")], 1, signals) for _ in range(5)))
    assert sum(cursor is not None for answer in answers for cursor in answer) == 20
    assert len(await log.read(NO_CURSOR, 1_000)) == 20


async def test_a_lost_fork_is_corrected_once(log: SignalLog) -> None:
    """Threat 32: removed; restored when the transaction lands again; neither is charged."""
    await log.append([Claim("p")], 0, [signal(1, slot=100)])
    assert await log.correct([Claim("p")], 100, [signal(1, slot=100)]) == ["removed"]
    assert await log.correct([Claim("p")], 100, [signal(1, slot=100)]) == []
    await log.append([Claim("p")], 0, [signal(1, slot=105)])
    assert await _changes(log) == [("event", 100), ("removed", 100), ("restored", 105)]
    assert [entry.is_charged for entry in await log.read(NO_CURSOR, 9)] == [True, False, False]


async def test_a_signal_of_two_forks_moves_to_the_one_that_lives(log: SignalLog) -> None:
    """The same transaction in two forks; the loss of the second one changes nothing."""
    for number, lost in ((1, 100), (2, 103)):
        await log.append([Claim("p")], 0, [signal(number, slot=100), signal(number, slot=103)])
        assert await log.correct([Claim("p")], lost, [signal(number, slot=100)]) == (["moved"] if lost == 100 else [])
    assert await _changes(log) == [("event", 100), ("event", 100), ("moved", 103)] or await _changes(log) == [
        *(("event", 100), ("moved", 103), ("event", 100)),
    ]


async def test_a_log_that_lost_its_last_second_says_so(log: SignalLog) -> None:
    """Redis may lose a second; the classifier then goes back to the position that fits."""
    await log.append([Claim("p")], 50, [signal(1)])
    with pytest.raises(PositionLost):
        await log.append([Claim("p", position=60)], 61, [signal(2)])
    with pytest.raises(PositionLost):
        await log.append([Claim("p", epoch=1)], 61, [signal(2)])
    assert await _positions(log, "p") == [50]
    assert len(await log.read(NO_CURSOR, 9)) == 1


async def test_a_classifier_whose_slice_was_claimed_writes_nothing(log: SignalLog) -> None:
    """Money rule 12: the write itself is refused, whatever it is, and the other slices do not save it."""
    (mine, _), _ = await log.claim(["p", "q"], {})
    await log.append([mine], 50, [signal(1)])
    (other,), _ = await log.claim(["p"], {})
    for write in (
        lambda: log.append([mine], 60, [signal(2)]),
        lambda: log.correct([mine], 100, [signal(1)]),
        lambda: log.report_gap([mine], SignalGap(51, 60, "gone")),
        lambda: log.append([Claim("q", 1), mine], 60, [signal(2)]),
    ):
        with pytest.raises(SliceTaken):
            await write()
    assert [entry.change for entry in await log.read(NO_CURSOR, 9)] == ["event"]
    assert other == Claim("p", 2, 50) and await _positions(log, "p") == [50]


async def test_slices_keep_their_positions_whoever_claims_them(log: SignalLog) -> None:
    """Threat 69: one classifier, then others with other slices, then one again."""
    all_of_them, is_lost = await log.claim(["a", "b", "c"], {})
    assert not is_lost and {claim.position for claim in all_of_them} == {0}
    await log.append(all_of_them, 100, [signal(1)])
    first, _ = await log.claim(["a", "c"], {})
    second, _ = await log.claim(["b"], {})
    await log.append(first, 120, [])
    await log.append(second, 110, [])
    last, is_lost = await log.claim(["a", "b", "c"], {})
    assert [(claim.epoch, claim.position) for claim in last] == [(3, 120), (3, 110), (3, 120)] and not is_lost
    await log.append(last, 115, [])
    assert await _positions(log, "a", "b", "c") == [120, 115, 120], "none goes back"


async def test_a_classifier_that_knows_less_than_the_log_begins_where_it_knows(log: SignalLog) -> None:
    """After a restored Redis: the position that another one restored may be further than this one has read."""
    await log.append([Claim("p")], 50, [])
    assert (await log.claim(["p"], {"p": 40})).claims == (Claim("p", 1, 40),)
    assert (await log.claim(["p"], {"p": 60})).claims == (Claim("p", 2, 50),)


async def _positions(log: SignalLog, *slices: str) -> list[int]:
    return [claim.position for claim in (await log.claim(slices, {})).claims]


async def test_a_gap_is_an_entry_and_moves_the_position(log: SignalLog) -> None:
    await log.report_gap([Claim("p")], SignalGap(5, 9, "gone"))
    (entry,) = await log.read(NO_CURSOR, 9)
    assert (entry.change, entry.event, entry.gap) == ("gap", None, SignalGap(5, 9, "gone"))
    assert await _positions(log, "p") == [9]


async def test_reading_continues_after_a_cursor_and_wakes_on_news(log: SignalLog) -> None:
    cursors = await log.append([Claim("p")], 0, [signal(number) for number in range(5)])
    assert [entry.cursor for entry in await log.read(str(cursors[1]), 2)] == cursors[2:4]
    assert await log.oldest() == cursors[0]
    reading = asyncio.create_task(log.read(str(cursors[4]), 9, 5_000))
    await asyncio.sleep(0)
    (fresh,) = await log.append([Claim("p")], 0, [signal(9)])
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
    client = Redis(host="127.0.0.1", port=1)
    with pytest.raises(SignalLogUnavailable):
        await RedisSignalLog(client).claim(["p"], {})
    await client.aclose()


async def test_the_stream_is_bounded_by_size_and_age(redis_url: str) -> None:
    """Both approximately: Redis lets go of whole nodes of a hundred entries."""
    client = Redis.from_url(redis_url)
    await client.flushall()
    log = RedisSignalLog(client, length_max=100)
    for start in range(0, 1_000, 100):
        await log.append([Claim("p")], 0, [signal(number) for number in range(start, start + 100)])
    assert await client.xlen("signals:log") <= 2 * 100
    await log.trim(cursor_key((await log.latest(1))[0].cursor)[0] + 1)
    assert await client.xlen("signals:log") <= 100
    await client.aclose()


async def test_a_lost_log_is_restored_with_its_cursors(log: SignalLog) -> None:
    """Old cursors go on, later ones are later, known signals are known, a removed one is restored for free."""
    await log.append([Claim("p")], 90, [signal(number) for number in range(4)])
    await log.correct([Claim("p")], 100, [signal(3)])
    before = await log.read(NO_CURSOR, 100)
    await lose_everything(log)
    assert not await log.is_whole() and await log.read(NO_CURSOR, 100) == []
    for _ in range(2):
        await log.restore({"p": 90}, before)
    assert await log.is_whole() and await log.read(NO_CURSOR, 100) == before
    assert await _positions(log, "p") == [90]
    await log.append([Claim("p", 1, 90)], 90, [])
    assert await log.append([Claim("p", 1, 90)], 91, [signal(1)]) == [None]
    (again, fresh) = await log.append([Claim("p", 1, 91)], 92, [signal(3, slot=105), signal(9)])
    assert cursor_key(before[-1].cursor) < cursor_key(str(again)) < cursor_key(str(fresh))
    assert [entry.change for entry in await log.read(before[-1].cursor, 9)] == ["restored", "event"]


async def lose_everything(log: SignalLog) -> None:
    if isinstance(log, RedisSignalLog):
        await log._redis.flushall()
    else:
        assert isinstance(log, MemorySignalLog)
        log.lose_everything()
