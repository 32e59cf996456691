"""Detaches an exported month from the ledger: verifies the export, records the cut, detaches the month's table, drops
it.

Implements: decisions, "Detached months"; money rule 6; threat 56. A shell, with the role that owns the tables. The cut
is one transaction: what each account carries over, the facts that stay, the row of the cut, and the fact about it. From
then on no answer and no audit reads the month's rows, even while their table exists. So after a kill the same command
can be repeated: before the cut it starts again, after it it detaches and drops. Not here: verifying the files
(verifying.py).
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import asyncpg
import msgspec

from actors.accounts.facts import REFERRALS, FactKind
from actors.accounts.months.carried import COLUMNS, CUT_BODY, NAMES, Carried, FactsDigest, carried_of
from actors.accounts.months.exporting import require_closed
from actors.accounts.months.files import ExportedMonth, ExportError, Month, month_from
from actors.accounts.months.reading import pages_of
from actors.accounts.months.row_digests import RowDigests
from actors.accounts.months.verifying import MonthsWalk
from actors.accounts.recount import Recount
from actors.units import base58_text

FROM_RELEASE = "0.2.0"  # Earlier releases would take the cut for a loss of the ledger's beginning.
_LOCK = 1_667_851_877  # Advisory lock: one detaching at a time.
_LOCK_WAIT_MS = 2_000  # Calls queue behind a statement that waits for a table lock, so it gives up.
_ROLLED_AT_ONCE = 20_000
_STAGED_AT_ONCE = 5_000
_CARRIED_AT_ONCE = 2_000
_CARRIED = f"SELECT {COLUMNS} FROM ledger_carried WHERE pubkey > $1 ORDER BY pubkey LIMIT {_CARRIED_AT_ONCE}"  # noqa: S608

_STATE = (
    "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint, pg_has_role(relowner, 'MEMBER') FROM pg_class"
    " WHERE oid = 'ledger'::regclass"
)
_CUT = "SELECT next_ms, manifest FROM ledger_cuts WHERE first_ms = $1"
_COUNT = "SELECT count(*) FROM ledger WHERE at_ms >= $1 AND at_ms < $2"
_CLOSE = "CREATE TRIGGER detached BEFORE INSERT ON {} FOR EACH ROW EXECUTE FUNCTION ledger_month_is_detached()"
_OLDER = "SELECT at_ms FROM ledger WHERE at_ms >= $1 AND at_ms < $2 LIMIT 1"
_BEHIND = """
SELECT l.pubkey, max(l.seq) > COALESCE(min(s.seq), 0) AS unsigned
FROM ledger AS l
LEFT JOIN account_usage_marks AS m ON m.pubkey = l.pubkey LEFT JOIN account_seals AS s ON s.pubkey = l.pubkey
WHERE l.at_ms >= $1 AND l.at_ms < $2
  AND ((l.at_ms, l.seq) > (COALESCE(m.at_ms, 0), COALESCE(m.seq, 0)) OR l.seq > COALESCE(s.seq, 0))
GROUP BY l.pubkey
"""
# Charges that a former owner listed as undelivered, and that no owner has refunded or kept yet.
_UNDELIVERED = """
SELECT EXISTS (SELECT FROM account_edges AS e CROSS JOIN LATERAL generate_series(1, length(e.undelivered), 8) AS place
               JOIN account_debits AS d ON d.operation = e.edge || substring(e.undelivered FROM place FOR 8)
               WHERE d.at_ms < $1)
"""
# Tables of the ledger that end at or before this time, including those whose detaching has begun.
_TABLES = """
SELECT c.relname, i.inhdetachpending AS pending
FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
WHERE i.inhparent = 'ledger'::regclass
  AND (regexp_match(pg_get_expr(c.relpartbound, c.oid), 'TO \\(''?(\\d+)''?\\)'))[1]::bigint <= $1
ORDER BY c.relname
"""
_STAGE = "CREATE TEMPORARY TABLE carried_next (LIKE ledger_carried)"
_CARRY = f"""
INSERT INTO ledger_carried ({COLUMNS}) SELECT {COLUMNS} FROM carried_next
ON CONFLICT (pubkey) DO UPDATE SET ({", ".join(NAMES[1:])}) = ({", ".join(f"EXCLUDED.{name}" for name in NAMES[1:])})
"""  # noqa: S608 - ours.
_KEEP_FACTS = """
INSERT INTO ledger_kept_facts (pubkey, at_ms, seq, method, description, hash)
SELECT pubkey, at_ms, seq, method, description, hash FROM ledger WHERE at_ms >= $1 AND at_ms < $2 AND type = 6
"""
_RECORD = """
INSERT INTO ledger_cuts (next_ms, first_ms, cut_ms, entries, sums, manifest, carried, facts)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
"""
_TELL = (
    f"SELECT accounts_append_facts(ARRAY (SELECT ROW ({REFERRALS}, '{FactKind.CUT}', ''::bytea, {CUT_BODY})"  # noqa: S608
    "::accounts_fact FROM ledger_cuts WHERE next_ms = $1))"
)


@dataclass(frozen=True, slots=True)
class Detached:
    """entries: of the month. tables: detached from the ledger. dropped: detached and dropped."""

    month: str
    entries: int
    tables: list[str]
    dropped: bool


async def detach(
    connection: asyncpg.Connection,
    month: ExportedMonth,
    kept_months: int,
    *,
    drop: bool,
    told: Callable[[str], None] = lambda _: None,
) -> Detached:
    """Detach the month from the ledger, or continue after an earlier run was killed. connection: of the role that owns
    the tables, without a transaction. kept_months: how many whole months before the present one must stay. told: called
    at each step. No process of a release before FROM_RELEASE may use the database. Raises ExportError."""
    wanted = month.manifest.of
    async with _alone(connection):
        await _require_may_go(connection, wanted, kept_months)
        cut = await connection.fetchrow(_CUT, wanted.first_ms)
        if cut is None:
            await _require_unused(connection, wanted)
            told("proving the export, and comparing it with the database row for row")
            prepared = await _Comparison(connection, month).run()
            told("recording the cut")
            await _record(connection, month, prepared)
        elif cut["manifest"] != month.digest:
            raise ExportError(f"{wanted.name} was detached with another export than {month.folder}: give that one")
        return await _take_away(connection, month, drop, told)


@asynccontextmanager
async def _alone(connection: asyncpg.Connection) -> AsyncIterator[None]:
    if not await connection.fetchval("SELECT pg_try_advisory_lock($1)", _LOCK):
        raise ExportError("another process is detaching a month: wait until it has ended")
    try:
        yield
    finally:
        if not connection.is_closed():
            await connection.execute("DROP TABLE IF EXISTS pg_temp.carried_next")
            await connection.fetchval("SELECT pg_advisory_unlock($1)", _LOCK)


def kept_since(now_ms: int, kept_months: int) -> Month:
    """Return the oldest month that must stay: this many whole months before the present one."""
    today = datetime.fromtimestamp(now_ms / 1000, UTC)
    number = today.year * 12 + today.month - 1 - kept_months
    return month_from(int(datetime(number // 12, number % 12 + 1, 1, tzinfo=UTC).timestamp()) * 1000)


async def _require_may_go(connection: asyncpg.Connection, month: Month, kept_months: int) -> None:
    now_ms, owns = await _state(connection)
    if not owns:
        raise ExportError(
            "detaching needs the role that owns the tables: set LEDGER_STORAGE__POSTGRES_MIGRATIONS_URL to its URL"
        )
    require_closed(month, now_ms)
    since = kept_since(now_ms, kept_months)
    if month.first_ms >= since.first_ms:
        raise ExportError(
            f"{month.name} is too young: the ledger keeps {kept_months} whole months, which is {since.name} and later "
            "ones (LEDGER_ACCOUNTS__LEDGER_KEPT_MONTHS)"
        )
    kept_from_ms = await connection.fetchval("SELECT COALESCE(max(next_ms), 0) FROM ledger_cuts")
    older = None if month.first_ms <= kept_from_ms else await connection.fetchval(_OLDER, kept_from_ms, month.first_ms)
    if older is not None:
        raise ExportError(f"{month_from(_month_start(older)).name} is older and has entries: detach that month first")


async def _state(connection: asyncpg.Connection) -> tuple[int, bool]:
    """Return the database's time, and whether this role owns the tables."""
    row = await connection.fetchrow(_STATE)
    assert row is not None
    now_ms, owns = row
    return now_ms, owns


def _month_start(at_ms: int) -> int:
    first = datetime.fromtimestamp(at_ms / 1000, UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return int(first.timestamp()) * 1000


async def _require_unused(connection: asyncpg.Connection, month: Month) -> None:
    """Raise ExportError while the product still needs entries of the month. Brings the rollup of usage up to date."""
    if await connection.fetchval(_UNDELIVERED, month.next_ms):
        raise ExportError(
            f"charges of {month.name} are still noted as undelivered: start the product, whose owners end them in "
            "seconds"
        )
    for pubkey, unsigned in await connection.fetch(_BEHIND, month.first_ms, month.next_ms):
        if unsigned:
            raise ExportError(
                f"entries of {base58_text(pubkey)} are in no signed statement: start the product, which signs them "
                "within a minute, and export the month again"
            )
        rolled = _ROLLED_AT_ONCE
        while rolled == _ROLLED_AT_ONCE:
            rolled = await connection.fetchval(
                "SELECT entries FROM accounts_roll_usage($1, $2)", pubkey, _ROLLED_AT_ONCE
            )


@dataclass(frozen=True, slots=True)
class _Prepared:
    """Digests of a cut: over what all accounts carry, and over the facts among its entries."""

    carried: bytes
    facts: bytes


class _Comparison:
    """Verifies an export account by account, compares its rows with the database, and stages what each account
    carries."""

    def __init__(self, connection: asyncpg.Connection, month: ExportedMonth) -> None:
        self._connection, self._month = connection, month
        self._digest, self._facts, self._theirs = sha256(), FactsDigest(), RowDigests()
        self._staged: list[tuple[Any, ...]] = []
        self._carried: list[Carried] = []  # Rows read ahead, in the order of their accounts.
        self._carried_place: bytes | None = b""  # Last account read so far; None: all were read.

    async def run(self) -> _Prepared:
        """Raises ExportError."""
        await self._connection.execute(_STAGE)
        walk = MonthsWalk([self._month])
        try:
            await self._walk(walk)
            for stream in walk.streams:
                for fault in (*stream.faults, *stream.close()):
                    raise ExportError(f"the export is not whole: {fault}; export the month again")
        finally:
            for stream in walk.streams:
                stream.leaves.close()
        await self._flush()
        ours = RowDigests()
        async for page in pages_of(self._connection, self._month.manifest.of):
            for row in page:
                ours.add(row)
        place = ours.first_difference(self._theirs)
        if place is not None:
            raise ExportError(
                f"the database and the export differ behind row {place} of {self._month.manifest.month}: run "
                "`ledger-gateway audit`; if it passes, export the month again"
            )
        return _Prepared(self._digest.digest(), self._facts.digest())

    async def _walk(self, walk: MonthsWalk) -> None:
        while (pubkey := walk.pubkey) is not None:
            opening = await self._opening(pubkey)
            told = walk.walk(pubkey, opening, Recount(pubkey), self._theirs.add)
            if told.end is None:
                raise ExportError(f"the export is not whole: {_first_fault(told.recount)} ({base58_text(pubkey)})")
            for entry, hash_ in told.facts:
                self._facts.add(pubkey, entry, hash_)
            self._digest.update(told.end.line())
            self._staged.append(told.end.record())
            if len(self._staged) >= _STAGED_AT_ONCE:
                await self._flush()
        await self._opening(None)

    async def _opening(self, pubkey: bytes | None) -> Carried | None:
        """Return what this account carried until now. Earlier accounts keep what they carried. None: all remaining
        accounts."""
        while True:
            while not self._carried and self._carried_place is not None:
                rows = await self._connection.fetch(_CARRIED, self._carried_place)
                self._carried = [carried_of(row) for row in reversed(rows)]
                self._carried_place = rows[-1]["pubkey"] if len(rows) == _CARRIED_AT_ONCE else None
            if not self._carried or (pubkey is not None and self._carried[-1].pubkey > pubkey):
                return None
            one = self._carried.pop()
            if one.pubkey == pubkey:
                return one
            self._digest.update(one.line())

    async def _flush(self) -> None:
        if self._staged:
            await self._connection.copy_records_to_table("carried_next", records=self._staged, columns=list(NAMES))
            self._staged.clear()


def _first_fault(recount: Recount) -> str:
    if recount.faults:
        return recount.faults[0]
    return f"nobody knows what stood before the first of its entries up to {recount.seq}: detach older months first"


async def _record(connection: asyncpg.Connection, exported: ExportedMonth, prepared: _Prepared) -> None:
    """Make the cut, in one transaction. Raises ExportError."""
    month, told = exported.manifest.of, exported.manifest
    try:
        async with connection.transaction():
            await connection.execute(f"SET LOCAL lock_timeout = {_LOCK_WAIT_MS}")
            for name, _ in await connection.fetch(_TABLES, month.next_ms):
                await connection.execute(_CLOSE.format(_quoted(name)))  # Waits only for writers of this table.
            if await connection.fetchval(_COUNT, month.first_ms, month.next_ms) != told.entries:
                raise ExportError(f"{month.name} has got entries since the export: export it again")
            await connection.execute(_KEEP_FACTS, month.first_ms, month.next_ms)
            await connection.execute(_CARRY)
            now_ms, _ = await _state(connection)
            sums = msgspec.json.encode(told.sums).decode()
            digests = (exported.digest, prepared.carried, prepared.facts)
            await connection.execute(_RECORD, month.next_ms, month.first_ms, now_ms, told.entries, sums, *digests)
            await connection.execute(_TELL, month.next_ms)
    except asyncpg.LockNotAvailableError:
        raise ExportError(
            f"a table of {month.name} is in use by another program, as a vacuum: try again later"
        ) from None


async def _take_away(
    connection: asyncpg.Connection, exported: ExportedMonth, drop: bool, told: Callable[[str], None]
) -> Detached:
    """Detach the tables up to the cut, and drop them. Waits for readers; the ledger stays usable."""
    month = exported.manifest.of
    names = []
    for name, pending in await connection.fetch(_TABLES, month.next_ms):
        told(f"detaching {name}, when the transactions that use the ledger now have ended")
        ending = "FINALIZE" if pending else "CONCURRENTLY"
        await connection.execute(f"ALTER TABLE ledger DETACH PARTITION {_quoted(name)} {ending}")
        names.append(name)
    own = f"ledger_{month.name.replace('-', '_')}"
    if own not in names and await connection.fetchval("SELECT to_regclass($1)", own) is not None:
        names.append(own)  # An earlier run detached it.
    if drop:
        for fault in exported.differing_files():
            raise ExportError(f"{month.name} was detached, and is not dropped: {fault}; put the export back as it was")
        for name in names:
            told(f"dropping {name}")
            await connection.execute(f"DROP TABLE IF EXISTS {_quoted(name)}")
    return Detached(month.name, exported.manifest.entries, names, drop)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
