"""What one group commit writes, and what loading an account gives back: the nouns of the store's port.

Implements: decisions, money rule 12 (every write carries the owner's epoch).
Pure. Made from events alone, except for the heads, which are read from the accounts when the group is cut.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from actors.accounts import ledger
from actors.accounts.account import (
    CLOCK_SLACK_SECONDS,
    VOIDED,
    Account,
    Defaults,
    Deposit,
    Event,
    Mark,
    MarkKind,
    Moved,
    Profile,
    ProfileSet,
    Return,
    adjust_key,
    new_account,
    posted,
)
from actors.accounts.credits import Batch, Purse
from actors.accounts.ledger import Entry, EntryType
from actors.accounts.outbox import KEY_ROTATED, LOW_BALANCE
from actors.units import Credits, VirtualShard


class Told(NamedTuple):
    """An event for webhooks. subject: with account and kind it names the event's cause; a second one is not written."""

    pubkey: bytes
    kind: str
    subject: bytes
    at_ms: int
    body: dict[str, Any]


class Head(NamedTuple):
    """Where an account stands after its newest entry. seq_before: where the store must have left it."""

    pubkey: bytes
    seq_before: int
    seq: int
    balance: int
    total_consumed: int
    last_batch: int
    last_ms: int
    hash: bytes


@dataclass(slots=True)
class Write:
    """One group, written whole or not at all."""

    shards: set[VirtualShard] = field(default_factory=set)
    profiles: dict[bytes, tuple[VirtualShard, Profile]] = field(default_factory=dict)
    heads: list[Head] = field(default_factory=list)
    entries: list[tuple[bytes, Entry, bytes]] = field(default_factory=list)  # Public key, entry, hash after it.
    new_batches: list[tuple[bytes, Batch]] = field(default_factory=list)
    batches: dict[tuple[bytes, int], int] = field(default_factory=dict)  # (public key, batch id) to remaining.
    marks: list[tuple[bytes, Mark]] = field(default_factory=list)
    deposits: list[tuple[bytes, Deposit]] = field(default_factory=list)
    returns: list[tuple[bytes, Return]] = field(default_factory=list)
    events: list[Told] = field(default_factory=list)
    before: dict[bytes, int] = field(default_factory=dict)  # Public key to the seq that the store has.

    def add(self, account: Account, event: Event) -> bool:
        """Take up an event that was just applied. False: it leaves nothing to write."""
        if type(event) is Moved:
            pubkey = account.pubkey
            entry = event.entry
            self.entries.append((pubkey, entry, account.head))
            if pubkey not in self.before:
                self.before[pubkey] = entry.seq - 1
            for number, _, remaining in event.moves:
                self.batches[pubkey, number] = remaining
            if event.fresh is not None:
                self.new_batches.append((pubkey, event.fresh))
            if event.mark is not None:
                self.marks.append((pubkey, event.mark))
            if event.deposit is not None:
                self.deposits.append((pubkey, event.deposit))
            if event.returned is not None:
                self.returns.append((pubkey, event.returned))
            return True
        if type(event) is ProfileSet:
            self.profiles[account.pubkey] = (account.shard, event.profile)
            if event.rotated_ms is not None:
                key_hash, prefix = event.profile.key_hash, event.profile.key_prefix
                assert key_hash is not None, event
                self._tell(account, KEY_ROTATED, key_hash, event.rotated_ms, {"key_prefix": prefix})
            return True
        mark: Mark | None = getattr(event, "mark", None)
        if mark is not None:
            self.marks.append((account.pubkey, mark))
            return True
        return False

    def add_low_balance(self, account: Account, entry: Entry) -> None:
        """Tell that this entry took the balance below the mark: once after each batch of credits that was added, so
        that refunds of single calls do not tell it again and again."""
        self._tell(
            account, LOW_BALANCE, account.purse.last_batch.to_bytes(4, "big"), entry.at_ms, {"balance": entry.balance}
        )

    def _tell(self, account: Account, kind: str, subject: bytes, at_ms: int, body: dict[str, Any]) -> None:
        self.events.append(Told(account.pubkey, kind, subject, at_ms, body))

    def cut(self, accounts: Mapping[bytes, Account]) -> None:
        """Complete the group with the heads of its accounts as they are now: nothing may have moved since the last
        event that was added."""
        self.shards = {account.shard for account in accounts.values()}
        for pubkey, before in self.before.items():
            account = accounts[pubkey]
            purse = account.purse
            head = Head(
                pubkey,
                before,
                account.seq,
                purse.balance,
                account.total_consumed,
                purse.last_batch,
                account.last_ms,
                account.head,
            )
            self.heads.append(head)


class Credited(NamedTuple):
    """A transfer that became credits: whose, and whether it was taken back."""

    pubkey: bytes
    credits: int  # With the bonus.
    assigned: bool
    returned: bool
    taken: int
    uncollected: int


class Past(NamedTuple):
    """The end of an operation, whenever that was. Without either, the operation was debited for another account."""

    debit: Entry | None
    voided: bool  # Voided, or debited and refunded.


@dataclass(slots=True)
class Stored:
    """An account as the store has it."""

    profile: Profile
    head: Head
    batches: list[Batch]  # That have something left.
    entries: list[tuple[Entry, bytes]]  # Recent ones with the hash after each, oldest first; at least the newest.
    marks: list[Mark]  # Recent voids and refunds.
    last_deposit: Deposit | None = None


class Damaged(Exception):
    """What the store has of one account contradicts itself; the account is halted until an operator has looked."""


def entries_since_ms(defaults: Defaults, now_ms: int) -> int:
    """Oldest entry that is loaded with an account, so that most operations that ended are recognised without asking the
    store for each. Only speed depends on it: what memory does not know, the store is asked about."""
    return now_ms - (defaults.memory_seconds + CLOCK_SLACK_SECONDS) * 1000


def restore(stored: Stored, defaults: Defaults, steady: int) -> Account:
    """The account as its last owner wrote it. Raises Damaged."""
    head = stored.head
    account = new_account(head.pubkey, stored.profile, defaults)
    _check_chain(stored)
    account.purse = Purse(
        balance=Credits(head.balance),
        batches=sorted(stored.batches, key=lambda batch: (batch.expires_at, batch.id)),
        last_batch=head.last_batch,
    )
    if sum(batch.remaining for batch in stored.batches) != head.balance:
        raise Damaged("its batches do not add up to its balance")
    account.seq, account.last_ms, account.head = head.seq, head.last_ms, head.hash
    account.total_consumed = head.total_consumed
    account.last_deposit = stored.last_deposit
    for entry, _ in stored.entries:
        if entry.type == EntryType.DEBIT:
            account.operations.put(entry.operation, posted(entry.method, entry.parcels), steady)
        elif entry.type == EntryType.REFUND:
            account.operations.put(entry.operation, VOIDED, steady)
        elif entry.type == EntryType.ADJUSTMENT:
            account.operations.put(adjust_key(entry.operation), posted("", entry.parcels), steady)
    for mark in stored.marks:
        assert mark.kind in (MarkKind.VOID, MarkKind.REFUND), mark
        account.operations.put(mark.operation, VOIDED, steady)
    return account


def _check_chain(stored: Stored) -> None:
    head = stored.head
    if not stored.entries:
        if head.seq != 0 or head.hash != ledger.genesis(head.pubkey):
            raise Damaged("it has entries behind it that are not there")
        return
    newest, newest_hash = stored.entries[-1]
    if (newest.seq, newest.balance, newest_hash) != (head.seq, head.balance, head.hash):
        raise Damaged("its newest entry is not the one it says")
    for (_, hash_before), (entry, hash_after) in zip(stored.entries, stored.entries[1:], strict=False):
        if ledger.chain(hash_before, entry) != hash_after:
            raise Damaged(f"entry {entry.seq} is not what was written")
