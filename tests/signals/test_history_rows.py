"""Slices of the history in PostgreSQL: bounds, filters, corrections and gaps apart."""

import msgspec

from actors.signals.history import HistoryQuery, PostgresSignalHistory
from actors.signals.history_rows import HistoryRange, PostgresHistoryRows
from actors.signals.history_slices import read_signals
from actors.signals.log import LogEntry, SignalGap
from tests.databases import emptied
from tests.signals.test_history import NO_SIGNALS, NOW, entry
from tests.signals.test_log import signal


async def test_a_slice_is_what_its_range_and_filters_say(postgres_url: str, owner_url: str) -> None:
    """After the first place, up to the last one, over days, and without corrections, which are told apart."""
    entries = [entry(1), entry(2, kind="largeSwap"), entry(3, change="removed"), entry(4), entry(5, day=1)]
    entries.insert(4, LogEntry(f"{NOW}-9", "gap", gap=SignalGap(1, 2, "gone")))
    async with emptied(postgres_url, owner_url, *NO_SIGNALS) as pool:
        await PostgresSignalHistory(pool).add(entries)
        rows = PostgresHistoryRows(pool)

        async def found(query: HistoryQuery, count: int = 10, last: str = entries[-1].cursor) -> list[str]:
            place = tuple(map(int, last.split("-")))
            lines = await rows.slice(HistoryRange((NOW, 1), (place[0], place[1]), query), count)
            return [each.event.signature for group in read_signals(lines, []) for each in group]

        assert await found(HistoryQuery()) == ["S2", "S4", "S5"]
        assert await found(HistoryQuery(), count=1) == ["S2"]
        assert await found(HistoryQuery(kinds=["largeSwap"])) == ["S2"]
        assert await found(HistoryQuery(mint="M4")) == ["S4"] and await found(HistoryQuery(programs=["x"])) == []
        assert await found(HistoryQuery(), last=f"{NOW}-4") == ["S2", "S4"]
        corrections = b"".join(await rows.corrections(NOW, NOW + 1, HistoryQuery()))
        assert corrections.count(b"\n") == 1 and b'"removed"' in corrections
        assert await rows.corrections(NOW, NOW + 1, HistoryQuery(mint="M3")) == [corrections]
        for other in (HistoryQuery(kinds=["largeSwap"]), HistoryQuery(mint="M4")):
            assert b"".join(await rows.corrections(NOW, NOW + 1, other)) == b"", "a range may have very many of others"
        assert await rows.gaps(NOW, NOW + 1) == ['{"from_slot":1,"to_slot":2,"reason":"gone"}']
        assert (await rows.extent()).cursor == entries[-1].cursor


async def test_a_program_alone_has_the_corrections_of_its_transactions_only(postgres_url: str, owner_url: str) -> None:
    """Of a sparse program, one slice may be days, with very many corrections of others. A transaction whose correction
    names another program is corrected all the same, as a program is no part of what a signal is known by."""
    mine = "Q" * 32

    def of(number: int, program: str, change: str = "event", at: int | None = None) -> LogEntry:
        event = msgspec.structs.replace(signal(number), program=program)
        return LogEntry(f"{NOW + (number if at is None else at)}-0", change, event)

    entries = [of(1, mine), of(2, "x" * 32), of(3, mine), of(900, mine)]
    entries += [of(1, "x" * 32, "removed", 10), of(2, "x" * 32, "removed", 11), of(900, mine, "removed", 1_000)]
    async with emptied(postgres_url, owner_url, *NO_SIGNALS) as pool:
        await PostgresSignalHistory(pool).add(sorted(entries, key=lambda each: int(each.cursor.split("-")[0])))
        rows, query = PostgresHistoryRows(pool), HistoryQuery(programs=[mine])
        lines = await rows.slice(HistoryRange((NOW, 0), (NOW + 5, 0), query), 10)
        corrections = await rows.corrections(NOW, NOW + 5, query)
        told = b"".join(corrections)
        assert (told.count(b"\n"), told.count(b'"S1"')) == (1, 1)
        assert [each.event.signature for group in read_signals(lines, corrections) for each in group] == ["S3"]
        assert b"".join(await rows.corrections(NOW, NOW + 5, HistoryQuery())).count(b"\n") == 3
        nothing = await rows.corrections(NOW, NOW + 5, HistoryQuery(kinds=["largeSwap"], programs=[mine]))
        assert b"".join(nothing) == b""
