"""Listings of a ledger: which entries a request asks for, how a customer sees them, and where the next page starts.

Implements: README.md, "Listings of the ledger"; interface, "Account endpoints". Pure.

Entries of an account are in the order of their time and number, and none is ever inserted between two others. So the
time and number of an entry are a place in the ledger, and older entries stay the same while new ones are written. A
page by place costs the same however old it is, by the ledger's primary key; a page by offset reads the entries that it
skips.

A page of a rare kind must not read all entries in between. Entries that are no charges have an index of their own, by
type. Charges of a method are searched in the hours in which the rollup of usage has some (accounts_charges_of() in
functions.sql): an index of the ledger by method would add a tenth to the disk of each call.
"""

import re
from typing import Any

import msgspec

from actors.accounts.account import MarkKind
from actors.accounts.ledger import Entry, EntryType, describe
from actors.calls import Outcome
from actors.growing import Growing

TYPES = {kind.name.lower(): int(kind) for kind in EntryType}  # Names that customers see.
_CURSOR = re.compile(r"([0-9]{1,15})-([0-9]{1,18})")
_OF_CALLS = (EntryType.DEBIT, EntryType.REFUND)
# Marks of voids and refunds have the time of their entry, so the ledger need not be scanned. A refund's entry is never
# older than its mark, and younger only where the ledger's time was ahead of the clock.
_REFUND_MS = (
    f"(SELECT o.at_ms FROM account_operations o WHERE o.pubkey = $1 AND o.kind = {MarkKind.REFUND:d}"  # noqa: S608 - a number.
    " AND o.operation = {0})"
)
_OPERATION = (
    f"operation_id = {{0}} AND type IN ({EntryType.DEBIT:d}, {EntryType.REFUND:d})"  # noqa: S608 - numbers of kinds.
    " AND (at_ms = (SELECT d.at_ms FROM account_debits d WHERE d.operation = {0})"
    f" OR at_ms BETWEEN {_REFUND_MS} AND {_REFUND_MS} + 60000)"
)
_TIME_MS_MAX = 7_258_118_400_000  # The year 2200, the last for which the ledger can have partitions.
_NUMBER_MAX = 2**63 - 1
_NEWEST_FIRST = "ORDER BY at_ms DESC, seq DESC"
_OF_LEDGER = "SELECT * FROM ledger WHERE pubkey = $1"


class LedgerFilter(msgspec.Struct, frozen=True):
    """Which entries a listing contains.

    before: (at_ms, number) of the last entry seen; only older ones are listed. from_ms, to_ms: from this time to before
    that one. kind: number of an EntryType; None: all that move credits. method: only entries of this method. operation:
    of a call; lists its debit and its refund. with_facts: without a kind, also list entries that move no credits."""

    before: tuple[int, int] | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    kind: int | None = None
    method: str | None = None
    operation: bytes | None = None
    with_facts: bool = False

    def takes(self, entry: Entry) -> bool:
        return (
            (self.before is None or (entry.at_ms, entry.seq) < self.before)
            and (self.from_ms is None or entry.at_ms >= self.from_ms)
            and (self.to_ms is None or entry.at_ms < self.to_ms)
            and (self.with_facts or entry.type != EntryType.FACT if self.kind is None else entry.type == self.kind)
            and (self.method is None or entry.method == self.method)
            and (self.operation is None or (entry.operation == self.operation and entry.type in _OF_CALLS))
        )

    def condition(self, first: int) -> tuple[str, list[Any]]:
        """Return a PostgreSQL condition that begins with AND, and its values, numbered from `first`.

        $1 is the account's public key. A time beside the place lets the server skip later months.
        """
        parts: list[tuple[str, tuple[Any, ...]]] = []
        if self.before is not None:
            parts.append(("at_ms <= {0} AND (at_ms, seq) < ({0}, {1})", self.before))
        for text, value in (
            ("at_ms >= {0}", self.from_ms),
            ("at_ms < {0}", self.to_ms),
            ("method = {0}", self.method),
            (_OPERATION, self.operation),
        ):
            if value is not None:
                parts.append((text, (value,)))
        # Types are literals, so that the planner sees which partial index covers them.
        if self.kind is not None:
            parts.append((f"type = {self.kind:d}", ()))
        elif not self.with_facts:
            parts.append((f"type <> {EntryType.FACT:d}", ()))
        sql, values = "", list[Any]()
        for text, more in parts:
            numbers = [f"${first + len(values) + index}" for index in range(len(more))]
            sql += " AND " + text.format(*numbers)
            values += more
        return sql, values

    def page(self, offset: int, limit: int) -> tuple[str, list[Any]]:
        """Return a query for a page of the entries of account $1, newest first, and the values after $1.

        Use an offset only for the first pages: with an offset and a method, everything in between is read.
        """
        if self.method is None or offset or self.operation is not None or self.kind not in (None, EntryType.DEBIT):
            condition, values = self.condition(4)
            return f"{_OF_LEDGER}{condition} {_NEWEST_FIRST} OFFSET $2 LIMIT $3", [offset, limit, *values]
        before = self.before or (_TIME_MS_MAX, _NUMBER_MAX)
        values = [offset, limit, self.method, self.from_ms or 0, _TIME_MS_MAX if self.to_ms is None else self.to_ms]
        # Only charges, their refunds and facts have a method.
        parts = ["SELECT * FROM accounts_charges_of($1, $4, $5, $6, $7, $8, $3)"]
        if self.kind is None:
            others = (EntryType.REFUND, EntryType.FACT) if self.with_facts else (EntryType.REFUND,)
            window = "method = $4 AND at_ms >= $5 AND at_ms < $6 AND at_ms <= $7 AND (at_ms, seq) < ($7, $8)"
            parts += [f"({_OF_LEDGER} AND type = {kind:d} AND {window} {_NEWEST_FIRST} LIMIT $3)" for kind in others]
        found = " UNION ALL ".join(parts)
        return f"SELECT * FROM ({found}) AS every {_NEWEST_FIRST} OFFSET $2 LIMIT $3", [*values, *before]  # noqa: S608


NO_FILTER = LedgerFilter()


class LedgerLine(Growing, frozen=True):
    """An entry of the ledger as its customer sees it. amount: signed credits. balance: after this entry.

    number: of the entry, from 1 without gaps. outcome: of a debit, in lower case. operation: of what it paid for; of a
    deposit, the transaction's signature and the number of the transfer. evidence: of a debit or refund
    (calls.Evidence).
    """

    type: str
    method: str
    amount: int
    balance: int
    description: str
    at_ms: int
    number: int = 0
    outcome: str = ""
    operation: bytes = b""
    evidence: str = ""

    @property
    def cursor(self) -> str:
        return f"{self.at_ms}-{self.number}"


def line_of(entry: Entry, detailed: bool) -> LedgerLine:
    """detailed: include the fields that a process of release 0.1.0 does not know."""
    kind = EntryType(entry.type)
    line = LedgerLine(kind.name.lower(), entry.method, entry.amount, entry.balance, describe(entry), entry.at_ms)
    if not detailed:
        return line
    outcome = Outcome(entry.outcome).name.lower() if kind is EntryType.DEBIT else ""
    evidence = entry.description if kind in _OF_CALLS else ""
    more = {"number": entry.seq, "outcome": outcome, "operation": entry.operation, "evidence": evidence}
    return msgspec.structs.replace(line, **more)


def parse_cursor(text: str) -> tuple[int, int] | None:
    """Parse a cursor. None: it is not a cursor of this service."""
    found = _CURSOR.fullmatch(text) if text.isascii() else None
    if found is None or int(found[1]) > _TIME_MS_MAX:
        return None
    return int(found[1]), int(found[2])
