"""Statements, the keys that sign them, and the entries in them. The port, and PostgreSQL behind it.

Implements: decisions, "Signed roots". Decides nothing; accounts_seal() in functions.sql ensures that each entry is in
one statement, at whichever owner.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple, Protocol

import asyncpg

from actors.accounts.ledger import Entry
from actors.receipts.root_keys import RootKey
from actors.receipts.statements import LEAF_BYTES, SignedStatement
from actors.units import VirtualShard

_SEAL_SECONDS = 8.0
_PAST_ALL = b"\xff" * 33  # Sorts after every public key.
FOUND_MAX = 500
SCANNED_MAX = 5_000  # Accounts examined for missing entries in one query.
_STATEMENT = "text, key_id, signature, leaves"
_SEAL = "SELECT account, sealed_seq, sealed_at_ms FROM accounts_seal($1, $2, $3, $4, $5, $6, $7, $8)"
_CHAINED = (
    "SELECT seq, at_ms, type, amount, balance, operation_id, method, outcome, description, parcels, hash FROM ledger"
    " WHERE pubkey = $1"
)


class NumberTaken(Exception):
    """The series has a statement of this number: another owner with the series' index has written it."""


class Seal(NamedTuple):
    """An account in a statement: its entries `first` to `last`, and the time of the last one."""

    pubkey: bytes
    first: int
    last: int
    at_ms: int


class Sealed(NamedTuple):
    """Newest sealed entry of an account, and that entry's time; 0 and 0 before the first."""

    pubkey: bytes
    seq: int
    at_ms: int


class Unsealed(NamedTuple):
    """accounts: sorted by public key. last: the last account examined; None: there are no more."""

    accounts: list[Sealed]
    last: bytes | None


class FoundLeaf(NamedTuple):
    """An account in a statement. leaf: its packed leaf."""

    at_ms: int
    series: int
    number: int
    leaf: bytes


class ChainedEntry(NamedTuple):
    """An entry with the hash after it."""

    entry: Entry
    hash: bytes


class SealsStore(Protocol):
    """Stores statements. All methods raise StoreUnavailable."""

    async def keys(self) -> list[RootKey]:
        """Return all keys that ever existed, newest first."""
        ...

    async def change_key(self, old_id: str | None, new: RootKey) -> bool:
        """Sign with this key from now on. False: `old_id` no longer signs; nothing was done."""
        ...

    async def series(self) -> list[int]:
        """Return all series that have a statement."""
        ...

    async def newest(self, series: int) -> SignedStatement | None: ...

    async def after(self, series: int, number: int, limit: int) -> list[SignedStatement]:
        """Return the statements of a series after this number, in order."""
        ...

    async def seal(
        self, series: int, number: int, at_ms: int, signed: SignedStatement, seals: Sequence[Seal]
    ) -> list[Sealed]:
        """Write a statement. Raises NumberTaken.

        A non-empty result means that nothing was written: it has the accounts that are sealed up to another entry than
        their seals assume."""
        ...

    async def unsealed(self, shards: Sequence[VirtualShard], after: bytes) -> Unsealed:
        """Among the next SCANNED_MAX accounts after this public key, find those with entries in no statement."""
        ...

    async def sealed(self, pubkey: bytes) -> Sealed:
        """Return the newest sealed entry of the account."""
        ...

    async def following(self, sealed: Sealed, limit: int) -> list[ChainedEntry]:
        """Return entries of an account after this one, oldest first."""
        ...

    async def before(self, pubkey: bytes, at_ms: int, seq: int, limit: int) -> list[ChainedEntry]:
        """Return entries of an account up to this one, newest first."""
        ...

    async def find(self, pubkey: bytes, after: tuple[int, int, int], until_ms: int) -> list[FoundLeaf]:
        """Return the next FOUND_MAX leaves of this account after this place and before that time, sorted by time,
        series and number of their statements.

        It reads all statements in between."""
        ...

    async def statement(self, series: int, number: int) -> SignedStatement: ...


class PostgresSealsStore:
    """listing: shared with the listings of the ledger, so that long reads use one connection at a time."""

    def __init__(self, reading: Callable[[], AbstractAsyncContextManager[Any]], listing: asyncio.Semaphore) -> None:
        self._reading, self._listing = reading, listing

    async def keys(self) -> list[RootKey]:
        async with self._reading() as connection:
            rows = await connection.fetch(
                "SELECT id, public, sealed, made_ms, retired_ms FROM ledger_keys"
                " ORDER BY retired_ms DESC NULLS FIRST, made_ms DESC"
            )
        return [RootKey(*row) for row in rows]

    async def change_key(self, old_id: str | None, new: RootKey) -> bool:
        async with self._reading() as connection:
            return bool(
                await connection.fetchval(
                    "SELECT accounts_change_ledger_key($1, $2, $3, $4, $5)",
                    *(old_id, new.id, new.public, new.sealed, new.made_ms),
                )
            )

    async def series(self) -> list[int]:
        async with self._reading() as connection:
            rows = await connection.fetch(  # One index step for each, because there are millions of statements.
                "WITH RECURSIVE s (series) AS (SELECT min(series) FROM account_statements UNION ALL"
                " SELECT (SELECT min(a.series) FROM account_statements a WHERE a.series > s.series) FROM s"
                " WHERE s.series IS NOT NULL) SELECT series FROM s WHERE series IS NOT NULL"
            )
        return [row[0] for row in rows]

    async def newest(self, series: int) -> SignedStatement | None:
        async with self._reading() as connection:
            row = await connection.fetchrow(
                f"SELECT {_STATEMENT} FROM account_statements WHERE series = $1 ORDER BY number DESC LIMIT 1",  # noqa: S608
                series,
            )
        return None if row is None else SignedStatement(*row)

    async def after(self, series: int, number: int, limit: int) -> list[SignedStatement]:
        async with self._reading() as connection:
            rows = await connection.fetch(
                f"SELECT {_STATEMENT} FROM account_statements WHERE series = $1 AND number > $2"  # noqa: S608 - columns.
                " ORDER BY number LIMIT $3",
                *(series, number, limit),
            )
        return [SignedStatement(*row) for row in rows]

    async def seal(
        self, series: int, number: int, at_ms: int, signed: SignedStatement, seals: Sequence[Seal]
    ) -> list[Sealed]:
        async with self._reading() as connection:
            try:
                rows = await connection.fetch(
                    _SEAL,
                    *(series, number, at_ms, *signed, list(seals)),
                    timeout=_SEAL_SECONDS,
                )
            except asyncpg.UniqueViolationError as error:
                raise NumberTaken from error
        return [Sealed(*row) for row in rows]

    async def unsealed(self, shards: Sequence[VirtualShard], after: bytes) -> Unsealed:
        async with self._reading() as connection:
            last = await connection.fetchval(
                "SELECT pubkey FROM accounts WHERE pubkey > $1 ORDER BY pubkey OFFSET $2 LIMIT 1",
                *(after, SCANNED_MAX - 1),
            )
            rows = await connection.fetch(
                "SELECT a.pubkey, COALESCE(s.seq, 0), COALESCE(s.at_ms, 0) FROM accounts a"
                " LEFT JOIN account_seals s ON s.pubkey = a.pubkey WHERE a.pubkey > $2 AND a.pubkey <= $3"
                " AND a.virtual_shard = ANY ($1) AND a.seq > COALESCE(s.seq, 0) ORDER BY a.pubkey",
                *(list(shards), after, _PAST_ALL if last is None else last),
            )
        return Unsealed([Sealed(*row) for row in rows], last)

    async def sealed(self, pubkey: bytes) -> Sealed:
        async with self._reading() as connection:
            row = await connection.fetchrow("SELECT pubkey, seq, at_ms FROM account_seals WHERE pubkey = $1", pubkey)
        return Sealed(pubkey, 0, 0) if row is None else Sealed(*row)

    async def following(self, sealed: Sealed, limit: int) -> list[ChainedEntry]:
        async with self._reading() as connection:
            rows = await connection.fetch(
                f"{_CHAINED} AND at_ms >= $3 AND (at_ms, seq) > ($3, $2) ORDER BY at_ms, seq LIMIT $4",
                *(*sealed, limit),
            )
        return list(map(_chained, rows))

    async def before(self, pubkey: bytes, at_ms: int, seq: int, limit: int) -> list[ChainedEntry]:
        async with self._listing, self._reading() as connection:
            rows = await connection.fetch(
                f"{_CHAINED} AND at_ms <= $2 AND (at_ms, seq) <= ($2, $3) ORDER BY at_ms DESC, seq DESC LIMIT $4",
                *(pubkey, at_ms, seq, limit),
            )
        return list(map(_chained, rows))

    async def find(self, pubkey: bytes, after: tuple[int, int, int], until_ms: int) -> list[FoundLeaf]:
        async with self._listing, self._reading() as connection:
            rows = await connection.fetch(
                "SELECT at_ms, series, number, substring(leaves FROM place FOR $6) FROM ("
                "SELECT at_ms, series, number, leaves, position($1::bytea IN leaves) AS place FROM account_statements"
                " WHERE at_ms >= $2 AND at_ms < $5 AND (at_ms, series, number) > ($2, $3, $4)) AS s"
                " WHERE place > 0 ORDER BY at_ms, series, number LIMIT $7",
                *(pubkey, *after, until_ms, LEAF_BYTES, FOUND_MAX),
            )
        return [FoundLeaf(*row) for row in rows]

    async def statement(self, series: int, number: int) -> SignedStatement:
        (found,) = await self.after(series, number - 1, 1)
        return found


def _chained(row: Any) -> ChainedEntry:
    *columns, after = row
    return ChainedEntry(Entry(*columns), after)
