"""Exports made of nothing: chains of a few accounts, in statements of a key of the test's own."""

from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from nacl.signing import SigningKey

from actors.accounts import ledger
from actors.accounts.ledger import Entry, EntryType
from actors.accounts.months.files import (
    ACCOUNTS,
    ENTRIES,
    FORMAT,
    STATEMENTS,
    ExportedMonth,
    Manifest,
    Month,
    MonthWriter,
)
from actors.receipts.root_keys import KeySeal, RootKey, published
from actors.receipts.statements import NO_STATEMENT, Statement, leaf_of, root_of

SEED = b"s" * 32
KEY: RootKey = KeySeal(b"secret").make(SEED, b"n" * 12, 0)


class Chain:
    """An account that grows by entries. credits: 10 come with the first one, each further one takes one of batch 1."""

    def __init__(self, pubkey: bytes) -> None:
        self.pubkey, self.entries = pubkey, list[Entry]()
        self.hashes = [ledger.genesis(pubkey)]

    def grow(self, at_ms: int, key: int = 0) -> Entry:
        seq = len(self.entries) + 1
        balance = 1_000 if seq == 1 else self.entries[-1].balance - 1
        kind, amount = (EntryType.ADJUSTMENT, 1_000) if seq == 1 else (EntryType.DEBIT, -1)
        described = f"id-{seq}|{key}" if key else f"id-{seq}"
        operation = sha256(self.pubkey + bytes([seq])).digest()[:16]
        entry = Entry(seq, at_ms, int(kind), amount, balance, operation, "getSlot", 0, described, f"1:{amount}")
        self.entries.append(entry)
        self.hashes.append(ledger.chain(self.hashes[-1], entry))
        return entry

    def row(self, seq: int) -> tuple[Any, ...]:
        entry = self.entries[seq - 1]
        parts = (entry.seq, entry.at_ms, entry.type, entry.amount, entry.balance, entry.operation, entry.method)
        return (self.pubkey, *parts, entry.outcome, entry.description, entry.parcels, self.hashes[seq])


def statement(
    number: int, at_ms: int, spans: Mapping[bytes, tuple[int, int]], chains: Sequence[Chain]
) -> tuple[Any, ...]:
    """A signed one, as a row of its file. spans: the first and the last entry of each account in it."""
    by_key = {chain.pubkey: chain for chain in chains}
    leaves = b"".join(
        leaf_of(pubkey, first, by_key[pubkey].hashes[first : last + 1]).packed()
        for pubkey, (first, last) in sorted(spans.items())
    )
    entries = sum(last - first + 1 for first, last in spans.values())
    text = Statement(0, number, at_ms, NO_STATEMENT, len(spans), entries, root_of(leaves)).text()
    return text, KEY.id, SigningKey(SEED).sign(text.encode()).signature, leaves


def month_made(
    place: Path, month: Month, chains: Sequence[Chain], statements: Sequence[tuple[Any, ...]]
) -> ExportedMonth:
    """The export of what these chains have in this month."""
    writer, counted, credits, heads = MonthWriter(place, month), Counter[int](), Counter[int](), []
    for chain in sorted(chains, key=lambda each: each.pubkey):
        inside = [entry for entry in chain.entries if month.first_ms <= entry.at_ms < month.next_ms]
        writer.write(ENTRIES, [chain.row(entry.seq) for entry in inside])
        for entry in inside:
            counted[entry.type] += 1
            credits[entry.type] += entry.amount
        if inside:
            first, last = inside[0].seq, inside[-1].seq
            heads.append((chain.pubkey, first, chain.hashes[first - 1], last, chain.hashes[last]))
    writer.write(ACCOUNTS, heads)
    writer.write(STATEMENTS, statements)
    sums = {kind.name.lower(): (counted[kind], credits[kind]) for kind in EntryType}
    counts = (counted.total(), len(heads), len(statements))
    keys = published([KEY])
    return writer.finish(Manifest(FORMAT, *month, "2024-02-01T00:00:00Z", "0.2.0", *counts, sums, [], keys))
