"""Makes signed statements of what an owner wrote, about once a second, off the path of every answer.

Implements: decisions, "Signed roots"; money rule 6. A shell; receipts/statements.py has the form of a statement.
Group commits tell their entries when these are durable. What is missing here (a start, a move, a group of unknown end,
too much waiting) is read from the ledger. The database has each entry in one statement, so telling one twice, or two
owners that tell the same, harms nothing. Where the database or the file is away, entries wait, and are sealed later.
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
# Entries of an account wait so long for company, or until they are so many: a leaf takes 112 bytes for all of them.
WAIT_SECONDS = 5.0
_ENOUGH_ENTRIES = 32
WAITING_MAX = 100_000  # Entries; beyond it they are forgotten here, and read from the ledger again.
_ENTRIES_MAX = 1_024  # Of one account in one statement: hashing them holds the loop for 2 ms.
_ACCOUNTS_MAX = 1_024  # In one statement.
_STATEMENTS_MAX = 50  # In one turn; more wait for the next.
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
        self._in_file: SeriesEnd | None = None  # Newest statement in the file; None: not known.
        self._unwritten: dict[int, SignedStatement] = {}  # By number: made and not in the file yet.
        self._waiting: dict[bytes, _Run] = {}
        self._behind: set[bytes] = set()  # Accounts whose next entries are to be read from the ledger.
        self._count = 0
        self._scanned: frozenset[VirtualShard] = frozenset()  # Shards of which no entry is missing here.
        self._scanning: frozenset[VirtualShard] = frozenset()  # Shards that are being looked through, from their first
        self._scan_from = b""  # account on: up to this one by now.
        self._newest: SeriesEnd | None = None  # The series' newest statement; None: not known.
        self._is_refused = False
        self._whole_at = clock.monotonic()  # When each entry was in a statement, or waited for company here.
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
        """Entries that are durable: public key, entry, hash after it; those of one account in their order."""
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
        """Somebody asks for a receipt of this account: its entries are in the next statement, told here or not."""
        run = self._waiting.get(pubkey)
        if run is not None:
            run.due = 0.0
        elif len(self._behind) < _REFILLED_MAX:
            self._behind.add(pubkey)

    # --- a turn

    async def finish(self) -> None:
        """Seal all that waits, as far as it can be."""
        for run in self._waiting.values():
            run.due = 0.0
        await self.tick()

    async def tick(self) -> None:
        """Seal what has waited long enough. What cannot be done now is tried by the next turn."""
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
            self._newest = None  # Whether the last one was written is not known.
        except Unproven as error:
            self._refuse(error)
            return
        if self._file is not None:
            await self._write_file(self._file)

    def _refuse(self, error: Unproven) -> None:
        """The table has something that must not be continued. Entries wait; calls go on."""
        self._newest, self._is_refused = None, True
        logger.error(
            "series %d of the ledger's statements is not continued: %s. Somebody has written it into the database, or "
            'the cluster\'s secret was changed; "Foreign keys and statements" in launch/README.md says what to do',
            self._held.index,
            error,
        )

    async def _scan(self) -> None:
        """Take up entries that nobody told: of some accounts a turn, until every shard has been looked through."""
        held = frozenset(self._held.all)
        self._scanned &= held
        if not self._scanning:  # Shards that come meanwhile are for the next time: of these nothing is seen yet.
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
        """Whether the entries behind those that are in statements wait here."""
        run = self._waiting.get(sealed.pubkey)
        return run is not None and run.first == sealed.seq + 1

    async def _refill(self, sealed: Sealed) -> None:
        """Read the entries of an account behind those that are in statements; the next turn reads what is left."""
        read = await self._store.following(sealed, _ENTRIES_MAX)
        pubkey, told = sealed.pubkey, self._waiting.get(sealed.pubkey)
        run = _Run(sealed.seq + 1, [one.hash for one in read], [one.entry.at_ms for one in read])
        is_whole = len(read) < _ENTRIES_MAX
        if told is not None:
            self._count -= len(told.hashes)
            if told.first <= run.following < told.following:  # Group commits told later ones meanwhile.
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
        """Accounts for the next statement, in the order of their public keys."""
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
                continue  # Forgotten while the loop did other work.
            hashes = run.hashes[:_ENTRIES_MAX]
            leaf = leaf_of(pubkey, run.first, hashes)
            leaves.append(leaf)
            seals.append(Seal(pubkey, leaf.first, leaf.last, run.times[len(hashes) - 1]))
            hashed += len(hashes)
            if hashed // _ENTRIES_MAX != (hashed - len(hashes)) // _ENTRIES_MAX:
                await asyncio.sleep(0)  # The loop's other work; runs only grow meanwhile.
        if not leaves:
            return
        packed = b"".join([leaf.packed() for leaf in leaves])
        # Never before its entries or its key, whatever became of the clock: a receipt looks for it from their time on.
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
        """The newest statement in the file. A new file begins with what this process has made."""
        found = await asyncio.to_thread(file.newest)
        if found is None:
            return SeriesEnd(min(self._unwritten, default=newest.number + 1) - 1, None)
        if found.number > newest.number or (found.number == newest.number and found.digest != newest.digest):
            raise BrokenRoots(
                f"it has statement {found.number} and the database has {newest.number} of them, or another one of this "
                "number, as after a restore: keep the file for the audit"
            )
        return found
