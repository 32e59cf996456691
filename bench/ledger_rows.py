"""A ledger of many entries, written by COPY: what the product would have written in months, in minutes.

Accounts are opened as their owner opens them, by the store's own group. Their further entries are debits, and now and
then a refund, with the hashes of the product's own chain, so that the audit has nothing to name. What is not the
product's: one price for each method, one batch of credits for each account, no named keys, no deposits.
"""

import asyncio
import io
import random
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import asyncpg

from actors.accounts.account import (
    Account,
    Defaults,
    Event,
    MarkKind,
    Moment,
    Profile,
    ProfileSet,
    apply,
    new_account,
)
from actors.accounts.core import decide_adjust
from actors.accounts.ledger import Entry, EntryType, chain
from actors.accounts.store import PostgresAccountStore
from actors.accounts.writes import Write
from actors.calls import call_evidence
from actors.units import VIRTUAL_SHARDS, VirtualShard

BUSY = b"busy".ljust(32, b"-")
METHODS = ("getBalance", "getAccountInfo", "getSlot", "getTransaction", "getBlock", "sendTransaction", "signal")
PRICES = dict(zip(METHODS, (1, 1, 1, 5, 25, 2, 1), strict=True))
RARE, RARE_PRICE = "getProgramAccounts", 25
RARE_CALLS = 50
REFUNDS_EVERY = 2_000
ROWS_AT_ONCE = 200_000
_OTHERS = 500
_CREDITS = 10**12
_REPLICAS = (b"replica1", b"replica2")
_DIGEST = "q1w2e3r4t5y6u7i8o9p0aa"  # As long as that of a real answer; its content does not matter here.
_DEFAULTS = Defaults(requests_per_second=100, concurrency=64, hold_seconds=60, batch_seconds=3_650 * 86_400)
_LEDGER = (
    *("pubkey", "at_ms", "seq", "type", "outcome", "amount", "balance"),
    *("operation_id", "method", "description", "parcels", "hash"),
)
_MARKS = ("pubkey", "kind", "operation", "at_ms", "amount")


def months(count: int, end: tuple[int, int] = (2026, 11)) -> list[int]:
    """Return where so many months begin, the last of them before `end`, and where that one ends. Unix milliseconds."""
    last = end[0] * 12 + end[1] - 1
    return [
        int(datetime(place // 12, place % 12 + 1, 1, tzinfo=UTC).timestamp()) * 1000
        for place in range(last - count, last + 1)
    ]


@dataclass(slots=True)
class Book:
    """One account on its way: what its next entry goes on from. left: credits of its one batch."""

    pubkey: bytes
    seq: int
    at_ms: int
    balance: int
    head: bytes
    consumed: int = 0
    last: tuple[bytes, str, int, str] = field(default=(b"", "", 0, ""))  # Operation, method, price, evidence.

    def next(
        self, at_ms: int, kind: EntryType, amount: int, operation: bytes, method: str, text: str
    ) -> tuple[Any, ...]:
        """Return the next entry as a row of the ledger."""
        self.seq, self.at_ms, self.balance = self.seq + 1, at_ms, self.balance + amount
        self.consumed -= amount
        parcels = f"1:{amount}"
        entry = Entry(self.seq, at_ms, int(kind), amount, self.balance, operation, method, 0, text, parcels)
        self.head = chain(self.head, entry)
        return (
            self.pubkey,
            at_ms,
            self.seq,
            int(kind),
            0,
            amount,
            self.balance,
            operation,
            method,
            text,
            parcels,
            self.head,
        )


async def open_books(store: PostgresAccountStore, at_ms: int, others: int = _OTHERS) -> list[Book]:
    """Open the busy account and others with credits, by groups that the store writes."""
    epoch = await store.take_over("bench", tuple(map(VirtualShard, range(VIRTUAL_SHARDS))), False)
    books = []
    for pubkey in (BUSY, *(number.to_bytes(32, "big") for number in range(others))):
        account = new_account(pubkey, Profile(created_at=at_ms // 1000), _DEFAULTS)
        group = Write()
        _take(account, ProfileSet(account.profile), group, at_ms)
        granted = decide_adjust(account, _CREDITS, "measurement", b"opened by a measurement", Moment(at_ms, 0))
        assert granted is not None
        _take(account, granted, group, at_ms)
        group.cut({pubkey: account})
        await store.write(epoch, group)
        books.append(Book(pubkey, account.seq, account.last_ms, int(account.purse.balance), account.head))
    return books


def _take(account: Account, event: Event, group: Write, at_ms: int) -> None:
    apply(account, event)
    group.add(account, event, at_ms)


def made(books: Sequence[Book], rows: int, span_ms: tuple[int, int], busy_share: float, seed: int = 7) -> Iterator[Any]:
    """Yield lists of rows in the order of their time: busy_share of them the first book's, the rest the others'.

    RARE_CALLS of the busy account are of one rare method, evenly over the whole time; each row of REFUNDS_EVERY gives
    the account's newest charge back.
    """
    chance, (first_ms, end_ms) = random.Random(seed).random, span_ms
    step, rare_every = (end_ms - first_ms) / rows, rows // RARE_CALLS
    busy, others = books[0], books[1:]
    found: list[tuple[Any, ...]] = []
    for number in range(rows):
        at_ms = first_ms + int(number * step)
        is_rare = number % rare_every == rare_every // 2
        book = busy if is_rare or chance() < busy_share else others[int(chance() * len(others))]
        if number % REFUNDS_EVERY == REFUNDS_EVERY - 1 and book.last[0]:
            operation, method, price, text = book.last
            found.append(book.next(at_ms, EntryType.REFUND, price, operation, method, text))
            book.last = (b"", "", 0, "")
        else:
            method = RARE if is_rare else METHODS[int(chance() ** 2 * len(METHODS))]
            price = RARE_PRICE if is_rare else PRICES[method]
            operation = _REPLICAS[number % 2] + number.to_bytes(8, "big")
            text = call_evidence(operation, f"{operation[:5].hex()}-{number:012x}", _DIGEST)
            found.append(book.next(at_ms, EntryType.DEBIT, -price, operation, method, text))
            book.last = (operation, method, price, text)
        if len(found) == ROWS_AT_ONCE:
            yield found
            found = []
    yield found


_HEAD, _SMALL = struct.Struct(">h").pack, struct.Struct(">ih").pack
_BIG, _SIZE = struct.Struct(">iq").pack, struct.Struct(">i").pack


def _ledger_row(row: tuple[Any, ...]) -> bytes:
    pubkey, at_ms, seq, kind, outcome, amount, balance, operation, *texts, digest = row
    method, description, parcels = (text.encode() for text in texts)
    return b"".join(
        (
            *(_HEAD(12), _SIZE(32), pubkey, _BIG(8, at_ms), _BIG(8, seq), _SMALL(2, kind), _SMALL(2, outcome)),
            *(_BIG(8, amount), _BIG(8, balance), _SIZE(len(operation)), operation, _SIZE(len(method)), method),
            *(_SIZE(len(description)), description, _SIZE(len(parcels)), parcels, _SIZE(32), digest),
        )
    )


def _debit_row(row: tuple[Any, ...]) -> bytes:
    return b"".join((_HEAD(2), _SIZE(len(row[7])), row[7], _BIG(8, row[1])))


def binary(rows: Sequence[tuple[Any, ...]], encode: Callable[[tuple[Any, ...]], bytes]) -> io.BytesIO:
    """Return rows in COPY's binary format. The driver's own encoder takes four times as long."""
    return io.BytesIO(b"PGCOPY\n\xff\r\n\x00" + bytes(8) + b"".join(map(encode, rows)) + b"\xff\xff")


async def load(
    connection: asyncpg.Connection,
    store: PostgresAccountStore,
    rows: int,
    months_count: int,
    busy_share: float,
    seconds_max: float | None = None,
) -> int:
    """Write so many entries into the months before November 2026; return how many there are. connection: of the role
    that owns the tables. seconds_max: stop after it, with what there is."""
    begins = months(months_count)
    for first_ms in begins[:-1]:
        await connection.execute("SELECT accounts_partition($1)", first_ms)
    books = await open_books(store, begins[0])
    loop, written = asyncio.get_running_loop(), 0
    began = loop.time()
    for some in made(books, rows, (begins[0] + 1_000, begins[-1]), busy_share):
        debits = [row for row in some if row[3] == EntryType.DEBIT]
        refunds = [(row[0], MarkKind.REFUND, row[7], row[1], row[5]) for row in some if row[3] == EntryType.REFUND]
        await _copy(connection, "ledger", _LEDGER, binary(some, _ledger_row))
        await _copy(connection, "account_debits", ("operation", "at_ms"), binary(debits, _debit_row))
        await connection.copy_records_to_table("account_operations", records=refunds, columns=_MARKS)
        written += len(some)
        if seconds_max is not None and loop.time() - began > seconds_max:
            break
    await connection.executemany(
        "UPDATE accounts SET seq = $2, balance = $3, total_consumed = $4, last_ms = $5, head_hash = $6"
        " WHERE pubkey = $1",
        [(book.pubkey, book.seq, book.balance, book.consumed, book.at_ms, book.head) for book in books],
    )
    await connection.executemany(
        "UPDATE credit_batches SET remaining = $2 WHERE pubkey = $1", [(book.pubkey, book.balance) for book in books]
    )
    seconds_of_vacuum = max(600, rows / 20_000)
    await connection.execute("VACUUM ANALYZE ledger", timeout=seconds_of_vacuum)
    await connection.execute("VACUUM ANALYZE account_debits", timeout=seconds_of_vacuum)
    return written


async def _copy(connection: asyncpg.Connection, table: str, columns: Sequence[str], data: io.BytesIO) -> None:
    await connection.copy_to_table(table, source=data, columns=columns, format="binary", timeout=300)
