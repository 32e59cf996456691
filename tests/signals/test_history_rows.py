"""Slices of the history in PostgreSQL: bounds, filters, corrections and gaps apart."""

from actors.signals.history import HistoryQuery, PostgresSignalHistory
from actors.signals.history_rows import HistoryRange, PostgresHistoryRows
from actors.signals.history_slices import read_signals
from actors.signals.log import LogEntry, SignalGap
from tests.databases import emptied
from tests.signals.test_history import NO_SIGNALS, NOW, entry


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
