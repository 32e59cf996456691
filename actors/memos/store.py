"""Stores memos and the state of each. The port, and PostgreSQL behind it.

Implements: decisions, "Signed roots" (memos on the chain). Decides nothing. Each write names the attempt that its
writer knows, and changes nothing where another process has made the next one: so only one of two senders sends.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import asyncpg

from actors.memos.core import Memo, Root
from actors.storage.connections import away_as

_UNDER_WAY = (
    "SELECT series, number, digest, hour, attempt, charged, signature, transaction, valid_to FROM root_memos"
    " WHERE outcome IS NULL ORDER BY hour, series"
)
_WHERE = " WHERE series = $1 AND hour = $2 AND attempt = $3 AND outcome IS NULL"


class MemosUnavailable(Exception):
    """The database did not answer. Whether a write was made is not known."""


class Latest(NamedTuple):
    """Of one series. hour: of its newest memo, whatever became of it. number: of the newest statement that is on the
    chain or on its way; 0: none is."""

    hour: int
    number: int


class MemoStore(Protocol):
    """Stores memos. All methods raise MemosUnavailable."""

    async def hour(self) -> int:
        """Return the hour by the database's clock, which all senders share."""
        ...

    async def latest(self, series: Sequence[int]) -> list[Latest]:
        """Return the state of each of these series, in order; zeros if it has none."""
        ...

    async def begin(self, root: Root, hour: int) -> None:
        """Add a memo of this series in this hour, unless there is one."""
        ...

    async def under_way(self) -> list[Memo]:
        """Return all memos without an outcome, oldest first."""
        ...

    async def attempt(self, memo: Memo, signature: bytes, transaction: bytes, valid_to: int) -> bool:
        """Store the next attempt before it is sent. False: another sender was faster, and this one must not send."""
        ...

    async def landed(self, memo: Memo, lamports: int) -> bool:
        """Record that it landed. False: another sender has recorded it."""
        ...

    async def failed(self, memo: Memo, lamports: int) -> bool:
        """Record that the newest attempt failed on the chain. False: another sender has recorded it."""
        ...

    async def lost(self, memo: Memo) -> bool:
        """Record that no attempt can land any more. False: another sender has recorded it."""
        ...


class PostgresMemoStore:
    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def hour(self) -> int:
        with away_as(MemosUnavailable):
            return int(await self._pool.fetchval("SELECT extract(epoch FROM clock_timestamp())::bigint / 3600"))

    async def latest(self, series: Sequence[int]) -> list[Latest]:
        with away_as(MemosUnavailable):
            rows = await self._pool.fetch(
                "SELECT COALESCE((SELECT m.hour FROM root_memos m WHERE m.series = s.series"
                " ORDER BY m.hour DESC LIMIT 1), 0),"
                " COALESCE((SELECT m.number FROM root_memos m WHERE m.series = s.series"
                " AND m.outcome IS DISTINCT FROM 'lost' ORDER BY m.hour DESC LIMIT 1), 0)"
                " FROM unnest($1::integer[]) WITH ORDINALITY AS s (series, place) ORDER BY s.place",
                list(series),
            )
        return [Latest(*row) for row in rows]

    async def begin(self, root: Root, hour: int) -> None:
        with away_as(MemosUnavailable):
            await self._pool.execute(
                "INSERT INTO root_memos (series, number, digest, hour) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING",
                *(*root, hour),
            )

    async def under_way(self) -> list[Memo]:
        with away_as(MemosUnavailable):
            rows = await self._pool.fetch(_UNDER_WAY)
        return [Memo(Root(*row[:3]), *row[3:]) for row in map(tuple, rows)]

    async def attempt(self, memo: Memo, signature: bytes, transaction: bytes, valid_to: int) -> bool:
        changes = "attempt = attempt + 1, signature = $4, transaction = $5, valid_to = $6"
        return await self._update(memo, changes, signature, transaction, valid_to)

    async def landed(self, memo: Memo, lamports: int) -> bool:
        return await self._update(memo, "outcome = 'landed', lamports = lamports + $4", lamports)

    async def failed(self, memo: Memo, lamports: int) -> bool:
        changes = (
            "charged = charged + 1, lamports = lamports + $4, attempt = attempt + 1, signature = NULL,"
            " transaction = NULL, valid_to = NULL"
        )
        return await self._update(memo, changes, lamports)

    async def lost(self, memo: Memo) -> bool:
        return await self._update(memo, "outcome = 'lost'")

    async def _update(self, memo: Memo, changes: str, *values: object) -> bool:
        query = f"UPDATE root_memos SET {changes}{_WHERE}"  # noqa: S608 - constants of this module.
        with away_as(MemosUnavailable):
            done: str = await self._pool.execute(query, memo.root.series, memo.hour, memo.attempt, *values)
        return done == "UPDATE 1"
