"""Verifies exported months from their files alone: chains, sums, statements, and the transition from each month to the
next.

Implements: decisions, "Detached months"; money rule 6; threat 56. Synchronous, and streaming: all months are read side
by side in the order of their accounts, so that one account's entries of all months are adjacent, and none is kept in
memory. Not here: comparing with a database (detaching.py, auditing.py).
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from actors.accounts import ledger
from actors.accounts.audit_report import AuditReport
from actors.accounts.ledger import Entry, EntryType
from actors.accounts.months.carried import Carried
from actors.accounts.months.files import ACCOUNTS, ENTRIES, STATEMENTS, ExportedMonth, ExportError
from actors.accounts.months.leaves import LeafWalk, SignedLeaves
from actors.accounts.recount import Recount
from actors.receipts.root_keys import ProvenKey, read_published

Row = tuple[Any, ...]  # An entry as the columns of its file.


@dataclass(slots=True)
class ExportReport(AuditReport):
    months: list[str] = field(default_factory=list)
    accounts: int = 0
    entries: int = 0
    statements: int = 0
    # Accounts whose first entries are in none of the months, so that their batches cannot be recounted.
    beginnings: int = 0


class MonthStream:
    """Reads one month, account by account."""

    def __init__(self, month: ExportedMonth, keys: Mapping[str, ProvenKey] | None = None) -> None:
        """keys: trusted keys; None: those in the manifest. Raises ExportError."""
        self.month, manifest = month, month.manifest
        try:
            believed = read_published(manifest.keys) if keys is None else keys
        except ValueError as error:
            raise ExportError(f"{month.folder}: {error}; export the month again, or give --roots-keys") from None
        self.leaves = SignedLeaves(month.rows(STATEMENTS), believed)
        self.faults = [*month.differing_files(), *self.leaves.faults]
        self._entries = _flat(month.rows(ENTRIES))
        self._accounts = _flat(month.rows(ACCOUNTS))
        self._next = next(self._entries, None)
        self.head = next(self._accounts, None)
        self.counted, self.credits, self.accounts = Counter[int](), Counter[int](), 0

    def rows(self, pubkey: bytes) -> Iterator[Row]:
        """Yield the entries of this account, which must be the next one."""
        while self._next is not None and self._next[0] == pubkey:
            row = self._next
            self.counted[row[3]] += 1
            self.credits[row[3]] += row[4]
            yield row
            self._next = next(self._entries, None)

    @property
    def pubkey(self) -> bytes | None:
        """Return the next account that has entries or a head."""
        found = [row[0] for row in (self._next, self.head) if row is not None]
        return min(found) if found else None

    def take_head(self, pubkey: bytes) -> Row | None:
        """Return the account's head: its first number, the hash before it, its last number, the hash after it."""
        head = self.head
        if head is None or head[0] != pubkey:
            return None
        self.accounts += 1
        self.head = next(self._accounts, None)
        return head[1:]

    def close(self) -> list[str]:
        """Return sentences on sums that differ from the manifest. Call after the last account."""
        self.leaves.close()
        told = self.month.manifest
        sums = {kind.name.lower(): (self.counted[kind], self.credits[kind]) for kind in EntryType}
        found = {
            "entries": (told.entries, self.counted.total()),
            "accounts": (told.accounts, self.accounts),
            "statements": (told.statements, self.leaves.statements),
            "sums by type": (told.sums, sums),
        }
        return [
            f"{what}: by the manifest {said}, in the files {is_}" for what, (said, is_) in found.items() if said != is_
        ]


@dataclass(slots=True)
class AccountsEnd:
    """State of an account after its entries of all months.

    recount.faults: failed checks. end: what it carries on; None: its first entries are unknown, or it has faults.
    facts: entries that record facts, with the hashes after them."""

    recount: Recount
    end: Carried | None
    facts: list[tuple[Entry, bytes]]


class MonthsWalk:
    """Walks through months, oldest first, account by account."""

    def __init__(self, months: Sequence[ExportedMonth], keys: Mapping[str, ProvenKey] | None = None) -> None:
        """Open all months. Raises ExportError."""
        self.streams = [MonthStream(month, keys) for month in months]

    @property
    def pubkey(self) -> bytes | None:
        """Return the next account, or None."""
        found = [pubkey for stream in self.streams if (pubkey := stream.pubkey) is not None]
        return min(found) if found else None

    def walk(
        self, pubkey: bytes, opening: Carried | None, recount: Recount, each: Callable[[Row], None] = lambda _: None
    ) -> AccountsEnd:
        """Feed this account's entries of all months to `recount`.

        opening: what it carries to the first of them. each: called with every row."""
        known = opening
        facts: list[tuple[Entry, bytes]] = []
        tail = b"" if opening is None else opening.tail
        if opening is not None:
            recount.resume(opening)
        for stream in self.streams:
            if stream.pubkey != pubkey:
                continue
            walk = LeafWalk(stream.leaves.of(pubkey), known)
            head, seen = stream.take_head(pubkey), 0
            for row in stream.rows(pubkey):
                _, *columns, hash_ = row
                entry = Entry(*columns)
                if not seen:
                    _begin(recount, stream, head, entry)
                    seen = entry.seq
                recount.feed(entry, hash_)
                if (fault := walk.feed(entry.seq, hash_)) is not None:
                    recount.add_fault(fault)
                if not stream.month.manifest.first_ms <= entry.at_ms < stream.month.manifest.next_ms:
                    recount.add_fault(f"entry {entry.seq} is not of {stream.month.manifest.month}")
                if entry.type == EntryType.FACT:
                    facts.append((entry, hash_))
                each(row)
            if head is None or not seen or (head[2], head[3]) != (recount.seq, recount.head):
                recount.add_fault(
                    f"its entries of {stream.month.manifest.month} do not end with the one that its head names"
                )
            tail = walk.tail(recount.seq) if seen else tail
            known = recount.carried()._replace(tail=tail) if recount.newest is not None else None
        end = None if recount.faults or not recount.is_whole else known
        return AccountsEnd(recount, end, facts)

    def close(self, report: AuditReport) -> None:
        """Add the faults of whole months to the report."""
        for stream in self.streams:
            report.add(stream.month.manifest.month, *stream.faults, *stream.close())


def _begin(recount: Recount, stream: MonthStream, head: Row | None, first: Entry) -> None:
    """Begin a month: its head gives the hash before its first entry."""
    before = head[1] if head is not None else ledger.genesis(recount.pubkey)
    if recount.newest is None and first.seq > 1 and recount.is_whole:
        recount.begin_after(first, before)
    elif before != recount.head or head is None or head[0] != first.seq:
        recount.add_fault(f"its entries of {stream.month.manifest.month} do not follow from those before")


def verify(
    months: Sequence[ExportedMonth],
    keys: Mapping[str, ProvenKey] | None = None,
    told: Callable[[int], None] = lambda _: None,
) -> ExportReport:
    """Verify these months, which are sorted. told: called from time to time with the number of entries read. Raises
    ExportError."""
    report = ExportReport(months=[month.manifest.month for month in months])
    for before, after in itertools.pairwise(months):
        if before.manifest.next_ms != after.manifest.first_ms:
            report.add(
                after.manifest.month, f"it does not follow {before.manifest.month}: the months between are not given"
            )
    with ExitStack() as stack:
        walk = MonthsWalk(months, keys)
        for stream in walk.streams:
            stack.callback(stream.leaves.close)
        while (pubkey := walk.pubkey) is not None:
            recount = walk.walk(pubkey, None, Recount(pubkey)).recount
            report.accounts += 1
            report.beginnings += not recount.is_whole
            report.add(pubkey, *recount.faults)
            told(sum(stream.counted.total() for stream in walk.streams))
        walk.close(report)
        report.entries = sum(stream.counted.total() for stream in walk.streams)
        report.statements = sum(stream.leaves.statements for stream in walk.streams)
    return report


def _flat(groups: Iterator[list[Row]]) -> Iterator[Row]:
    for group in groups:
        yield from group
