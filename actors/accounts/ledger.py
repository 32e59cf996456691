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
    """Type of an entry. The numbers are stored; they must never be reused for another meaning."""

    DEPOSIT = 0
    BONUS = 1
    DEBIT = 2
    REFUND = 3
    ADJUSTMENT = 4
    EXPIRY = 5
    FACT = 6  # Records a fact about the account and moves no credits (facts.py).


class Entry(msgspec.Struct, frozen=True, gc=False):
    """An entry of the ledger. parcels: what it took from or gave to which batch, as `3:-25 4:10`."""

    seq: int  # Sequence number, from 1 without gaps.
    at_ms: int  # Wall clock in milliseconds, never earlier than the entry before.
    type: int
    amount: int  # Signed credits.
    balance: int  # Balance after this entry.
    operation: bytes
    method: str
    outcome: int
    description: str  # For a debit: its evidence (calls.py). For a fact: its body; the method is its kind.
    parcels: str


class FactTold(msgspec.Struct, frozen=True):
    """An event of an account: its entry tells a fact, and moves no credits."""

    entry: Entry


def genesis(pubkey: bytes) -> bytes:
    """Return the hash before the first entry. It depends on the account, so that chains cannot be exchanged."""
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
    """Return the hash after this entry."""
    return hashlib.sha256(head + canonical(entry)).digest()


# Fields of facts not shown here. The chain's hash covers them, and so do receipts, which only the account gets.
_UNSHOWN = frozenset(("api_key_hash", "key_hash", "old_hash"))
_OUTCOME_WORDS: dict[int, str] = {
    Outcome.UPSTREAM_ERROR: "the node answered with an error that is billed",
    Outcome.CLIENT_GONE: "answered after the client had left",
}


def describe(entry: Entry) -> str:
    """Return one line that describes the entry to the account's customer."""
    if entry.type == EntryType.FACT:
        told = msgspec.json.decode(entry.description)
        return msgspec.json.encode({name: value for name, value in told.items() if name not in _UNSHOWN}).decode()
    if entry.type not in (EntryType.DEBIT, EntryType.REFUND):
        return entry.description
    if entry.type == EntryType.REFUND:
        return f"{entry.method}: refunded, the answer could not be delivered"
    words = _OUTCOME_WORDS.get(entry.outcome)
    return f"{entry.method}: {words}" if words else entry.method
