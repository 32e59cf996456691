"""Usage of one account: calls and credits by method, hour and day.

Implements: `GET /account/usage` (README.md, "Usage"): the limits of a query, the port and its PostgreSQL store, and the
rollup that makes reading cheap. Not here: the sums, by accounts_usage_by() and accounts_roll_usage() (functions.sql);
parameters and JSON of the page (gateway/pages/usage.py).

A call is an entry of type `debit`. A refund takes its call out of the hour in which the call was charged, so no figure
is ever below zero and the sum over all time is the account's `total_consumed_credits`. Deposits, bonuses, adjustments
and expiries are no usage. The code that writes charges does not touch usage: the rollup is derived from the ledger
afterwards, and usage is exact however much was rolled up.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple, Protocol

from actors.accounts.account import Account
from actors.accounts.ledger import EntryType
from actors.accounts.stored import StoreUnavailable
from actors.clock import Clock
from actors.growing import Growing

logger = logging.getLogger(__name__)

HOUR_MS = 3_600_000
DAY_HOURS = 24
COLUMNS = ("method", "hour", "day", "key")
RANGE_DAYS_MAX = 92
HOURLY_DAYS_MAX = 31
ROWS_MAX = 10_000
READS_MAX = 2  # Concurrent queries of one account at its owner; further ones wait.
_HOUR_MAX = 2_016_000  # In the year 2199, the last one for which the ledger has partitions.
BEHIND_ENTRIES = 500  # Entries by which an account's rollup may be behind; reading them takes a few milliseconds.
_LOOK_SECONDS = 10.0
_CHUNK_ENTRIES = 5_000
_TICK_ENTRIES = 20_000  # Entries in one tick, about 0.2 s of the database; the rest waits for the next tick.
_TICK_ACCOUNTS = 200
TAIL_ENTRIES = BEHIND_ENTRIES + 100  # The rollup of an account in memory is seldom further behind.
_HOURS = (
    "SELECT pubkey, hour, sum(credits) FROM ("  # noqa: S608 - numbers of kinds.
    "SELECT u.pubkey, u.hour, u.credits FROM account_usage AS u WHERE u.pubkey = ANY ($1) AND u.hour >= $2 UNION ALL"
    " SELECT a.pubkey, t.hour, t.credits FROM unnest($1::bytea[]) AS a (pubkey)"
    " LEFT JOIN account_usage_marks AS m ON m.pubkey = a.pubkey CROSS JOIN LATERAL ("
    "SELECT (l.at_ms / 3600000)::integer AS hour,"
    f" CASE WHEN l.type IN ({EntryType.DEBIT:d}, {EntryType.REFUND:d}) THEN -l.amount ELSE 0 END AS credits"
    " FROM ledger AS l WHERE l.pubkey = a.pubkey AND l.at_ms >= COALESCE(m.at_ms, 0)"
    " AND (l.at_ms, l.seq) > (COALESCE(m.at_ms, 0), COALESCE(m.seq, 0)) ORDER BY l.at_ms, l.seq LIMIT $4) AS t"
    ") AS every WHERE hour >= $2 AND hour < $3 GROUP BY pubkey, hour HAVING sum(credits) <> 0"
)


class UsageLine(Growing, frozen=True):
    """One row.

    method None: the query was not by method. hour: first hour of the row's hour or day, counted from 1970; 0: the query
    was by neither. key: number of the named key; 0: none, or not asked for."""

    method: str | None
    hour: int
    calls: int
    credits: int
    key: int = 0


def usage_mistake(first_hour: int, end_hour: int, by: tuple[str, ...]) -> str | None:
    """Return a sentence on what is wrong with a query for the hours from first_hour to before end_hour, or None."""
    if not by or len(set(by)) < len(by) or not set(by) <= set(COLUMNS):
        return f"by must be one or more of {', '.join(COLUMNS)}, separated by commas, each once"
    if not 0 <= first_hour <= _HOUR_MAX or not 0 <= end_hour <= _HOUR_MAX:
        return "from and to must be times from 1970 to 2199"
    if first_hour > end_hour:  # Equal times are an empty range without rows.
        return "from must not be after to"
    days = HOURLY_DAYS_MAX if "hour" in by else RANGE_DAYS_MAX
    if end_hour - first_hour > days * DAY_HOURS + 1:  # Two times with this distance touch one hour more.
        by_hour = " by hour" if "hour" in by else ""
        return f"from and to may be at most {days} days apart{by_hour}: ask for a shorter range, or for several"
    return None


def bucket_hours(by: tuple[str, ...]) -> int:
    """Return how many hours make one row; 0: the rows are by method alone."""
    return 1 if "hour" in by else DAY_HOURS if "day" in by else 0


class Rolled(NamedTuple):
    """entries: how many were rolled up now. seq: of the account's newest entry in the rollup."""

    entries: int
    seq: int


class UsageStore(Protocol):
    """Reads usage. All methods raise StoreUnavailable."""

    async def read(self, pubkey: bytes, first_hour: int, end_hour: int, by: tuple[str, ...]) -> list[UsageLine]:
        """Return the usage of the hours from first_hour to before end_hour, counted from 1970.

        Combines the rollup and the younger entries, as of one moment. At most ROWS_MAX + 1 rows, in no order."""
        ...

    async def hours(self, pubkeys: Sequence[bytes], first_hour: int, end_hour: int) -> dict[bytes, dict[int, int]]:
        """Return the credits that each account spent in the hours from first_hour to before end_hour.

        Combines the rollup and the next TAIL_ENTRIES entries, in which a refund counts for its own hour."""
        ...

    async def roll(self, pubkey: bytes, entries_max: int) -> Rolled:
        """Add the next entries of an account to the rollup. Each entry is added once for ever, even if owners call this
        at once or are killed."""
        ...


class PostgresUsageStore:
    """listing: shared with the listings of the ledger, so that long reads use one connection at a time."""

    def __init__(self, reading: Callable[[], AbstractAsyncContextManager[Any]], listing: asyncio.Semaphore) -> None:
        self._reading, self._listing = reading, listing

    async def read(self, pubkey: bytes, first_hour: int, end_hour: int, by: tuple[str, ...]) -> list[UsageLine]:
        async with self._listing, self._reading() as connection:
            rows = await connection.fetch(
                "SELECT method, hour, calls, credits, key FROM accounts_usage_by($1, $2, $3, $4, $5, $6, $7)",
                pubkey,
                first_hour,
                end_hour,
                "method" in by,
                bucket_hours(by),
                "key" in by,
                ROWS_MAX + 1,
            )
        return [UsageLine(*row) for row in map(tuple, rows)]

    async def hours(self, pubkeys: Sequence[bytes], first_hour: int, end_hour: int) -> dict[bytes, dict[int, int]]:
        async with self._listing, self._reading() as connection:
            rows = await connection.fetch(_HOURS, list(pubkeys), first_hour, end_hour, TAIL_ENTRIES)
        found: dict[bytes, dict[int, int]] = {pubkey: {} for pubkey in pubkeys}
        for pubkey, hour, credits in map(tuple, rows):
            found[pubkey][hour] = int(credits)
        return found

    async def roll(self, pubkey: bytes, entries_max: int) -> Rolled:
        async with self._reading() as connection:
            return Rolled(*await connection.fetchrow("SELECT * FROM accounts_roll_usage($1, $2)", pubkey, entries_max))


class UsageRollup:
    """Adds new entries to the rollup, for accounts in memory: only these are charged. accounts: by public key."""

    def __init__(self, store: UsageStore, clock: Clock, accounts: Mapping[bytes, Account]) -> None:
        self._store, self._clock, self._accounts = store, clock, accounts
        self._rolled: dict[bytes, int] = {}  # For each account in memory, its newest entry known to be rolled up.
        self._failed: set[bytes] = set()  # Accounts that come last, so that a damaged one does not block the others.
        self._look_at = 0.0

    async def tick(self) -> None:
        """Run once a second. An unavailable store is tried again later."""
        steady = self._clock.monotonic()
        if steady < self._look_at:
            return
        self._look_at = steady + _LOOK_SECONDS
        self._rolled = {pubkey: seq for pubkey, seq in self._rolled.items() if pubkey in self._accounts}
        self._failed &= self._accounts.keys()
        behind = [
            pubkey
            for pubkey, account in self._accounts.items()
            if account.seq - self._rolled.get(pubkey, 0) >= BEHIND_ENTRIES
        ]
        behind.sort(key=self._failed.__contains__)
        left = _TICK_ENTRIES
        for pubkey in behind[:_TICK_ACCOUNTS]:
            try:
                left -= await self._roll(pubkey, left)
            except StoreUnavailable as error:
                logger.info("usage of account %s is rolled up later: %s", pubkey.hex(), error)
                self._failed.add(pubkey)
                return
            self._failed.discard(pubkey)
            if left <= 0:
                break
        if left <= 0 or len(behind) > _TICK_ACCOUNTS:
            self._look_at = steady  # More entries are waiting.

    async def _roll(self, pubkey: bytes, entries_max: int) -> int:
        entries = 0
        while entries < entries_max:
            rolled = await self._store.roll(pubkey, _CHUNK_ENTRIES)
            self._rolled[pubkey] = rolled.seq
            entries += rolled.entries
            if rolled.entries < _CHUNK_ENTRIES:
                break
        return entries
