"""The entries of an account's ledger and the hash chain through them.

Implements: money rule 6 and "ledger `type`"; interface, "Ledger entry".
Pure. An entry never changes; a correction is a new entry.
"""

import hashlib
from enum import IntEnum, unique

import msgspec

from actors.calls import Outcome
from actors.units import PUBKEY_BYTES


@unique
class EntryType(IntEnum):
    """Numbers are the database's; they must never be reused for another meaning."""

    DEPOSIT = 0
    BONUS = 1
    DEBIT = 2
    REFUND = 3
    ADJUSTMENT = 4
    EXPIRY = 5
    FACT = 6  # Moves no credits: something about the account became true (facts.py).


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One line. parcels says what it took from or gave to which batch: `3:-25 4:10`."""

    seq: int  # From 1, without gaps.
    at_ms: int  # Wall clock, never earlier than the entry before.
    type: int
    amount: int  # Signed credits.
    balance: int  # After this entry.
    operation: bytes
    method: str
    outcome: int
    description: str  # Of a debit: its evidence (calls.py). Of a fact: its body; the method is its kind.
    parcels: str


class FactTold(msgspec.Struct, frozen=True):
    """An event of an account: its entry tells a fact, and moves no credits."""

    entry: Entry


def genesis(pubkey: bytes) -> bytes:
    """Hash before the first entry: two accounts' chains can never be exchanged."""
    assert len(pubkey) == PUBKEY_BYTES, len(pubkey)
    return hashlib.sha256(b"ledger-gateway account " + pubkey).digest()


def canonical(entry: Entry) -> bytes:
    """Bytes that the chain covers. Unambiguous: only the two texts can contain a comma; one carries its length in
    characters, and the other comes last."""
    method = entry.method
    return b"%d,%d,%d,%d,%d,%d,%b,%b,%d:%b,%b" % (  # Of bytes, as this takes less time than a text that is encoded.
        entry.seq,
        entry.at_ms,
        entry.type,
        entry.amount,
        entry.balance,
        entry.outcome,
        entry.operation.hex().encode(),
        entry.parcels.encode(),
        len(method),
        method.encode(),
        entry.description.encode(),
    )


def chain(head: bytes, entry: Entry) -> bytes:
    """Hash after this entry."""
    return hashlib.sha256(head + canonical(entry)).digest()


# Of facts. They are under the chain's hash, and so in receipts, which the account alone is given.
_UNSHOWN = frozenset(("api_key_hash", "key_hash", "old_hash"))
_OUTCOME_WORDS: dict[int, str] = {
    Outcome.UPSTREAM_ERROR: "the node answered with an error that is billed",
    Outcome.CLIENT_GONE: "answered after the client had left",
}


def describe(entry: Entry) -> str:
    """One line for the account's owner."""
    if entry.type == EntryType.FACT:
        told = msgspec.json.decode(entry.description)
        return msgspec.json.encode({name: value for name, value in told.items() if name not in _UNSHOWN}).decode()
    if entry.type not in (EntryType.DEBIT, EntryType.REFUND):
        return entry.description
    if entry.type == EntryType.REFUND:
        return f"{entry.method}: refunded, the answer could not be delivered"
    words = _OUTCOME_WORDS.get(entry.outcome)
    return f"{entry.method}: {words}" if words else entry.method
