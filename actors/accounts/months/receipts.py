"""Makes receipts of entries of exported months, in the form in which the product makes them.

Implements: decisions, "Detached months"; decisions, "Signed roots". A shell over the files. Not here: their JSON
(gateway/pages/receipts.py).
"""

from collections.abc import Sequence
from typing import Any

from actors.accounts import ledger
from actors.accounts.ledger import Entry
from actors.accounts.months.files import ENTRIES, STATEMENTS, ExportedMonth, ExportError
from actors.accounts.receipts import Receipt
from actors.calls import OPERATION_BYTES
from actors.receipts.statements import AccountLeaf, AccountPaths, SignedStatement, find_leaf
from actors.units import base58_text


class ExportedReceipts:
    """Receipts of one account. months: sorted by time."""

    def __init__(self, months: Sequence[ExportedMonth], pubkey: bytes) -> None:
        self._months, self._pubkey = months, pubkey

    def of_entry(self, at_ms: int, seq: int) -> Receipt:
        """Return the receipt of an entry. Raises ExportError."""
        month = next((one for one in self._months if one.manifest.first_ms <= at_ms < one.manifest.next_ms), None)
        if month is None:
            raise ExportError("no month with this entry is among the exports: give the folder that has it")
        entries = self._entries(month)
        if seq not in entries or entries[seq][0].at_ms != at_ms:
            raise ExportError(f"{base58_text(self._pubkey)} has no such entry in {month.manifest.month}")
        return self._receipt(month, entries, seq)

    def of_operation(self, operation: bytes) -> list[Receipt]:
        """Return the receipts of a call: its debit, and its refund if there is one. Raises ExportError."""
        assert len(operation) == OPERATION_BYTES, operation
        made = []
        for month in self._months:
            entries = self._entries(month)
            found = [seq for seq, (entry, _) in entries.items() if entry.operation == operation]
            made += [self._receipt(month, entries, seq) for seq in found]
        if not made:
            raise ExportError(f"{base58_text(self._pubkey)} has no entry of this operation in the exported months")
        return made

    def _receipt(self, month: ExportedMonth, entries: dict[int, tuple[Entry, bytes]], seq: int) -> Receipt:
        statement, index, leaf = self._statement(month, seq)
        known = entries
        if not {max(leaf.first - 1, 1), leaf.last} <= entries.keys():
            known = {number: one for other in self._months for number, one in self._entries(other).items()}
        if not known.keys() >= {max(seq - 1, 1), *range(leaf.first, leaf.last + 1)}:
            raise ExportError(
                f"the statement of entry {seq} has entries {leaf.first} to {leaf.last}, and the months given do not: "
                "give the months before and behind too"
            )
        hashes = [known[number][1] for number in range(leaf.first, leaf.last + 1)]
        before = known[seq - 1][1] if seq > 1 else ledger.genesis(self._pubkey)
        path = AccountPaths(statement.leaves, index, leaf, hashes).of(seq)
        return Receipt(entries[seq][0], before, path, statement)

    def _statement(self, month: ExportedMonth, seq: int) -> tuple[SignedStatement, int, AccountLeaf]:
        for group in month.rows(STATEMENTS):
            for row in group:
                statement = SignedStatement(*row)
                if self._pubkey not in statement.leaves:
                    continue
                placed = find_leaf(statement.leaves, self._pubkey)
                if placed is not None and placed[1].first <= seq <= placed[1].last:
                    return statement, *placed
        raise ExportError(
            f"no statement of {month.manifest.month} has entry {seq}: `months verify` says what is missing"
        )

    def _entries(self, month: ExportedMonth) -> dict[int, tuple[Entry, bytes]]:
        """Yield the account's entries of a month by number, each with the hash after it."""
        found: dict[int, tuple[Entry, bytes]] = {}
        rows: list[Any]
        for rows in month.rows(ENTRIES):
            if rows[-1][0] < self._pubkey:
                continue
            if rows[0][0] > self._pubkey:
                break
            for pubkey, *columns, hash_ in rows:
                if pubkey == self._pubkey:
                    entry = Entry(*columns)
                    found[entry.seq] = (entry, hash_)
        return found
