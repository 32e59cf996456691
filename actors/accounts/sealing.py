"""Makes signed statements of the entries that an owner wrote, about once a second, outside the path of answers.

Implements: decisions, "Signed roots"; money rule 6. A shell; receipts/statements.py has the form of a statement. Group
commits pass their entries here when they are durable. Missing entries (after a start, a move, a group of unknown
outcome, an overflow) are read from the ledger. The database has each entry in one statement, so passing an entry twice,
even at two owners, does no harm. While the database or the file is unavailable, entries wait and are sealed later.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path

from actors.accounts.held_shards import HeldShards
from actors.accounts.ledger import Entry
from actors.accounts.ledger_clock import LedgerClock
from actors.accounts.seals_store import NumberTaken, Seal, Sealed, SealsStore
from actors.accounts.series import Series
from actors.accounts.signing_keys import SigningKeys
from actors.accounts.stored import StoreUnavailable
from actors.receipts.checks import SeriesEnd, Unproven, followed
from actors.receipts.root_keys import KeySeal
from actors.receipts.roots_file import BrokenRoots, RootsFile
from actors.receipts.statements import AccountLeaf, SignedStatement, Statement, leaf_of, root_of
from actors.telemetry.metrics import Metrics
from actors.units import VirtualShard

logger = logging.getLogger(__name__)

SEAL_SECONDS = 1.0
# Entries of an account wait this long for further entries, or until there are enough: a leaf takes 112 bytes however
# many it has.
WAIT_SECONDS = 5.0
_ENOUGH_ENTRIES = 32
WAITING_MAX = 100_000  # Waiting entries; beyond this number they are forgotten here, and read from the ledger again.
_ENTRIES_MAX = 1_024  # Entries of one account in one statement: hashing them holds the event loop for 2 ms.
_ACCOUNTS_MAX = 1_024  # Accounts in one statement.
_STATEMENTS_MAX = 50  # Statements in one turn; the rest wait for the next.
_REFILLED_MAX = 200  # Accounts whose missing entries are read in one turn.
_FILE_STATEMENTS_MAX = 100


@dataclass(slots=True)
class _Run:
    """Entries of one account that are in no statement yet, without gaps: the hashes after them and their times.

    due: when the first of them has waited long enough, in steady seconds."""

    first: int
    hashes: list[bytes]
    times: list[int]
    due: float = 0.0

    @property
    def following(self) -> int:
        return self.first + len(self.hashes)

    def cut(self, count: int) -> None:
        self.first += count
        del self.hashes[:count], self.times[:count]


class Sealing:
    """folder: for the file of roots; None: none is written. seal: opens the keys that sign."""

    def __init__(
        self,
        store: SealsStore,
        clock: LedgerClock,
        held: HeldShards,
        seal: KeySeal,
        folder: Path | None,
        metrics: Metrics | None = None,
        random_bytes: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        metrics = metrics or Metrics()
        self._store, self._clock, self._held = store, clock, held
        self.keys = SigningKeys(store, clock, seal, random_bytes, metrics)
        self._series = Series(store, held.index, self.keys)
        self._file = None if folder is None else RootsFile(folder, held.index)
        self._in_file: SeriesEnd | None = None  # Newest statement in the file; None: unknown.
        self._unwritten: dict[int, SignedStatement] = {}  # Statements made but not in the file yet, by number.
        self._waiting: dict[bytes, _Run] = {}
        self._behind: set[bytes] = set()  # Accounts whose next entries must be read from the ledger.
        self._count = 0
        self._scanned: frozenset[VirtualShard] = frozenset()  # Shards of which no entry is missing here.
        # Shards being searched for missing entries, and the account up to which they were searched.
        self._scanning: frozenset[VirtualShard] = frozenset()
        self._scan_from = b""
        self._newest: SeriesEnd | None = None  # Newest statement of the series; None: unknown.
        self._is_refused = False
        self._whole_at = clock.monotonic()  # When every entry was last in a statement, or waiting here.
        metrics.watch(
            "unsealed_seconds",
            "Time since all ledger entries were in signed statements, or waited a few seconds for one.",
            lambda: clock.monotonic() - self._whole_at,
        )
        metrics.watch(
            "refused_series",
            "1 while the database has a statement of this owner's series that is not this service's.",
            lambda: float(self._is_refused),
        )

    # --- what is told

    def add(self, entries: Sequence[tuple[bytes, Entry, bytes]]) -> None:
        """Add durable entries: public key, entry, hash after it; those of one account in order."""
        due = self._clock.monotonic() + WAIT_SECONDS
        for pubkey, entry, after in entries:
            run = self._waiting.get(pubkey)
            if run is None:
                self._waiting[pubkey] = _Run(entry.seq, [after], [entry.at_ms], due)
            elif run.following == entry.seq:
                run.hashes.append(after)
                run.times.append(entry.at_ms)
            else:
                self._lose(pubkey)
                continue
            self._count += 1
        if self._count > WAITING_MAX:
            logger.warning("too many entries wait for a statement; they will be read from the ledger")
            self._waiting.clear()
            self._count, self._scanned, self._scanning = 0, frozenset(), frozenset()

    def _lose(self, pubkey: bytes) -> None:
        """Forget an account whose entries have a gap here."""
        self._count -= len(self._waiting.pop(pubkey).hashes)
        self._behind.add(pubkey)

    def urge(self, pubkey: bytes) -> None:
        """Put the entries of this account into the next statement, because somebody asks for a receipt; missing entries
        are read."""
        run = self._waiting.get(pubkey)
        if run is not None:
            run.due = 0.0
        elif len(self._behind) < _REFILLED_MAX:
            self._behind.add(pubkey)

    # --- a turn

    async def finish(self) -> None:
        """Seal all waiting entries, as far as possible."""
        for run in self._waiting.values():
            run.due = 0.0
        await self.tick()

    async def tick(self) -> None:
        """Seal entries that have waited long enough. The next turn retries failures."""
        try:
            await self.keys.refresh()
            await self._scan()
            for pubkey in list(islice(self._behind, _REFILLED_MAX)):
                self._behind.discard(pubkey)
                await self._refill(await self._store.sealed(pubkey))
            for _ in range(_STATEMENTS_MAX):
                due = self._due()
                if not due:
                    if self._scanned.issuperset(self._held.all) and not self._behind:
                        self._whole_at = self._clock.monotonic()
                    break
                await self._make_statement(due)
        except StoreUnavailable as error:
            logger.info("no statement of the ledger was made: %s", error)
            self._newest = None  # The outcome of the last write is unknown.
        except Unproven as error:
            self._refuse(error)
            return
        if self._file is not None:
            await self._write_file(self._file)

    def _refuse(self, error: Unproven) -> None:
        """Stop sealing, because the table contains statements that must not be continued. Entries wait; calls
        continue."""
        self._newest, self._is_refused = None, True
        logger.error(
            "series %d of the ledger's statements is not continued: %s. Somebody has written it into the database, or "
            'the cluster\'s secret was changed; "Foreign keys and statements" in launch/README.md says what to do',
            self._held.index,
            error,
        )

    async def _scan(self) -> None:
        """Look for entries that were never passed here: some accounts a turn, until every shard was searched."""
        held = frozenset(self._held.all)
        self._scanned &= held
        if not self._scanning:  # Shards that arrive meanwhile are left to the next search.
            self._scanning, self._scan_from = held - self._scanned, b""
        if not self._scanning:
            return
        found = await self._store.unsealed(sorted(self._scanning & held), self._scan_from)
        missing = [sealed for sealed in found.accounts if not self._has_following(sealed)]
        for sealed in missing[:_REFILLED_MAX]:
            await self._refill(sealed)
        if len(missing) > _REFILLED_MAX:
            self._scan_from = missing[_REFILLED_MAX - 1].pubkey
        elif found.last is not None:
            self._scan_from = found.last
        else:
            self._scanned |= self._scanning
            self._scanning = frozenset()

    def _has_following(self, sealed: Sealed) -> bool:
        """Return whether the entries after the sealed ones are waiting here."""
        run = self._waiting.get(sealed.pubkey)
        return run is not None and run.first == sealed.seq + 1

    async def _refill(self, sealed: Sealed) -> None:
        """Read the entries of an account after the sealed ones; the next turn reads the rest."""
        read = await self._store.following(sealed, _ENTRIES_MAX)
        pubkey, told = sealed.pubkey, self._waiting.get(sealed.pubkey)
        run = _Run(sealed.seq + 1, [one.hash for one in read], [one.entry.at_ms for one in read])
        is_whole = len(read) < _ENTRIES_MAX
        if told is not None:
            self._count -= len(told.hashes)
            if told.first <= run.following < told.following:  # Group commits passed later ones in the meantime.
                told.cut(run.following - told.first)
                run.hashes += told.hashes
                run.times += told.times
            elif told.first > run.following:
                is_whole = False
        self._waiting.pop(pubkey, None)
        if run.hashes:
            self._waiting[pubkey] = run
            self._count += len(run.hashes)
        if not is_whole:
            self._behind.add(pubkey)

    def _due(self) -> list[bytes]:
        """Return the accounts for the next statement, sorted by public key."""
        steady = self._clock.monotonic()
        due = (
            pubkey for pubkey, run in self._waiting.items() if run.due <= steady or len(run.hashes) >= _ENOUGH_ENTRIES
        )
        return sorted(islice(due, _ACCOUNTS_MAX))

    async def _make_statement(self, due: Sequence[bytes]) -> None:
        if self._newest is None:
            self._newest = await self._series.end()
            self._is_refused = False
        number, previous = self._newest
        assert previous is not None, self._newest
        leaves: list[AccountLeaf] = []
        seals: list[Seal] = []
        hashed = 0
        for pubkey in due:
            run = self._waiting.get(pubkey)
            if run is None:
                continue  # It was forgotten while the event loop did other work.
            hashes = run.hashes[:_ENTRIES_MAX]
            leaf = leaf_of(pubkey, run.first, hashes)
            leaves.append(leaf)
            seals.append(Seal(pubkey, leaf.first, leaf.last, run.times[len(hashes) - 1]))
            hashed += len(hashes)
            if hashed // _ENTRIES_MAX != (hashed - len(hashes)) // _ENTRIES_MAX:
                await asyncio.sleep(0)  # Lets the event loop do other work; runs only grow in the meantime.
        if not leaves:
            return
        packed = b"".join([leaf.packed() for leaf in leaves])
        # Never before its entries or its key, even if the clock was set: a receipt searches for it from their time on.
        at_ms = max(self._clock.now_ms(), self.keys.signing[0].made_ms, *(seal.at_ms for seal in seals))
        counts = len(leaves), hashed
        statement = Statement(self._held.index, number + 1, at_ms, previous, *counts, root_of(packed))
        await self._write(statement, packed, seals)

    async def _write(self, statement: Statement, packed: bytes, seals: Sequence[Seal]) -> None:
        key, signing = self.keys.signing
        text = statement.text()
        signed = SignedStatement(text, key.id, signing.sign(text.encode()).signature, packed)
        try:
            elsewhere = await self._store.seal(statement.series, statement.number, statement.at_ms, signed, seals)
        except NumberTaken:
            self._newest = None
            return
        if elsewhere:
            for sealed in elsewhere:
                await self._refill(sealed)
            return
        self._newest = SeriesEnd(statement.number, signed.digest)
        for seal in seals:
            run = self._waiting.get(seal.pubkey)
            if run is not None and run.first == seal.first:
                count = seal.last - seal.first + 1
                run.cut(count)
                run.due = self._clock.monotonic() + WAIT_SECONDS
                self._count -= count
                if not run.hashes:
                    del self._waiting[seal.pubkey]
        if self._file is not None and len(self._unwritten) < _FILE_STATEMENTS_MAX:
            self._unwritten[statement.number] = signed  # Statements beyond the limit are read from the database.

    # --- the file

    async def _write_file(self, file: RootsFile) -> None:
        if self._newest is None:
            return
        try:
            if self._in_file is None:
                self._in_file = await self._end_of(file, self._newest)
            missing = range(self._in_file.number + 1, self._newest.number + 1)
            if not missing:
                return
            if self._unwritten.keys() >= set(missing):
                pending = [self._unwritten[number] for number in missing]
                followed(self._in_file, self._held.index, pending)
            else:
                pending = await self._series.after(self._in_file, _FILE_STATEMENTS_MAX)
            for key_id, signed in groupby(pending, lambda one: one.key_id):
                group = list(signed)
                await asyncio.to_thread(file.append, self.keys.known[key_id], group)
                self._in_file = followed(self._in_file, self._held.index, group)
            written = self._in_file.number
            self._unwritten = {number: one for number, one in self._unwritten.items() if number > written}
        except (OSError, BrokenRoots, StoreUnavailable) as error:
            self._in_file = None
            logger.error(
                "statements of the ledger are not written to %s (%s); mend the folder, or move the file away, and they "
                "will be",
                file.path,
                error,
            )
        except Unproven as error:
            self._in_file = None
            self._refuse(error)

    async def _end_of(self, file: RootsFile, newest: SeriesEnd) -> SeriesEnd:
        """Return the newest statement in the file. A new file begins with what this process has made."""
        found = await asyncio.to_thread(file.newest)
        if found is None:
            return SeriesEnd(min(self._unwritten, default=newest.number + 1) - 1, None)
        if found.number > newest.number or (found.number == newest.number and found.digest != newest.digest):
            raise BrokenRoots(
                f"it has statement {found.number} and the database has {newest.number} of them, or another one of this "
                "number, as after a restore: keep the file for the audit"
            )
        return found
