"""Reads the entries and the statements of one month from the database, some rows at a time.

Implements: decisions, "Detached months". Each page is a separate SQL statement: entries of a closed month never change,
and one long transaction would stop the database from vacuuming the tables that each call writes. Not here: files.
"""

from collections.abc import AsyncIterator
from typing import Any

import asyncpg

from actors.accounts.months.files import ROWS_OF_GROUP, STATEMENTS_OF_GROUP, Month

_PAGE = (
    "SELECT pubkey, seq, at_ms, type, amount, balance, operation_id, method, outcome, description, parcels, hash"
    " FROM ledger WHERE at_ms >= $1 AND at_ms < $2 AND (pubkey, at_ms, seq) > ($3, $4, $5)"
    " ORDER BY pubkey, at_ms, seq LIMIT $6"
)
# The hash before these accounts' first entries in the month, from the ledger or carried over a cut.
_BEFORE = (
    "SELECT asked.pubkey, COALESCE((SELECT l.hash FROM ledger AS l WHERE l.pubkey = asked.pubkey AND l.at_ms < $2"
    " ORDER BY l.at_ms DESC, l.seq DESC LIMIT 1), (SELECT c.hash FROM ledger_carried AS c"
    " WHERE c.pubkey = asked.pubkey AND c.at_ms < $2)) FROM unnest($1::bytea[]) AS asked (pubkey)"
)
_STATEMENTS = (
    "SELECT at_ms, series, number, text, key_id, signature, leaves FROM account_statements"
    " WHERE at_ms >= $1 AND (at_ms, series, number) > ($1, $2, $3) ORDER BY at_ms, series, number LIMIT $4"
)


async def pages_of(connection: asyncpg.Connection, month: Month) -> AsyncIterator[list[tuple[Any, ...]]]:
    """Yield pages of the month's entries, as columns of an exported file, in the order of accounts, times and
    numbers."""
    place = (b"", 0, 0)
    while True:
        rows = await connection.fetch(_PAGE, month.first_ms, month.next_ms, *place, ROWS_OF_GROUP)
        if rows:
            page = list(map(tuple, rows))
            yield page
            pubkey, seq, at_ms = page[-1][:3]
            place = (pubkey, at_ms, seq)
        if len(rows) < ROWS_OF_GROUP:
            return


async def hashes_before(
    connection: asyncpg.Connection, month: Month, pubkeys: list[bytes]
) -> dict[bytes, bytes | None]:
    """Return the hash before each account's first entry in the month; None: it has no entry before it."""
    return dict(map(tuple, await connection.fetch(_BEFORE, pubkeys, month.first_ms))) if pubkeys else {}


async def statements_from(connection: asyncpg.Connection, first_ms: int) -> AsyncIterator[tuple[Any, ...]]:
    """Yield statements from this time on, oldest first: time, series and number, and the columns of an exported
    file."""
    place = (first_ms, -1, -1)
    while True:
        rows = await connection.fetch(_STATEMENTS, *place, STATEMENTS_OF_GROUP)
        for row in rows:
            yield tuple(row)
        if len(rows) < STATEMENTS_OF_GROUP:
            return
        place = tuple(rows[-1])[:3]
