"""Audits detached months: where the chains of the remaining ledger begin, and whether these beginnings are right.

Implements: money rule 6; decisions, "Detached months"; threat 56. Without exports each chain begins with what its
account carried over the newest cut; the digest in the fact about the cut says whether that was changed, and signed
statements of later entries whether its hash is true. With the exports each chain is recomputed from its first entry on,
and must end in the carried values. Not here: the rest of the audit (audit.py).
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import asyncpg
import msgspec

from actors.accounts.audit_database import OrderedRows
from actors.accounts.audit_report import AuditReport
from actors.accounts.ledger import Entry, EntryType
from actors.accounts.months.carried import COLUMNS, Carried, FactsDigest, carried_of
from actors.accounts.months.files import ExportedMonth, month_from
from actors.accounts.months.verifying import MonthsWalk
from actors.accounts.recount import Recount

_ROWS_AHEAD = 2_000
_PAST_ALL = b"\xff" * 33  # Sorts after every public key.
_CUTS = "SELECT first_ms, next_ms, entries, sums, manifest, carried, facts FROM ledger_cuts ORDER BY next_ms"
_CARRIED = f"SELECT {COLUMNS} FROM ledger_carried ORDER BY pubkey"  # noqa: S608 - ours.
_FACTS = "SELECT pubkey, at_ms, seq, method, description, hash FROM ledger_kept_facts ORDER BY pubkey, seq"


class CutsAudit:
    """cuts: rows of ledger_cuts. Call `begin` in the order of public keys."""

    def __init__(self, cuts: Sequence[Any], report: AuditReport) -> None:
        self._cuts, self._report = cuts, report
        self.kept_from_ms: int = cuts[-1]["next_ms"] if cuts else 0
        self.links_passed = 0  # Checkpoint links not compared, because their entries are in exports.
        self._walk: MonthsWalk | None = None
        self._digest = sha256()
        self._facts = {cut["next_ms"]: FactsDigest() for cut in cuts}
        self._carried_rows: OrderedRows
        self._fact_rows: OrderedRows

    @classmethod
    async def open(
        cls, connection: asyncpg.Connection, exported: Sequence[ExportedMonth], report: AuditReport
    ) -> "CutsAudit":
        """Open the audit within the audit's snapshot. Raises ExportError."""
        made = cls(await connection.fetch(_CUTS), report)
        made._carried_rows = OrderedRows(aiter(connection.cursor(_CARRIED, prefetch=_ROWS_AHEAD)))
        made._fact_rows = OrderedRows(aiter(connection.cursor(_FACTS, prefetch=_ROWS_AHEAD)))
        await made._carried_rows.advance()
        await made._fact_rows.advance()
        if exported:
            made._open_exports(exported)
        return made

    def sums(self) -> dict[EntryType, tuple[int, int]]:
        """Entries and credits by type of all months that left the ledger, as their cuts have them."""
        found = dict.fromkeys(EntryType, (0, 0))
        for cut in self._cuts:
            for name, (entries, credits) in msgspec.json.decode(cut["sums"]).items():
                kind = EntryType[name.upper()]
                found[kind] = (found[kind][0] + entries, found[kind][1] + credits)
        return found

    def months(self) -> list[str]:
        return [month_from(cut["first_ms"]).name for cut in self._cuts]

    async def begin(self, recount: Recount) -> None:
        """Set an account to the state with which the remaining ledger begins."""
        rows: list[Carried] = []
        facts: list[tuple[Entry, bytes]] = []
        strays = await self._carried_rows.of(recount.pubkey, lambda row: rows.append(self._carried(row)))
        strays += await self._fact_rows.of(recount.pubkey, lambda row: facts.append(self._fact(row)))
        self._add_strays(strays)
        carried = rows[0] if rows else None
        if self._walk is None:
            if carried is not None:
                recount.resume(carried)
                self.links_passed += recount.then is not None and recount.then.seq < carried.entry.seq
            return
        self._pass_strays(recount.pubkey)
        if self._walk.pubkey != recount.pubkey:
            if carried is not None:
                recount.add_fault("it carries credits over the cut of the ledger, and the exports do not have it")
            return
        told = self._walk.walk(recount.pubkey, None, recount)
        self._compare(recount, carried, told.facts, facts)

    async def close(self) -> None:
        """Compare the rest after the last account, and the digests of the cuts."""
        for rows in (self._carried_rows, self._fact_rows):
            self._add_strays(await rows.of(_PAST_ALL, lambda _: None))
        if self._walk is not None:
            self._pass_strays(None)
            self._walk.close(self._report)
        for cut in self._cuts:
            if self._facts[cut["next_ms"]].digest() != cut["facts"]:
                self._report.add(
                    month_from(cut["first_ms"]).name, "the facts that stayed when it left the ledger were changed"
                )
        if self._cuts and self._digest.digest() != self._cuts[-1]["carried"]:
            self._report.add("all", "what accounts carry over the newest cut of the ledger was changed")

    def _open_exports(self, exported: Sequence[ExportedMonth]) -> None:
        given = {month.manifest.next_ms: month for month in exported}
        used = []
        for cut in self._cuts:
            month, name = given.get(cut["next_ms"]), month_from(cut["first_ms"]).name
            if month is None:
                self._report.add(name, "it left the ledger, and its export is not among those that are given")
                continue
            if month.digest != cut["manifest"]:
                self._report.add(name, "its export is another one than that with which it left the ledger")
            used.append(month)
        self._walk = MonthsWalk(used)

    def _pass_strays(self, until: bytes | None) -> None:
        """Report accounts before this one that exports have and the database does not."""
        walk = self._walk
        while walk is not None and walk.pubkey is not None and (until is None or walk.pubkey < until):
            pubkey = walk.pubkey
            walk.walk(pubkey, None, Recount(pubkey))
            self._report.add(pubkey, "it is in an exported month, and the account is gone")

    def _compare(
        self,
        recount: Recount,
        carried: Carried | None,
        told: list[tuple[Entry, bytes]],
        kept: list[tuple[Entry, bytes]],
    ) -> None:
        if carried is None or recount.newest is None:
            recount.add_fault("it has entries in exported months, and carries nothing over the cut of the ledger")
        elif (made := recount.carried()) != carried._replace(tail=b""):
            for name, theirs, ours in zip(Carried._fields, carried, made, strict=True):
                if theirs != ours and name != "tail":
                    recount.add_fault(f"it carries over another {name} than its exported entries make: {theirs!r}")
        names = {(entry.seq, entry.method, entry.description, hash_) for entry, hash_ in told}
        if names != {(entry.seq, entry.method, entry.description, hash_) for entry, hash_ in kept}:
            recount.add_fault("the facts that stayed when months left the ledger are not those of the exports")

    def _carried(self, row: Any) -> Carried:
        carried = carried_of(row)
        self._digest.update(carried.line())
        return carried

    def _fact(self, row: Any) -> tuple[Entry, bytes]:
        pubkey, at_ms, seq, method, description, hash_ = tuple(row)
        entry = Entry(seq, at_ms, int(EntryType.FACT), 0, 0, b"", method, 0, description, "")
        month = next((cut["next_ms"] for cut in self._cuts if at_ms < cut["next_ms"]), None)
        if month is None:
            self._report.add(pubkey, f"fact {seq} is kept as one of a month that left the ledger, and none of it has")
        else:
            self._facts[month].add(pubkey, entry, hash_)
        return entry, hash_

    def _add_strays(self, strays: Sequence[bytes]) -> None:
        for pubkey in strays:
            self._report.add(pubkey, "it carries something over a cut of the ledger, and is no account")
