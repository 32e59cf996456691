"""Recomputes one account from its entries alone: balance, batches, consumption, hash chain.

Implements: money rule 6 ("a command recomputes every balance from them"); threat 20.
Pure and streaming: entries are fed one by one and not kept. Reading them is audit.py's work.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from actors.accounts import ledger
from actors.accounts.credits import read_parcels
from actors.accounts.facts import ChainLink
from actors.accounts.ledger import Entry, EntryType
from actors.accounts.months.carried import Carried, pairs_text
from actors.accounts.writes import Head
from actors.calls import split_key

_GIVING = (EntryType.DEPOSIT, EntryType.BONUS, EntryType.REFUND)
_TAKING = (EntryType.DEBIT, EntryType.EXPIRY)
_TYPES = frozenset(int(kind) for kind in EntryType)
FAULTS_MAX = 10  # Faults reported for one account; more would tell nothing new.


@dataclass(slots=True)
class Recount:
    pubkey: bytes
    seq: int = 0
    at_ms: int = 0
    balance: int = 0
    consumed: int = 0
    head: bytes = b""
    batches: dict[int, int] = field(default_factory=dict)  # Batch number to credits left; spent batches are dropped.
    last_batch: int = 0
    faults: list[str] = field(default_factory=list)
    then: ChainLink | None = None  # The newest entry when a checkpoint was written.
    # For each signed statement, its newest entry of this account, sorted by number; None: no statements were read.
    signed: Sequence[ChainLink] | None = None
    signed_before_ms: int = 0  # Every older entry must be in a statement.
    # False: the first entries are unknown, and so are the credits of batches.
    is_whole: bool = True
    spent: dict[int, int] = field(default_factory=dict)  # Credits spent by each named key.
    newest: Entry | None = None
    before: bytes = b""  # Hash before the newest entry.
    _compared: int = 0  # How many signed links were compared.

    def __post_init__(self) -> None:
        self.head = ledger.genesis(self.pubkey)

    def resume(self, end: Carried) -> None:
        """Continue from a cut of the ledger instead of from the account's beginning."""
        entry = end.entry
        self.seq, self.at_ms, self.balance, self.consumed = entry.seq, entry.at_ms, entry.balance, end.consumed
        self.head, self.before, self.newest, self.last_batch = end.hash, end.before, entry, end.last_batch
        if not end.is_chained():
            self.add_fault(f"what the cut of the ledger carries over as entry {entry.seq} is not what was written")
        try:
            self.batches, self.spent = dict(read_parcels(end.batches)), dict(read_parcels(end.spent))
        except ValueError:
            self.add_fault("the cut of the ledger carries over unreadable batches")
        if sum(self.batches.values()) != entry.balance:
            self.add_fault(f"the cut of the ledger carries over {entry.balance} credits, and batches of other credits")
        self._compare_links(entry.seq, end.hash)

    def begin_after(self, first: Entry, before: bytes) -> None:
        """Continue from an entry whose predecessors are unknown: its own hash and balance start the chain."""
        self.is_whole, self.seq, self.at_ms = False, first.seq - 1, 0
        self.balance, self.head = first.balance - first.amount, before

    def carried(self) -> Carried:
        """Return the totals of the entries so far, without a tail."""
        assert self.newest is not None, self.pubkey
        sums = (self.consumed, self.last_batch, pairs_text(self.batches), pairs_text(self.spent))
        return Carried(self.pubkey, self.newest, self.head, self.before, *sums)

    def feed(self, entry: Entry, stored_hash: bytes) -> None:
        """Check the next entry; entries arrive in the order of time and sequence."""
        if entry.seq != self.seq + 1:
            self.add_fault(f"entry {entry.seq} follows entry {self.seq}")
        if entry.at_ms < self.at_ms:
            self.add_fault(f"entry {entry.seq} is earlier than the one before")
        if entry.balance != self.balance + entry.amount or entry.balance < 0:
            self.add_fault(f"entry {entry.seq}: {self.balance} and {entry.amount} make {entry.balance}")
        wrong_way = (entry.type in _GIVING and entry.amount <= 0) or (entry.type in _TAKING and entry.amount >= 0)
        if wrong_way or entry.type not in _TYPES or (entry.type == EntryType.FACT and entry.amount != 0):
            self.add_fault(f"entry {entry.seq}: type {entry.type} with amount {entry.amount}")
        if ledger.chain(self.head, entry) != stored_hash:
            self.add_fault(f"entry {entry.seq} breaks the hash chain: it is not what was written, or stands elsewhere")
        self._compare_links(entry.seq, stored_hash)
        if self.signed is not None and entry.at_ms < self.signed_before_ms and not self._is_signed(entry.seq):
            self.add_fault(f"entry {entry.seq} is in no signed statement, and later ones are")
        self._move(entry)
        if entry.type in (EntryType.DEBIT, EntryType.REFUND):
            self.consumed -= entry.amount
            _, key = split_key(entry.description)
            if key:
                self.spent[key] = self.spent.get(key, 0) - entry.amount
        # Continues from the stored values, so that every later entry does not report the same fault again.
        self.seq, self.at_ms, self.balance = entry.seq, entry.at_ms, entry.balance
        self.before, self.head, self.newest = self.head, stored_hash, entry

    def close(self, head: Head, batches: Mapping[int, int]) -> list[str]:
        """Compare with the account's own rows. batches: number to credits left, of all batches ever made."""
        told = {
            "balance": (head.balance, self.balance),
            "consumed credits": (head.total_consumed, self.consumed),
            "number of entries": (head.seq, self.seq),
            "time of the newest entry": (head.last_ms, self.at_ms),
            "newest hash": (head.hash.hex(), self.head.hex()),
            "newest batch": (head.last_batch, self.last_batch),
            "sum of batches": (sum(batches.values()), self.balance),
        }
        for what, (stored, computed) in told.items():
            if stored != computed:
                self.add_fault(f"{what}: stored {stored}, by the ledger {computed}")
        if self.then is not None and self.then.seq > self.seq:
            self.add_fault(f"it had {self.then.seq} entries at the checkpoint, by the ledger {self.seq}")
        if self.signed and self.signed[-1].seq > self.seq:
            self.add_fault(f"a signed statement has entry {self.signed[-1].seq} of it, the ledger ends with {self.seq}")
        for number in sorted(batches.keys() | self.batches.keys()):
            stored_left, left = batches.get(number), self.batches.get(number, 0)
            if stored_left != left:
                self.add_fault(f"batch {number}: stored {stored_left}, by the ledger {left}")
        return self.faults

    def _is_signed(self, seq: int) -> bool:
        signed = self.signed or ()
        return bool(signed) and signed[-1].seq >= seq

    def _compare_links(self, seq: int, stored_hash: bytes) -> None:
        """Compare the hash after this entry with the checkpoint and the signed statements."""
        if self.then is not None and self.then.seq == seq and self.then.hash != stored_hash:
            self.add_fault(f"entry {seq} has another hash than at the checkpoint: the chain was written anew")
        signed = self.signed or ()
        while self._compared < len(signed) and signed[self._compared].seq <= seq:
            link = signed[self._compared]
            self._compared += 1
            if link.seq == seq and link.hash != stored_hash:
                self.add_fault(f"entry {seq} has another hash than in a signed statement: the chain was written anew")

    def _move(self, entry: Entry) -> None:
        try:
            parcels = read_parcels(entry.parcels)
        except ValueError:
            self.add_fault(f"entry {entry.seq}: unreadable parcels")
            return
        for number, delta in parcels:
            left = self.batches.pop(number, 0) + delta
            if left:
                self.batches[number] = left
            self.last_batch = max(self.last_batch, number)
            if left < 0 and self.is_whole:
                self.add_fault(f"entry {entry.seq} takes more from batch {number} than it has")
        if sum(delta for _, delta in parcels) != entry.amount:
            self.add_fault(f"entry {entry.seq}: its parcels do not add up to {entry.amount}")

    def add_fault(self, text: str) -> None:
        if len(self.faults) < FAULTS_MAX:
            self.faults.append(text)
