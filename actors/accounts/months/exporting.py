"""Exports a closed month of the ledger to files, account by account, and verifies each account's chain on the way.

Implements: decisions, "Detached months". A shell: the database in, files out. Memory does not grow with the entries;
for each account of the month it keeps its newest number until its statement is found. The product keeps running. Not
here: the form of the files (files.py), the full verification (verifying.py).
"""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg

from actors.accounts import ledger
from actors.accounts.ledger import Entry, EntryType
from actors.accounts.months.files import (
    ACCOUNTS,
    ENTRIES,
    FORMAT,
    ROWS_OF_GROUP,
    STATEMENTS,
    STATEMENTS_OF_GROUP,
    ExportedMonth,
    ExportError,
    Manifest,
    Month,
    MonthWriter,
)
from actors.accounts.months.reading import hashes_before, pages_of, statements_from
from actors.receipts.root_keys import RootKey, published
from actors.receipts.statements import unpack
from actors.release import RELEASE
from actors.units import base58_text

# A process's ledger time may be behind the database's by the tolerance between clocks, and a group takes seconds.
CLOSED_AFTER_MS = 3_600_000
_SLACK_MS = 60_000  # The clocks of two successive owners of an account may differ a little.
_KEYS = "SELECT id, public, sealed, made_ms, retired_ms FROM ledger_keys ORDER BY made_ms DESC"
_STATE = (
    "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint, (SELECT COALESCE(max(next_ms), 0) FROM ledger_cuts)"
)


async def export(
    connection: asyncpg.Connection, month: Month, place: Path, told: Callable[[int], None] = lambda _: None
) -> ExportedMonth:
    """Write the month to its own folder in `place`. told: called with the number of entries written. Raises
    ExportError."""
    state = await connection.fetchrow(_STATE)
    assert state is not None
    now_ms, kept_from_ms = state
    require_closed(month, now_ms)
    if month.first_ms < kept_from_ms:
        raise ExportError(f"{month.name} was detached from the ledger: its export is the one that was made before")
    writer = MonthWriter(place, month)
    try:
        return await _Export(connection, month, writer, told).run(now_ms)
    finally:
        writer.discard()  # Does nothing after `finish`.


def require_closed(month: Month, now_ms: int) -> None:
    """Raise ExportError while the month may still get entries. now_ms: the database's time."""
    if now_ms < month.next_ms + CLOSED_AFTER_MS:
        closed = datetime.fromtimestamp((month.next_ms + CLOSED_AFTER_MS) // 1000, UTC)
        raise ExportError(
            f"{month.name} is not closed: it may get entries until {closed:%F %T} UTC; name an earlier month"
        )


class _Export:
    def __init__(
        self, connection: asyncpg.Connection, month: Month, writer: MonthWriter, told: Callable[[int], None]
    ) -> None:
        self._connection, self._month, self._writer, self._told = connection, month, writer, told
        self._entries, self._credits = Counter[int](), Counter[int]()
        # The account being read: public key, number of its first entry, the hash before it, newest number and hash.
        self._account: tuple[bytes, int, bytes, int, bytes] | None = None
        self._heads: list[tuple[Any, ...]] = []
        self._unsigned: dict[bytes, int] = {}

    async def run(self, now_ms: int) -> ExportedMonth:
        async for page in pages_of(self._connection, self._month):
            self._writer.write(ENTRIES, await self._chained(page))
            self._told(self._writer.rows[ENTRIES])
        self._close_account()
        self._writer.write(ACCOUNTS, self._heads)
        await self._write_statements()
        rows = self._writer.rows
        keys = published(RootKey(*row) for row in map(tuple, await self._connection.fetch(_KEYS)))
        sums = {kind.name.lower(): (self._entries[kind], self._credits[kind]) for kind in EntryType}
        counts = (rows[ENTRIES], rows[ACCOUNTS], rows[STATEMENTS])
        made_at = f"{datetime.fromtimestamp(now_ms // 1000, UTC):%FT%TZ}"
        return self._writer.finish(Manifest(FORMAT, *self._month, made_at, RELEASE, *counts, sums, [], keys))

    async def _chained(self, page: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Verify the chain of each account through a page. Raises ExportError where one is broken."""
        fresh = [
            row[0] for row, before in zip(page, (None, *page), strict=False) if before is None or row[0] != before[0]
        ]
        if self._account is not None and fresh[0] == self._account[0]:
            del fresh[0]
        befores = await hashes_before(self._connection, self._month, fresh)
        for row in page:
            pubkey, *columns, hash_ = row
            entry = Entry(*columns)
            if self._account is None or self._account[0] != pubkey:
                self._close_account()
                head = befores[pubkey] or ledger.genesis(pubkey)
                self._account = (pubkey, entry.seq, head, entry.seq - 1, head)
            _, first, before, last, head = self._account
            if entry.seq != last + 1 or ledger.chain(head, entry) != hash_:
                raise ExportError(
                    f"entry {entry.seq} of {base58_text(pubkey)} does not follow from the one before: run the audit, "
                    "and export from a backup that passes it"
                )
            self._account = (pubkey, first, before, entry.seq, hash_)
            self._entries[entry.type] += 1
            self._credits[entry.type] += entry.amount
        return page

    def _close_account(self) -> None:
        if self._account is None:
            return
        pubkey, _, _, last, _ = self._account
        self._heads.append(self._account)
        self._unsigned[pubkey] = last
        if len(self._heads) >= ROWS_OF_GROUP:
            self._writer.write(ACCOUNTS, self._heads)
            self._heads.clear()

    async def _write_statements(self) -> None:
        """Write the statements from the start of the month until each of its entries is in one. Raises ExportError."""
        group: list[tuple[Any, ...]] = []
        if self._unsigned:
            async for at_ms, _, _, *columns in statements_from(self._connection, self._month.first_ms):
                if at_ms >= self._month.next_ms + _SLACK_MS and not self._unsigned:
                    break
                for leaf in unpack(columns[-1]):
                    if leaf.last >= self._unsigned.get(leaf.pubkey, leaf.last + 1):
                        del self._unsigned[leaf.pubkey]
                group.append(tuple(columns))
                if len(group) >= STATEMENTS_OF_GROUP:
                    self._writer.write(STATEMENTS, group)
                    group = []
        self._writer.write(STATEMENTS, group)
        if self._unsigned:
            pubkey, last = next(iter(self._unsigned.items()))
            raise ExportError(
                f"{len(self._unsigned)} accounts have entries of {self._month.name} in no signed statement, such as "
                f"entry {last} of {base58_text(pubkey)}: start the product, which signs them within a minute, "
                "and export again"
            )
