"""The writes of one group commit, and their form as arguments for the database.

Implements: money rule 12 (every write carries the owner's epoch); the arguments of accounts_write_group() and
accounts_write_entry() (functions.sql).
Pure. Made from events alone, with the facts that they make true (facts.py), except for the heads, which are read from
the accounts when the group is cut.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from actors.accounts import ledger
from actors.accounts.account import (
    Account,
    Deposit,
    Event,
    Mark,
    Moved,
    NamedKeySet,
    Profile,
    ProfileSet,
    Return,
    apply,
)
from actors.accounts.credits import Batch
from actors.accounts.facts import fact_entry, facts_of
from actors.accounts.hourly_limit import (
    HOUR_MS,
    BegunHour,
    HourlyLimitSet,
    HourlySetting,
    HourSlowed,
    HourStopped,
    Stage,
)
from actors.accounts.ledger import Entry, FactTold
from actors.accounts.named_keys import UNLIMITED, KeyProfile, KeySpending
from actors.accounts.outbox import ANOMALY, KEY_ROTATED, LOW_BALANCE
from actors.accounts.price_list import PriceListSet
from actors.accounts.undelivered import Listed, Place
from actors.events import LOW_BALANCE_CREDITS
from actors.units import VirtualShard


class Told(NamedTuple):
    """An event for webhooks. subject: identifies the cause, with account and kind; a second event of the same cause is
    not written."""

    pubkey: bytes
    kind: str
    subject: bytes
    at_ms: int
    body: dict[str, Any]


class Head(NamedTuple):
    """State of an account after its newest entry. seq_before: the entry after which the store must stand."""

    pubkey: bytes
    seq_before: int
    seq: int
    balance: int
    total_consumed: int
    last_batch: int
    last_ms: int
    hash: bytes


Entries = list[tuple[bytes, Entry, bytes]]  # Public key, entry, hash after it.
_WHOLE = Place(VirtualShard(0), 1)


@dataclass(slots=True)
class Write:
    """One group, written completely or not at all."""

    shards: set[VirtualShard] = field(default_factory=set)
    profiles: dict[bytes, tuple[VirtualShard, Profile]] = field(default_factory=dict)
    heads: list[Head] = field(default_factory=list)
    entries: Entries = field(default_factory=list)
    new_batches: list[tuple[bytes, Batch]] = field(default_factory=list)
    batches: dict[tuple[bytes, int], int] = field(default_factory=dict)  # (public key, batch id) to remaining.
    marks: list[tuple[bytes, Mark]] = field(default_factory=list)
    deposits: list[tuple[bytes, Deposit]] = field(default_factory=list)
    returns: list[tuple[bytes, Return]] = field(default_factory=list)
    events: list[Told] = field(default_factory=list)
    before: dict[bytes, int] = field(default_factory=dict)  # Public key to the seq that the store has.
    place: Place = _WHOLE  # Place of the owner, under which lists of replicas are stored.
    undelivered: list[Listed] = field(default_factory=list)
    # (public key, number): keys made or changed.
    keys: dict[tuple[bytes, int], KeyProfile] = field(default_factory=dict)
    spending: dict[tuple[bytes, int], KeySpending] = field(default_factory=dict)  # Spending of the keys that paid.
    # By public key: hourly limits that were set.
    hourly_limits: dict[bytes, HourlySetting] = field(default_factory=dict)
    price_lists: dict[bytes, str] = field(default_factory=dict)  # By public key: price lists that were set.
    # By public key: accounts that began to spend in a new hour.
    hours: dict[bytes, BegunHour] = field(default_factory=dict)

    def add(self, account: Account, event: Event, now_ms: int = 0) -> bool:
        """Add an event that was just applied, and the facts that it makes true. Returns whether anything must be
        written.

        now_ms: the ledger's time, for the entries of facts."""
        if type(event) is Moved and event.fresh is None and event.returned is None:
            self._add_moved(account, event)  # Nearly always: a charge makes no fact true.
            return True
        written = self._add(account, event)
        for kind, body in facts_of(event):
            noted = fact_entry(account, kind, body, now_ms)
            apply(account, noted)
            self._add_entry(account, noted.entry)
        return written

    def _add_entry(self, account: Account, entry: Entry) -> None:
        pubkey = account.pubkey
        self.entries.append((pubkey, entry, account.head))
        if pubkey not in self.before:
            self.before[pubkey] = entry.seq - 1

    def _add_moved(self, account: Account, event: Moved) -> None:
        pubkey, entry = account.pubkey, event.entry
        self.entries.append((pubkey, entry, account.head))  # As _add_entry, which would be one step more for each call.
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
        if event.key:
            for key in account.keys.path(event.key):
                self.spending[pubkey, key.profile.number] = key.spending

    def _add(self, account: Account, event: Event) -> bool:
        if type(event) is Moved:
            self._add_moved(account, event)
            return True
        if type(event) is FactTold:
            self._add_entry(account, event.entry)
            return True
        if type(event) is NamedKeySet:
            self.keys[account.pubkey, event.profile.number] = event.profile
            return True
        if type(event) is HourlyLimitSet:
            self.hourly_limits[account.pubkey] = event.setting
            return True
        if type(event) is PriceListSet:
            self.price_lists[account.pubkey] = event.name
            return True
        if type(event) is HourStopped:
            self.add_anomaly(account, event.at_ms, Stage.STOPPED)
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

    def tell(self, account: Account, entry: Entry) -> None:
        """Add the events of an entry that was just added: the balance is low, or the hour's spending is high."""
        if entry.balance < LOW_BALANCE_CREDITS and is_low_crossing(entry):
            self.add_low_balance(account, entry)
        hourly = account.hourly
        if hourly.credits >= UNLIMITED or hourly.told_slowed == entry.at_ms // HOUR_MS:
            return
        if hourly.slows(account.total_consumed, entry.at_ms // 1000):
            apply(account, HourSlowed(entry.at_ms))
            self.add_anomaly(account, entry.at_ms, Stage.SLOWED)

    def add_low_balance(self, account: Account, entry: Entry) -> None:
        """Add an event when this entry took the balance below the mark: once after each added batch of credits, so that
        refunds of single calls do not repeat it."""
        self._tell(
            account, LOW_BALANCE, account.purse.last_batch.to_bytes(4, "big"), entry.at_ms, {"balance": entry.balance}
        )

    def add_anomaly(self, account: Account, at_ms: int, stage: Stage) -> None:
        """Add an event when the hourly limit slows or stops the account: once in each hour."""
        hourly, hour = account.hourly, at_ms // HOUR_MS
        body = {
            "stage": stage.value,
            "spent": hourly.spent(account.total_consumed, hour),
            "credits_an_hour": hourly.credits,
            "basis": hourly.basis,
        }
        self._tell(account, ANOMALY, hour.to_bytes(4, "big") + stage.value.encode(), at_ms, body)

    def _tell(self, account: Account, kind: str, subject: bytes, at_ms: int, body: dict[str, Any]) -> None:
        self.events.append(Told(account.pubkey, kind, subject, at_ms, body))

    def cut(self, accounts: Mapping[bytes, Account]) -> None:
        """Complete the group with the present heads of its accounts: no event may have been applied since the last
        `add`."""
        self.shards = {account.shard for account in accounts.values()}
        self.heads.clear()
        for pubkey, before in self.before.items():
            account = accounts[pubkey]
            purse, hourly = account.purse, account.hourly
            if hourly.hour != hourly.written_hour:
                self.hours[pubkey] = hourly.begun()
                hourly.written_hour = hourly.hour  # If the write fails, the account is loaded again.
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


def is_low_crossing(entry: Entry) -> bool:
    """Return whether this entry took the balance from at least the low mark to below it."""
    return entry.balance < LOW_BALANCE_CREDITS <= entry.balance - entry.amount


# --- as rows and JSON of the database


def entry_arguments(group: Write) -> tuple[Any, ...] | None:
    """Return the arguments of accounts_write_entry(), for one entry that moved credits of one batch. None: the group
    has more."""
    if len(group.entries) != 1 or len(group.batches) != 1 or len(group.undelivered) > 1:
        return None
    if group.spending or _has_rare(group):
        return None
    listed = group.undelivered[0] if group.undelivered else (None, None)
    ((pubkey, entry, after),) = group.entries
    (head,) = group.heads
    (((_, number), remaining),) = group.batches.items()
    _, *moved = _entry_row(pubkey, entry, after)
    figures = head.total_consumed, head.last_batch, number, remaining
    return (pubkey, head.seq_before, *moved, *figures, *group.place, *listed)


def group_arguments(group: Write) -> tuple[Any, ...]:
    """Return the arguments of accounts_write_group(): the rare parts as JSON, then rows of each type."""
    entries = [_entry_row(*entry) for entry in group.entries]
    lefts = [(*batch, remaining) for batch, remaining in group.batches.items()]
    rare = _rare(group) if _has_rare(group) or not entries else None  # The owner of what is rare is asked about by it.
    replicas, lists = (
        [listed.replica for listed in group.undelivered],
        [listed.counters for listed in group.undelivered],
    )
    spending = [(*key, *spent) for key, spent in group.spending.items()]
    return rare, group.heads, entries, lefts, *group.place, replicas, lists, spending


def _entry_row(pubkey: bytes, entry: Entry, after: bytes) -> tuple[Any, ...]:
    """Return the row of the ledger. after: the head of the account's hash chain at that point."""
    return (
        pubkey,
        entry.at_ms,
        entry.seq,
        entry.type,
        entry.outcome,
        entry.amount,
        entry.balance,
        entry.operation,
        entry.method,
        entry.description,
        entry.parcels,
        after,
    )


def _has_rare(group: Write) -> bool:
    # A deposit makes a batch, and a taken-back deposit makes a mark.
    often = group.new_batches or group.marks or group.events or group.hours
    return bool(often or group.profiles or group.keys or group.hourly_limits or group.price_lists)


def _rare(group: Write) -> str:
    profiles = [
        {
            "pubkey": pubkey.hex(),
            "virtual_shard": shard,
            "created_at": profile.created_at,
            "status": profile.status,
            "api_key_hash": None if profile.key_hash is None else profile.key_hash.hex(),
            "key_prefix": profile.key_prefix,
            "ref_code": profile.ref_code,
            "ref_bonus_bps": profile.ref_bonus_bps,
            "requests_per_second": profile.requests_per_second,
            "concurrency": profile.concurrency,
            "genesis": ledger.genesis(pubkey).hex(),
        }
        for pubkey, (shard, profile) in group.profiles.items()
    ]
    batches = [
        {
            "pubkey": pubkey.hex(),
            "id": batch.id,
            "source": batch.source,
            "credits": batch.credits,
            "created_at": batch.created_at,
            "expires_at": batch.expires_at,
        }
        for pubkey, batch in group.new_batches
    ]
    marks = [
        msgspec.structs.asdict(mark) | {"pubkey": pubkey.hex(), "operation": mark.operation.hex()}
        for pubkey, mark in group.marks
    ]
    parts: dict[str, Any] = {
        "shards": list(group.shards),
        "profiles": profiles,
        "batches": batches,
        "marks": marks,
        "facts_are_entries": True,
    }
    if group.deposits:
        parts["deposits"] = [_deposit_row(pubkey, deposit) for pubkey, deposit in group.deposits]
    if group.events:
        parts["events"] = [
            told._asdict() | {"pubkey": told.pubkey.hex(), "subject": told.subject.hex()} for told in group.events
        ]
    if group.keys:
        parts["keys"] = [_key_row(pubkey, profile) for (pubkey, _), profile in group.keys.items()]
    if group.hourly_limits:
        parts["hourly_limits"] = [
            {"pubkey": pubkey.hex(), "credits": setting.credits, "lifted_until": setting.lifted_until}
            for pubkey, setting in group.hourly_limits.items()
        ]
    if group.price_lists:
        parts["price_lists"] = [{"pubkey": pubkey.hex(), "name": name} for pubkey, name in group.price_lists.items()]
    if group.hours:
        parts["hours"] = [hour._asdict() | {"pubkey": pubkey.hex()} for pubkey, hour in group.hours.items()]
    if group.returns:
        returns = (msgspec.structs.asdict(returned) for _, returned in group.returns)
        parts["returns"] = [returned | {"operation": returned["operation"].hex()} for returned in returns]
    return msgspec.json.encode(parts).decode()


def _key_row(pubkey: bytes, profile: KeyProfile) -> dict[str, Any]:
    row = msgspec.structs.asdict(profile) | {"pubkey": pubkey}
    return {name: value.hex() if isinstance(value, bytes) else value for name, value in row.items()}


def _deposit_row(pubkey: bytes, deposit: Deposit) -> dict[str, Any]:
    return {
        "pubkey": pubkey.hex(),
        "operation": deposit.operation.hex(),
        "base_units": deposit.base_units,
        "credits_per_usdc": deposit.credits_per_usdc,
        "credits": deposit.credits,
        "bonus": deposit.bonus,
        "slot": deposit.slot,
        "at_ms": deposit.at_ms,
        "assigned": deposit.assigned,
    }
