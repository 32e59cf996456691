"""Answers of the store: an account as last written, the end of an operation, a credited transfer; its failures.

Pure. Not here: what is written (writes.py).
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from actors.accounts import ledger
from actors.accounts.account import Account, Defaults, Deposit, Mark, MarkKind, Profile, adjust_key, new_account
from actors.accounts.credits import Batch, Purse, Source
from actors.accounts.ends import VOIDED, posted, posted_by
from actors.accounts.hourly_limit import NO_HOUR, BegunHour, HourlySetting
from actors.accounts.ledger import Entry, EntryType
from actors.accounts.named_keys import StoredKey, keys_of
from actors.accounts.writes import Head
from actors.calls import PUBLIC_PRICES
from actors.units import Credits, UnixSeconds


class StoreUnavailable(Exception):
    """The store did not answer, or failed for a reason of its own. Whether a write was made is unknown."""


class Fenced(Exception):
    """Another owner has the shards. Nothing was written, and no later write of this owner will succeed."""


class NotGiven(Exception):
    """Shards are not where their giver left them: the giver took them back, or another owner has them. Nothing was
    done."""


class Credited(NamedTuple):
    """A transfer that was credited: its account, and whether it was taken back."""

    pubkey: bytes
    credits: int  # With the bonus.
    assigned: bool
    returned: bool
    taken: int
    uncollected: int


class Past(NamedTuple):
    """How an operation ended, whenever that was. With neither, the operation was debited for another account."""

    debit: Entry | None
    voided: bool  # Voided, or debited and refunded.


@dataclass(slots=True)
class Stored:
    """An account as stored."""

    profile: Profile
    head: Head
    batches: list[Batch]  # Batches with credits left.
    entries: list[tuple[Entry, bytes]]  # Recent entries with the hash after each, oldest first; at least the newest.
    marks: list[Mark]  # Recent voids and refunds.
    last_deposit: Deposit | None = None
    keys: list[StoredKey] = field(default_factory=list)
    hourly: HourlySetting = field(default_factory=HourlySetting)
    hour: BegunHour = NO_HOUR
    price_list: str = PUBLIC_PRICES


class Damaged(Exception):
    """The rows of one account contradict each other. The account is halted until an operator has checked it."""


def restore(stored: Stored, defaults: Defaults, steady: int) -> Account:
    """Rebuild the account as its last owner wrote it. Raises Damaged."""
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
    account.keys = keys_of(stored.keys)
    account.hourly.restore(stored.hourly, stored.hour)
    account.price_list = stored.price_list
    for entry, _ in stored.entries:
        if entry.type == EntryType.DEBIT:
            account.operations.put(entry.operation, posted_by(entry), steady)
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


# --- from rows and JSON of the database


def read_deposit(text: str | None) -> Deposit | None:
    """Parse accounts.last_deposit: the JSON of a deposit, as writes.py made it."""
    if text is None:
        return None
    row = msgspec.json.decode(text)
    del row["pubkey"]
    return Deposit(**row | {"operation": bytes.fromhex(row["operation"])})


def stored_batch(row: Any) -> Batch:
    return Batch(
        row["id"],
        Source(row["source"]),
        Credits(row["credits"]),
        Credits(row["remaining"]),
        UnixSeconds(row["created_at"]),
        UnixSeconds(row["expires_at"]),
    )


def stored_head(row: Any) -> Head:
    """Return where the account of a row is."""
    seq = row["seq"]
    last = (row["total_consumed"], row["last_batch"], row["last_ms"], row["head_hash"])
    return Head(row["pubkey"], seq, seq, row["balance"], *last)


def stored_account(
    row: Any, batches: list[Any], entries: list[Any], marks: list[Any], since_ms: int, keys: list[StoredKey]
) -> Stored:
    profile = Profile(
        row["created_at"],
        row["status"],
        row["api_key_hash"],
        row["key_prefix"],
        row["ref_code"],
        row["requests_per_second"],
        row["concurrency"],
        row["ref_bonus_bps"],
    )
    chained = [(Entry(*entry[:-1]), entry[-1]) for entry in map(tuple, entries)]
    recent = [pair for pair in chained if pair[0].at_ms >= since_ms] or chained[-1:]
    return Stored(
        profile,
        stored_head(row),
        [stored_batch(batch) for batch in batches],
        recent,
        [Mark(*mark) for mark in marks],
        read_deposit(row["last_deposit"]),
        keys,
        HourlySetting(row["hourly_credits"], row["hourly_lifted_until"] or 0),
        BegunHour(row["hour"] or 0, row["hour_consumed"] or 0, row["hour_usual"]),
        row["price_list"] or PUBLIC_PRICES,
    )
