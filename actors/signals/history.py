"""The history of the signal log in PostgreSQL: a port and its store.

Implements: decisions, "cursors and gaps", for entries that have left the stream. Partitioned by day; days beyond the
configured number are dropped. Writing an entry again changes nothing.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import asyncpg

from actors.signals.log import LogEntry, body_of, cursor_key, entry_of
from actors.storage.connections import borrowed

DAY_MS = 86_400_000
_WAIT_SECONDS = 5.0
_INSERT = """
INSERT INTO signals (cursor_ms, cursor_seq, change, kind, program, signature, slot, mint, body)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[],
                     $8::text[], $9::bytea[])
ON CONFLICT DO NOTHING
"""
_MOVE = """
UPDATE signals_archived SET cursor_ms = $1, cursor_seq = $2 WHERE (cursor_ms, cursor_seq) < ($1::bigint, $2::bigint)
"""
_READ = """
SELECT cursor_ms, cursor_seq, change, body FROM signals
WHERE (cursor_ms, cursor_seq) > ($1::bigint, $2::bigint) AND cursor_ms < $3
  AND ($4::text[] IS NULL OR kind = ANY($4)) AND ($5::text[] IS NULL OR program = ANY($5))
  AND ($6::text IS NULL OR mint = $6)
ORDER BY cursor_ms, cursor_seq LIMIT $7
"""
_FOR_EVER_MS = 1 << 62


class HistoryUnavailable(Exception):
    """The history did not answer."""


class Archived(NamedTuple):
    """cursor: entries up to it are in the history. kept_from_ms: older entries were dropped."""

    cursor: str
    kept_from_ms: int


class HistoryQuery(NamedTuple):
    """None: no limit. until_ms: exclusive, Unix milliseconds at which the log got the entry."""

    kinds: Sequence[str] | None = None
    programs: Sequence[str] | None = None
    mint: str | None = None
    until_ms: int | None = None


EVERYTHING = HistoryQuery()


class SignalHistory(Protocol):
    async def archived(self) -> Archived: ...

    async def add(self, entries: Sequence[LogEntry]) -> None:
        """Write entries of the log, oldest first, and move the cursor to the last. Raises HistoryUnavailable."""
        ...

    async def keep(self, now_ms: int, days: int) -> None:
        """Drop partitions older than this many days. Raises HistoryUnavailable."""
        ...

    async def read(self, after: str, count: int, query: HistoryQuery = EVERYTHING) -> list[LogEntry]:
        """Return entries after a cursor, oldest first, with corrections of the wanted kinds, and gaps."""
        ...


class PostgresSignalHistory:
    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def archived(self) -> Archived:
        async with borrowed(self._pool, _WAIT_SECONDS, HistoryUnavailable) as connection:
            row = await connection.fetchrow("SELECT cursor_ms, cursor_seq, kept_from_ms FROM signals_archived")
        return Archived(f"{row['cursor_ms']}-{row['cursor_seq']}", row["kept_from_ms"])

    async def add(self, entries: Sequence[LogEntry]) -> None:
        if not entries:
            return
        cursors = [cursor_key(entry.cursor) for entry in entries]
        events = [entry.event for entry in entries]
        days = [milliseconds // DAY_MS for milliseconds, _ in cursors]
        async with borrowed(self._pool, _WAIT_SECONDS, HistoryUnavailable) as connection, connection.transaction():
            await connection.execute("SELECT signals_partitions($1, $2, 0)", min(days), max(days))
            await connection.execute(
                _INSERT,
                [milliseconds for milliseconds, _ in cursors],
                [number for _, number in cursors],
                [entry.change for entry in entries],
                [event and event.kind for event in events],
                [event and event.program for event in events],
                [event and event.signature for event in events],
                [event and event.slot for event in events],
                [event and event.mint for event in events],
                [body_of(entry) for entry in entries],
            )
            await connection.execute(_MOVE, *cursors[-1])

    async def keep(self, now_ms: int, days: int) -> None:
        today = now_ms // DAY_MS
        async with borrowed(self._pool, _WAIT_SECONDS, HistoryUnavailable) as connection:
            await connection.execute("SELECT signals_partitions($1, $2, $3)", today, today + 1, today - days)

    async def read(self, after: str, count: int, query: HistoryQuery = EVERYTHING) -> list[LogEntry]:
        until = _FOR_EVER_MS if query.until_ms is None else query.until_ms
        async with borrowed(self._pool, _WAIT_SECONDS, HistoryUnavailable) as connection:
            rows = await connection.fetch(
                *(_READ, *cursor_key(after), until, query.kinds, query.programs, query.mint, count)
            )
        return [entry_of(f"{ms}-{number}", change, body) for ms, number, change, body in rows]
