"""Reads the history in slices of many thousand rows, as the bytes that the database sends: a port and its store.

Implements: decisions, "history of signals". The database writes each row as one line of JSON, and a COPY brings them as
bytes, so that an event loop touches no single row; another process reads the lines. Nothing is kept open
between two slices: a client may be slow. Corrections are found by an index of their own, which is small.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, Protocol

import asyncpg

from actors.signals.history import Archived, HistoryQuery, HistoryUnavailable
from actors.signals.history_query import Cursor
from actors.signals.history_slices import CORRECTED_MS_MAX
from actors.storage.connections import borrowed

GAPS_MAX = 100
_WAIT_SECONDS = 10.0
_COPY_SECONDS = 9.0
_MATCHING = """
cursor_ms >= $1 AND (cursor_ms, cursor_seq) > ($1::bigint, $2::bigint)
AND cursor_ms <= $3 AND (cursor_ms, cursor_seq) <= ($3::bigint, $4::bigint)
AND change IN ('event', 'restored')
AND ($5::text[] IS NULL OR kind = ANY($5)) AND ($6::text[] IS NULL OR program = ANY($6))
AND ($7::text IS NULL OR mint = $7)
"""
_SLICE = f"""
SELECT '[' || cursor_ms || ',' || cursor_seq || ',' || convert_from(body, 'UTF8') || ']' FROM signals
WHERE {_MATCHING} ORDER BY cursor_ms, cursor_seq LIMIT $8::bigint
"""  # noqa: S608  # Texts of this file.
# Both queries repeat the condition of the index.
_CORRECTIONS = """
SELECT '[' || cursor_ms || ',' || cursor_seq || ',"' || change || '",' || convert_from(body, 'UTF8') || ']' FROM signals
WHERE change NOT IN ('event', 'restored') AND change <> 'gap' AND cursor_ms >= $1::bigint AND cursor_ms < $2::bigint
AND ($3::text[] IS NULL OR kind = ANY($3)) AND ($4::text IS NULL OR mint = $4)
AND ($5::text[] IS NULL OR signature IN (
    SELECT own.signature FROM signals AS own
    WHERE own.program = ANY($5) AND own.cursor_ms >= $1::bigint AND own.cursor_ms <= $6::bigint
    AND own.change IN ('event', 'restored')))
ORDER BY cursor_ms, cursor_seq
"""
_GAPS = """
SELECT convert_from(body, 'UTF8') FROM signals
WHERE change NOT IN ('event', 'restored') AND change = 'gap' AND cursor_ms >= $1 AND cursor_ms < $2
ORDER BY cursor_ms, cursor_seq LIMIT $3
"""
_ESTIMATE = re.compile(r"rows=(\d+)")


class HistoryRange(NamedTuple):
    """after: exclusive. last: inclusive."""

    after: Cursor
    last: Cursor
    query: HistoryQuery


class HistoryRows(Protocol):
    async def extent(self) -> Archived:
        """Return up to which cursor the history is complete, and since when. All methods raise HistoryUnavailable."""
        ...

    async def slice(self, wanted: HistoryRange, count: int) -> list[bytes]:
        """Return the first so many signals of a range, oldest first, without corrections: pieces of lines of
        [cursor_ms, cursor_seq, event], in which COPY has doubled each backslash."""
        ...

    async def corrections(self, first_ms: int, last_ms: int, query: HistoryQuery) -> list[bytes]:
        """Return lines of [cursor_ms, cursor_seq, change, event], as above, for the signals of a slice: its first time
        and its last one, both included. Of the wanted kinds and the wanted mint, which are part of what a signal is
        known by; and of transactions that have signals of the wanted programs in this time. The program itself is no
        such part: a transaction that lands again may tell another one."""
        ...

    async def gaps(self, from_ms: int, until_ms: int) -> list[str]:
        """Return the first GAPS_MAX gaps reported in this time, as JSON."""
        ...

    async def estimate(self, wanted: HistoryRange) -> int:
        """Estimate the signals in a range by the database's statistics."""
        ...


class PostgresHistoryRows:
    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def extent(self) -> Archived:
        async with self._connection() as connection:
            row = await connection.fetchrow("SELECT cursor_ms, cursor_seq, kept_from_ms FROM signals_archived")
        return Archived(f"{row['cursor_ms']}-{row['cursor_seq']}", row["kept_from_ms"])

    async def slice(self, wanted: HistoryRange, count: int) -> list[bytes]:
        return await self._copy(_SLICE, *_arguments(wanted), count)

    async def corrections(self, first_ms: int, last_ms: int, query: HistoryQuery) -> list[bytes]:
        until_ms = last_ms + CORRECTED_MS_MAX
        return await self._copy(_CORRECTIONS, first_ms, until_ms, query.kinds, query.mint, query.programs, last_ms)

    async def gaps(self, from_ms: int, until_ms: int) -> list[str]:
        async with self._connection() as connection:
            return [row[0] for row in await connection.fetch(_GAPS, from_ms, until_ms, GAPS_MAX)]

    async def estimate(self, wanted: HistoryRange) -> int:
        async with self._connection() as connection:
            plan = await connection.fetch(
                f"EXPLAIN SELECT FROM signals WHERE {_MATCHING}",
                *_arguments(wanted),
            )
        found = _ESTIMATE.search(plan[0][0])
        return int(found[1]) if found else 0

    async def _copy(self, query: str, *arguments: Any) -> list[bytes]:
        pieces: list[bytes] = []

        async def take(piece: bytes) -> None:
            pieces.append(piece)

        async with self._connection() as connection:
            await connection.copy_from_query(query, *arguments, output=take, timeout=_COPY_SECONDS)
        return pieces

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Any]:
        async with borrowed(self._pool, _WAIT_SECONDS, HistoryUnavailable) as connection:
            try:
                yield connection
            except asyncio.CancelledError:
                connection.terminate()  # The client left in the middle of a copy.
                raise


def _arguments(wanted: HistoryRange) -> tuple[Any, ...]:
    query = wanted.query
    return *wanted.after, *wanted.last, query.kinds, query.programs, query.mint
