"""One account recomputed from its entries alone: balance, batches, consumption, hash chain.

Implements: money rule 6 ("a command recomputes every balance from them"); threat 20.
Pure and streaming: entries are fed one by one and not kept. Reading them is audit.py's work.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from actors.accounts import ledger
from actors.accounts.credits import read_parcels
from actors.accounts.facts import ChainLink
from actors.accounts.ledger import Entry, EntryType
from actors.accounts.writes import Head

_GIVING = (EntryType.DEPOSIT, EntryType.BONUS, EntryType.REFUND)
_TAKING = (EntryType.DEBIT, EntryType.EXPIRY)
_TYPES = frozenset(int(kind) for kind in EntryType)
FAULTS_MAX = 10  # Of one account; more of them would tell nothing new.


@dataclass(slots=True)
class Recount:
    pubkey: bytes
    seq: int = 0
    at_ms: int = 0
    balance: int = 0
    consumed: int = 0
    head: bytes = b""
    batches: dict[int, int] = field(default_factory=dict)  # Number to what is left; a spent one is dropped.
    last_batch: int = 0
    faults: list[str] = field(default_factory=list)
    then: ChainLink | None = None  # The newest entry when a checkpoint was written.
    # Of each signed statement the newest entry that it has, in the order of their numbers; None: nobody has read any.
    signed: Sequence[ChainLink] | None = None
    signed_before_ms: int = 0  # Each entry that is older is in a statement.
    _compared: int = 0  # Of the signed links.

    def __post_init__(self) -> None:
        self.head = ledger.genesis(self.pubkey)

    def feed(self, entry: Entry, stored_hash: bytes) -> None:
        """Check the next entry; entries come in the order of time and sequence."""
        if entry.seq != self.seq + 1:
            self._fault(f"entry {entry.seq} follows entry {self.seq}")
        if entry.at_ms < self.at_ms:
            self._fault(f"entry {entry.seq} is earlier than the one before")
        if entry.balance != self.balance + entry.amount or entry.balance < 0:
            self._fault(f"entry {entry.seq}: {self.balance} and {entry.amount} make {entry.balance}")
        wrong_way = (entry.type in _GIVING and entry.amount <= 0) or (entry.type in _TAKING and entry.amount >= 0)
        if wrong_way or entry.type not in _TYPES or (entry.type == EntryType.FACT and entry.amount != 0):
            self._fault(f"entry {entry.seq}: type {entry.type} with amount {entry.amount}")
        if ledger.chain(self.head, entry) != stored_hash:
            self._fault(f"entry {entry.seq} breaks the hash chain: it is not what was written, or stands elsewhere")
        if self.then is not None and self.then.seq == entry.seq and self.then.hash != stored_hash:
            self._fault(f"entry {entry.seq} has another hash than at the checkpoint: the chain was written anew")
        if self.signed is not None:
            self._compare_signed(self.signed, entry, stored_hash)
        self._move(entry)
        if entry.type in (EntryType.DEBIT, EntryType.REFUND):
            self.consumed -= entry.amount
        # Goes on from what is stored, so that one fault is not reported again by every entry behind it.
        self.seq, self.at_ms, self.balance, self.head = entry.seq, entry.at_ms, entry.balance, stored_hash

    def close(self, head: Head, batches: Mapping[int, int]) -> list[str]:
        """Compare with what the account's own rows say. batches: number to what is left, of all batches ever made."""
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
                self._fault(f"{what}: stored {stored}, by the ledger {computed}")
        if self.then is not None and self.then.seq > self.seq:
            self._fault(f"it had {self.then.seq} entries at the checkpoint, by the ledger {self.seq}")
        if self.signed and self.signed[-1].seq > self.seq:
            self._fault(f"a signed statement has entry {self.signed[-1].seq} of it, the ledger ends with {self.seq}")
        for number in sorted(batches.keys() | self.batches.keys()):
            stored_left, left = batches.get(number), self.batches.get(number, 0)
            if stored_left != left:
                self._fault(f"batch {number}: stored {stored_left}, by the ledger {left}")
        return self.faults

    def _compare_signed(self, signed: Sequence[ChainLink], entry: Entry, stored_hash: bytes) -> None:
        while self._compared < len(signed) and signed[self._compared].seq <= entry.seq:
            link = signed[self._compared]
            self._compared += 1
            if link.seq == entry.seq and link.hash != stored_hash:
                self._fault(
                    f"entry {entry.seq} has another hash than in a signed statement: the chain was written anew"
                )
        if entry.seq > (signed[-1].seq if signed else 0) and entry.at_ms < self.signed_before_ms:
            self._fault(f"entry {entry.seq} is in no signed statement, and later ones are")

    def _move(self, entry: Entry) -> None:
        try:
            parcels = read_parcels(entry.parcels)
        except ValueError:
            self._fault(f"entry {entry.seq}: unreadable parcels")
            return
        for number, delta in parcels:
            left = self.batches.pop(number, 0) + delta
            if left:
                self.batches[number] = left
            self.last_batch = max(self.last_batch, number)
            if left < 0:
                self._fault(f"entry {entry.seq} takes more from batch {number} than it has")
        if sum(delta for _, delta in parcels) != entry.amount:
            self._fault(f"entry {entry.seq}: its parcels do not add up to {entry.amount}")

    def _fault(self, text: str) -> None:
        if len(self.faults) < FAULTS_MAX:
            self.faults.append(text)
