"""Lists all accounts for operators: by prefix of the public key, newest or highest balance first, page by page.

Implements: decisions, "The operators' page"; actors/accounts/README.md, "The list of accounts". The port, and
PostgreSQL behind it. Any owner reads it, as the accounts of all owners are in one table. A list without a prefix reads
all accounts: an index by balance would cost every call a write.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from enum import StrEnum, unique
from typing import Any, NamedTuple, Protocol

from actors.accounts.api import Command

LISTED_MAX = 200
PREFIX_CHARACTERS_MAX = 44
_ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_BYTES, _BASE = 32, 58
_CHARACTERS_MAX = 44  # Length of the base58 text of 32 bytes.
_KEY_MAX = 2**64


@unique
class Order(StrEnum):
    """Sort order of a list, descending; equal values are sorted by public key."""

    NEWEST = "newest"
    BALANCE = "balance"


class ListPlace(NamedTuple):
    """Where a page starts: the previous account's sort value and its public key."""

    value: int
    pubkey: bytes

    @property
    def text(self) -> str:
        return f"{self.value}-{self.pubkey.hex()}"


class ListedAccount(NamedTuple):
    """An account as last written: calls of the last milliseconds may be missing."""

    pubkey: bytes
    balance: int
    status: str
    total_consumed: int
    created_at: int
    price_list: str = ""  # Empty: the public prices.

    def place(self, order: Order) -> ListPlace:
        return ListPlace(self.created_at if order is Order.NEWEST else self.balance, self.pubkey)


class ListAccounts(Command[tuple[ListedAccount, ...]], frozen=True):
    """Operator: list at most `limit` accounts.

    prefix: of the base58 public key. status: `active`, `suspended`; empty: any. after: a place; None: from the
    beginning."""

    order: str = Order.NEWEST
    prefix: str = ""
    status: str = ""
    after: tuple[int, bytes] | None = None
    limit: int = 50


def mistake_in_listing(command: ListAccounts) -> str | None:
    if command.order not in set(map(str, Order)):
        return f"order must be {' or '.join(Order)}"
    if len(command.prefix) > PREFIX_CHARACTERS_MAX or not set(command.prefix) <= set(_ALPHABET):
        return "the beginning of a public key is at most 44 characters of base58"
    if command.status not in ("", "active", "suspended"):
        return "status must be active or suspended"
    if not 1 <= command.limit <= LISTED_MAX:
        return f"limit must be 1 to {LISTED_MAX}"
    after = command.after
    if after is not None and not (0 <= after[0] < _KEY_MAX // 2 and len(after[1]) == _BYTES):
        return "cursor must be the next_cursor of a page"
    return None


def place_of(text: str) -> ListPlace | None:
    """Parse the text of a place. None: the text is malformed."""
    value, _, pubkey = text.partition("-")
    if not (value.isascii() and value.isdigit() and len(value) <= 19 and len(pubkey) == 2 * _BYTES):
        return None
    try:
        return ListPlace(int(value), bytes.fromhex(pubkey))
    except ValueError:
        return None


def ranges_of(prefix: str) -> list[tuple[bytes, bytes]]:
    """Return the ranges (first and last key included) of public keys whose base58 text has this prefix.

    A leading `1` stands for a leading zero byte, and the other characters are the digits of the rest. So the text of a
    key with a given number of zero bytes has one of a few lengths, and for each the beginning is a range of numbers.
    """
    digits = prefix.lstrip("1")
    ones = len(prefix) - len(digits)
    if ones > _BYTES:
        return []
    high = 256 ** (_BYTES - ones) - 1
    if not digits:
        return [(bytes(_BYTES), high.to_bytes(_BYTES))]
    if ones == _BYTES:
        return []
    low, number = 256 ** (_BYTES - ones - 1), 0
    for character in digits:
        number = number * _BASE + _ALPHABET.index(character)
    found = []
    for more in range(_CHARACTERS_MAX - len(digits) + 1):
        first, last = max(low, number * _BASE**more), min(high, (number + 1) * _BASE**more - 1)
        if first <= last:
            found.append((first.to_bytes(_BYTES), last.to_bytes(_BYTES)))
    return found


class DirectoryStore(Protocol):
    """Reads the list of accounts. All methods raise StoreUnavailable."""

    async def list(self, command: ListAccounts) -> list[ListedAccount]: ...

    async def price_lists(self) -> dict[str, int]:
        """Return how many accounts have each price list."""
        ...


class PostgresDirectory:
    """listing: shared with the listings of the ledger, so that long reads use one connection at a time."""

    def __init__(self, reading: Callable[[], AbstractAsyncContextManager[Any]], listing: asyncio.Semaphore) -> None:
        self._reading, self._listing = reading, listing

    async def list(self, command: ListAccounts) -> list[ListedAccount]:
        column = "created_at" if command.order == Order.NEWEST else "balance"
        ranges = ranges_of(command.prefix)
        # A full key is one range, found by the primary key; the planner also uses that index for a few ranges.
        wanted = " OR ".join(f"pubkey BETWEEN ${2 * at + 5} AND ${2 * at + 6}" for at in range(len(ranges)))
        value, pubkey = command.after or (_KEY_MAX // 2 - 1, b"")
        if not ranges:
            return []
        async with self._listing, self._reading() as connection:
            rows = await connection.fetch(
                "SELECT pubkey, balance, status, total_consumed, created_at, COALESCE((SELECT name"  # noqa: S608 - ours.
                " FROM account_price_lists AS p WHERE p.pubkey = accounts.pubkey), '') FROM accounts"
                f" WHERE ($1 = '' OR status = $1) AND ({column} < $2 OR ({column} = $2 AND pubkey > $3))"
                f"{f' AND ({wanted})' if command.prefix else ''} ORDER BY {column} DESC, pubkey LIMIT $4",
                *(command.status, value, pubkey, command.limit),
                *(bound for each in ranges for bound in each if command.prefix),
            )
        return [ListedAccount(*row) for row in map(tuple, rows)]

    async def price_lists(self) -> dict[str, int]:
        async with self._listing, self._reading() as connection:
            rows = await connection.fetch(
                "SELECT name, count(*) FROM account_price_lists WHERE name <> '' GROUP BY name"
            )
        return dict(map(tuple, rows))
