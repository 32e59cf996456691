"""What an account carries over a cut of the ledger: its newest entry before the cut, and the totals of all earlier
entries.

Implements: decisions, "Detached months". Pure. A chain that begins at a cut is recomputed from here (recount.py): the
entry with the hash before it gives the chain's head and the balance, the rest gives batches and consumption.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from actors.accounts import ledger
from actors.accounts.ledger import Entry

HASH_BYTES = 32
ENTRY_COLUMNS = "seq, at_ms, type, amount, balance, operation_id, method, outcome, description, parcels"
COLUMNS = f"pubkey, {ENTRY_COLUMNS}, hash, before, consumed, last_batch, batches, spent, tail"
NAMES = tuple(COLUMNS.split(", "))
# For a row of ledger_cuts, the body of the fact about it.
CUT_BODY = (
    "jsonb_build_object('next_ms', next_ms, 'first_ms', first_ms, 'cut_ms', cut_ms, 'entries', entries, 'sums', sums,"
    " 'manifest', encode(manifest, 'hex'), 'carried', encode(carried, 'hex'), 'facts', encode(facts, 'hex'))"
)
_ENTRY_PARTS = len(ENTRY_COLUMNS.split(", "))


class Carried(NamedTuple):
    """hash: after the entry. before: the hash before it. consumed, last_batch: of the account then. batches: credits
    left in each; spent: credits that each named key has paid; both as pairs of numbers. tail: hashes of earlier entries
    that share a signed statement with the next entry; may be empty."""

    pubkey: bytes
    entry: Entry
    hash: bytes
    before: bytes
    consumed: int
    last_batch: int
    batches: str
    spent: str
    tail: bytes = b""

    def line(self) -> bytes:
        """Return the bytes that the digest of a cut covers. Unambiguous: texts that may contain a comma are under the
        two hashes."""
        return (
            f"{self.pubkey.hex()},{self.entry.seq},{self.hash.hex()},{self.before.hex()},{self.consumed},"
            f"{self.last_batch},{self.batches},{self.spent},{self.tail.hex()}\n"
        ).encode()

    def is_chained(self) -> bool:
        """Return whether the entry's columns give its hash."""
        return ledger.chain(self.before, self.entry) == self.hash

    def hashes(self) -> dict[int, bytes]:
        """Return the hashes that receipts of later entries may need, by entry number."""
        found = {self.entry.seq: self.hash}
        for back in range(1, len(self.tail) // HASH_BYTES + 1):
            found[self.entry.seq - back] = self.tail[len(self.tail) - back * HASH_BYTES :][:HASH_BYTES]
        return found

    def record(self) -> tuple[Any, ...]:
        """Return the row, in the order of COLUMNS."""
        entry = self.entry
        told = (entry.seq, entry.at_ms, entry.type, entry.amount, entry.balance, entry.operation, entry.method)
        rest = (self.hash, self.before, self.consumed, self.last_batch, self.batches, self.spent, self.tail)
        return (self.pubkey, *told, entry.outcome, entry.description, entry.parcels, *rest)


def carried_of(row: Any) -> Carried:
    """Read a row with COLUMNS."""
    pubkey, *columns = tuple(row)
    return Carried(pubkey, Entry(*columns[:_ENTRY_PARTS]), *columns[_ENTRY_PARTS:])


def pairs_text(numbers: Mapping[int, int]) -> str:
    """Format pairs of a number and an amount, sorted by number, without amounts of 0."""
    return " ".join(f"{number}:{amount}" for number, amount in sorted(numbers.items()) if amount)


class FactsDigest:
    """SHA-256 over the facts among detached entries, in the order of accounts and numbers."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()

    def add(self, pubkey: bytes, entry: Entry, hash_: bytes) -> None:
        text = f"{pubkey.hex()},{entry.seq},{entry.at_ms},{hash_.hex()},{len(entry.method)}:{entry.method}"
        self._digest.update(f"{text},{len(entry.description)}:{entry.description}\n".encode())

    def digest(self) -> bytes:
        return self._digest.digest()
