"""The bill of an account for one month: opening balance, credits moved by type and method, closing balance.

Implements: actors/accounts/README.md, "Bills". The port, and PostgreSQL behind it; the sums are accounts_bill()'s
(functions.sql). Not here: parameters and formats of the page (gateway/pages/bills.py).
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

import msgspec

from actors.accounts.api import OfAccount
from actors.accounts.months.cuts import detached
from actors.errors import Refusal

_OPENING, _CLOSING, _DETACHED = -1, -2, -3  # Kinds of rows that accounts_bill() returns.


class BillEnd(NamedTuple):
    """State of the account at one end of the month: its balance after the entry with this number, time and hash.

    number 0: there was no entry.
    """

    balance: int
    number: int
    at_ms: int
    hash: bytes


class BillLine(NamedTuple):
    """Entries of one type and method. day: of the month, from 1; 0: of the whole month. credits: signed sum.

    first, last: the lowest and the highest number among them. digest: SHA-256 over the hashes after each of them, in
    their order; a client that has the receipts can compute it.
    """

    day: int
    type: int
    method: str
    entries: int
    credits: int
    first: int
    last: int
    digest: bytes


class Bill(msgspec.Struct, frozen=True):
    """month: its first millisecond. The opening balance plus all lines equals the closing balance, to the credit."""

    pubkey: bytes
    from_ms: int
    to_ms: int
    opening: BillEnd
    closing: BillEnd
    lines: tuple[BillLine, ...]


class ReadBill(OfAccount[Bill], frozen=True):
    """GET /account/bills/{month}. year, month: of the calendar, in UTC. by_day: a line for each day too."""

    year: int
    month: int
    by_day: bool = False


def month_ms(year: int, month: int) -> tuple[int, int]:
    """The first millisecond of a month, and that of the next one, in UTC."""
    first = datetime(year, month, 1, tzinfo=UTC)
    following = datetime(year + month // 12, month % 12 + 1, 1, tzinfo=UTC)
    return int(first.timestamp()) * 1000, int(following.timestamp()) * 1000


class BillStore(Protocol):
    """Reads bills. All methods raise StoreUnavailable."""

    async def read(self, command: ReadBill) -> Bill | Refusal:
        """Read the bill as of one moment; the month may be unfinished. Refuses a month that was detached from the
        ledger."""
        ...


class PostgresBillStore:
    """listing: shared with the listings of the ledger, so that long reads use one connection at a time."""

    def __init__(self, reading: Callable[[], AbstractAsyncContextManager[Any]], listing: asyncio.Semaphore) -> None:
        self._reading, self._listing = reading, listing

    async def read(self, command: ReadBill) -> Bill | Refusal:
        first_ms, next_ms = month_ms(command.year, command.month)
        async with self._listing, self._reading() as connection:
            rows = await connection.fetch(
                "SELECT type, day, method, entries, credits, first, last, at_ms, digest"
                " FROM accounts_bill($1, $2, $3, $4)",
                *(command.pubkey, first_ms, next_ms, command.by_day),
            )
        ends: dict[int, BillEnd] = {}
        lines: list[BillLine] = []
        for kind, day, method, entries, credits, first, last, at_ms, digest in map(tuple, rows):
            if kind == _DETACHED:
                return detached(credits)
            if kind in (_OPENING, _CLOSING):
                ends[kind] = BillEnd(credits, last, at_ms, digest)
            else:
                lines.append(BillLine(day, kind, method, entries, credits, first, last, digest))
        return bill_of(command.pubkey, (first_ms, next_ms), ends[_OPENING], ends[_CLOSING], lines)


def bill_of(pubkey: bytes, month: tuple[int, int], opening: BillEnd, closing: BillEnd, lines: list[BillLine]) -> Bill:
    """Sort the lines by day, and within a day by first entry."""
    bill = Bill(pubkey, *month, opening, closing, tuple(sorted(lines, key=lambda line: (line.day, line.first))))
    assert opening.balance + sum(line.credits for line in lines) == closing.balance, bill
    # Facts have sequence numbers too, but move no credits.
    assert sum(line.entries for line in lines) <= closing.number - opening.number, bill
    return bill
