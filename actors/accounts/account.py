"""State of one account, the events that change it, and `apply`, the only code that changes it.

Implements: money rules 3 and 6; decisions, "rate limit shape"; interface, "Limits". Replaying an account's events from
the start rebuilds it exactly.
Pure: no clock, no I/O, no randomness. core.py decides. An event carries everything that must be written (entry, mark,
batch, profile), so that the ledger is written from events alone.

Two times arrive as arguments. Wall time is the ledger's time (ledger_time.py); it stamps entries, windows and the life
of batches. Steady seconds never jump; holds end and operations are forgotten by them, so that setting a clock ends no
call that is under way.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum, unique
from typing import Any, NamedTuple

import msgspec

from actors.accounts import ledger
from actors.accounts.credits import Batch, Moves, Purse, move, remember_spent
from actors.accounts.ends import RELEASED, VOIDED, Ended, posted
from actors.accounts.expiring_map import ExpiringMap
from actors.accounts.hourly_limit import (
    HOUR_MS,
    HourlyEvent,
    HourlyLimit,
    HourlyLimitSet,
    HoursLearnt,
    HourSlowed,
    HourStopped,
)
from actors.accounts.ledger import Entry, EntryType, FactTold
from actors.accounts.named_keys import DAY_MS, KeyProfile, Keys
from actors.accounts.price_list import PriceListSet
from actors.accounts.rate_window import Window
from actors.accounts.view import View
from actors.units import Credits, VirtualShard, routing_bytes, virtual_shard

ACTIVE, SUSPENDED = "active", "suspended"
SIGNATURE_BYTES = 64  # An operation of a deposit begins with the signature of its transaction.
CLOCK_SLACK_SECONDS = 30  # A replica's clock may be this far ahead, and so report a hold as older than it is.


# Structs take a third of the time of named tuples, and several are made for every call.
class Moment(msgspec.Struct, frozen=True, gc=False):
    wall_ms: int
    steady: int  # Seconds.


class Defaults(NamedTuple):
    """Settings that apply to every account without an override."""

    requests_per_second: int
    concurrency: int
    hold_seconds: int
    batch_seconds: int  # Life of a batch that an adjustment makes.
    hourly_limit_least: int = 0  # No learnt limit is lower; 0: none is learnt.

    @property
    def memory_seconds(self) -> int:
        """Return how long an ended operation is remembered; a successor still posts a hold of at most this age."""
        return 2 * self.hold_seconds

    def entries_since_ms(self, now_ms: int) -> int:
        """Return the time of the oldest entry to load with an account. Loading recent entries only saves queries: the
        store is asked about operations that memory does not know."""
        return now_ms - (self.memory_seconds + CLOCK_SLACK_SECONDS) * 1000


def adjust_key(operation: bytes) -> bytes:
    """Key of an adjustment in `operations`: an operator's operation must not equal the operation id of a call."""
    return b"adjust:" + operation


def deposit_key(operation: bytes) -> bytes:
    """Key of a deposit in `operations`, until the store has it."""
    return b"deposit:" + operation


Verdicts = tuple[str | None, ...]  # As in calls.HoldReply: for each item the name of an Err, or None: held.


@unique
class MarkKind(IntEnum):
    """Kind of an operation that must be unique for ever. The numbers are stored in the database."""

    VOID = 0
    REFUND = 1
    ADJUST = 2


class Mark(msgspec.Struct, frozen=True, gc=False):
    kind: int
    operation: bytes
    at_ms: int
    amount: int  # Credits actually moved.


class Profile(msgspec.Struct, frozen=True, gc=False):
    """Properties of an account, apart from its credits."""

    created_at: int  # Unix seconds.
    status: str = ACTIVE
    key_hash: bytes | None = None
    key_prefix: str | None = None
    ref_code: str | None = None
    requests_per_second: int | None = None
    concurrency: int | None = None
    ref_bonus_bps: int | None = None  # Bonus of the referral code when it was linked, in 1/10,000 of each deposit.


class Deposit(msgspec.Struct, frozen=True, gc=False):
    """A token transfer that was turned into credits of this account. A transfer is credited once for ever."""

    operation: bytes  # Of the transfer: 64 bytes of signature, then four bytes of its index in the transaction.
    base_units: int
    credits_per_usdc: int  # The rate on that day.
    credits: int
    bonus: int
    slot: int
    at_ms: int
    assigned: bool = False  # True: an adjustment by an operator, because the chain names no wallet.


class Return(msgspec.Struct, frozen=True, gc=False):
    """A deposit was taken back, because its payment never became final."""

    operation: bytes  # Operation of the deposit.
    taken: int
    uncollected: int  # Credits of the deposit that the account had already spent.
    at_ms: int


# --- events -------------------------------------------------------------------------------------------------------


class Admitted(msgspec.Struct, frozen=True):
    """A hold request was judged: it took a rate unit, or its answer must be remembered."""

    operation: bytes
    steady: int
    second: int  # Window of the rate limit, Unix seconds.
    units: int
    held: tuple[tuple[bytes, int], ...]  # Operation and ceiling of each item that was granted credits.
    expires_at: int  # Expiry of all these holds, in steady seconds.
    answer: Verdicts | None  # Remembered for repeated requests when not every item was granted; None otherwise.
    is_work: bool = False  # True: held for background work that no call waits for; it takes no concurrency slot.
    key: int = 0  # Number of the named key that made the request; 0: none.


class Withdrawn(msgspec.Struct, frozen=True):
    """An admitted request was withdrawn, because its nonce was not written; its holds are released."""

    operation: bytes
    held: tuple[tuple[bytes, int], ...]


class HoldEnded(msgspec.Struct, frozen=True):
    """A hold ended without a charge. expired: the operation is also forgotten, so that a late settle is judged in the
    way a successor would judge it."""

    operation: bytes
    steady: int
    expired: bool = False
    mark: Mark | None = None  # Set when the operation was voided.


class Moved(msgspec.Struct, frozen=True):
    """Credits moved: one entry of the ledger. key: number of the named key that pays or is refunded; the entry has it
    too. key_day: for a refund, the day on which the credits were spent."""

    entry: Entry
    moves: Moves
    steady: int
    fresh: Batch | None = None
    mark: Mark | None = None
    deposit: Deposit | None = None
    returned: Return | None = None
    key: int = 0
    key_day: int = 0


class Recalled(msgspec.Struct, frozen=True):
    """The store told how an operation ended that memory had forgotten."""

    operation: bytes
    ended: Ended
    steady: int


class ProfileSet(msgspec.Struct, frozen=True):
    """The profile changed. rotated_ms: when a new API key replaced an earlier one; None: none was replaced."""

    profile: Profile
    rotated_ms: int | None = None


class NamedKeySet(msgspec.Struct, frozen=True):
    """A named key was made or changed."""

    profile: KeyProfile


class BatchesRecalled(msgspec.Struct, frozen=True):
    """Spent batches were read from the store, because a refund may give credits back to them."""

    batches: tuple[Batch, ...]


OwnEvent = Admitted | Withdrawn | HoldEnded | Moved | Recalled | ProfileSet | NamedKeySet | BatchesRecalled
Event = OwnEvent | FactTold | HourlyEvent | PriceListSet


# --- state --------------------------------------------------------------------------------------------------------


class Hold(msgspec.Struct, frozen=True, gc=False):
    ceiling: int
    expires_at: int
    is_work: bool = False
    key: int = 0


@dataclass(slots=True)
class Account:
    pubkey: bytes
    shard: VirtualShard
    defaults: Defaults
    profile: Profile
    purse: Purse
    operations: ExpiringMap[bytes, Ended]
    answers: ExpiringMap[bytes, Verdicts]
    head: bytes  # Hash of the newest entry.
    seq: int = 0
    last_ms: int = 0  # Time of the newest entry.
    total_consumed: int = 0
    last_deposit: Deposit | None = None
    holds: dict[bytes, Hold] = field(default_factory=dict)  # Ordered by age, so the first hold is the first to end.
    work_holds: int = 0  # How many of the holds are for background work.
    window: Window = field(default_factory=Window)
    keys: Keys = field(default_factory=Keys)
    hourly: HourlyLimit = field(default_factory=HourlyLimit)
    price_list: str = ""  # Name of the price list; empty: the public prices.
    rate_limit: int = 0
    concurrency_limit: int = 0
    used_at: int = field(default=0, compare=False)  # Steady seconds; the actor finds idle accounts by it.
    view: View | None = field(default=None, compare=False)  # State of monotonic reads; not written by events (view.py).

    def check(self) -> None:
        self.purse.check()
        assert self.purse.held == sum(hold.ceiling for hold in self.holds.values()), self
        assert self.work_holds == sum(hold.is_work for hold in self.holds.values()), self
        self.keys.check((hold.key, hold.ceiling) for hold in self.holds.values())

    def opens(self, key_hash: bytes) -> bool:
        """Return whether a key of this account has this hash. A named key may be frozen or expired."""
        return self.profile.key_hash == key_hash or key_hash in self.keys.by_hash

    def key_hashes(self) -> list[bytes]:
        own = self.profile.key_hash
        return [*self.keys.by_hash, *(() if own is None else (own,))]


def new_account(pubkey: bytes, profile: Profile, defaults: Defaults) -> Account:
    account = Account(
        pubkey=pubkey,
        shard=virtual_shard(routing_bytes(pubkey)),
        defaults=defaults,
        profile=profile,
        purse=Purse(),
        operations=ExpiringMap(defaults.memory_seconds + CLOCK_SLACK_SECONDS),
        answers=ExpiringMap(defaults.memory_seconds),
        head=ledger.genesis(pubkey),
        hourly=HourlyLimit(defaults.hourly_limit_least),
    )
    _apply_profile(account, ProfileSet(profile))
    return account


def apply(account: Account, event: Event) -> None:
    _APPLY[type(event)](account, event)


def _apply_admitted(account: Account, event: Admitted) -> None:
    if event.units:
        account.window.take(event.second, event.units)
    hold_total = 0
    if event.held:
        for operation, ceiling in event.held:
            account.holds[operation] = Hold(ceiling, event.expires_at, event.is_work, event.key)
            hold_total += ceiling
        account.work_holds += len(event.held) if event.is_work else 0
        purse = account.purse
        purse.held = Credits(purse.held + hold_total)
        assert purse.held <= purse.balance, purse
    if event.key:
        account.keys.admit(event.key, event.second, event.units, hold_total)
    if event.answer is not None:
        account.answers.put(event.operation, event.answer, event.steady)


def _apply_withdrawn(account: Account, event: Withdrawn) -> None:
    for operation, _ in event.held:
        _end_hold(account, operation)
    account.answers.drop(event.operation)


def _apply_hold_ended(account: Account, event: HoldEnded) -> None:
    _end_hold(account, event.operation)
    if not event.expired:
        account.operations.put(event.operation, VOIDED if event.mark else RELEASED, event.steady)


def _apply_moved(account: Account, event: Moved) -> None:
    entry = event.entry
    assert entry.seq == account.seq + 1, (entry, account.seq)
    assert entry.at_ms >= account.last_ms, (entry, account.last_ms)
    if entry.type == EntryType.DEBIT:
        _end_hold(account, entry.operation)
        hour = entry.at_ms // HOUR_MS
        if hour > account.hourly.hour:
            account.hourly.turn(hour, account.total_consumed)
        account.total_consumed -= entry.amount
        day = entry.at_ms // DAY_MS if event.key else 0
        if event.key:
            account.keys.spend(event.key, -entry.amount, day)
        account.operations.put(entry.operation, posted(entry.method, entry.parcels, event.key, day), event.steady)
    elif entry.type == EntryType.REFUND:
        account.total_consumed -= entry.amount
        account.keys.spend(event.key, -entry.amount, event.key_day)
        account.operations.put(entry.operation, VOIDED, event.steady)
    elif event.mark is not None:
        account.operations.put(adjust_key(event.mark.operation), posted("", entry.parcels), event.steady)
    if event.deposit is not None:
        account.operations.put(deposit_key(event.deposit.operation), posted("", entry.parcels), event.steady)
        account.last_deposit = event.deposit
    total = move(account.purse, event.moves, event.fresh)
    assert total == entry.amount, event
    assert account.purse.balance == entry.balance, event
    account.seq, account.last_ms = entry.seq, entry.at_ms
    account.head = ledger.chain(account.head, entry)


def _apply_noted(account: Account, event: FactTold) -> None:
    entry = event.entry
    assert entry.seq == account.seq + 1 and entry.at_ms >= account.last_ms, (entry, account.seq, account.last_ms)
    assert entry.amount == 0 and entry.balance == account.purse.balance, entry
    account.seq, account.last_ms = entry.seq, entry.at_ms
    account.head = ledger.chain(account.head, entry)


def _apply_recalled(account: Account, event: Recalled) -> None:
    account.operations.put(event.operation, event.ended, event.steady)


def _apply_batches_recalled(account: Account, event: BatchesRecalled) -> None:
    remember_spent(account.purse, event.batches)


def _apply_profile(account: Account, event: ProfileSet) -> None:
    profile = account.profile = event.profile
    account.rate_limit = profile.requests_per_second or account.defaults.requests_per_second
    account.concurrency_limit = profile.concurrency or account.defaults.concurrency


def _apply_key(account: Account, event: NamedKeySet) -> None:
    account.keys.set(event.profile)


def _apply_hourly(account: Account, event: HourlyEvent) -> None:
    account.hourly.apply(event)


def _apply_price_list(account: Account, event: PriceListSet) -> None:
    account.price_list = event.name


def _end_hold(account: Account, operation: bytes) -> None:
    hold = account.holds.pop(operation, None)
    if hold is not None:
        account.purse.held = Credits(account.purse.held - hold.ceiling)
        account.work_holds -= hold.is_work
        if hold.key:
            account.keys.hold(hold.key, -hold.ceiling)


_APPLY: dict[type, Callable[[Account, Any], None]] = {
    Admitted: _apply_admitted,
    Withdrawn: _apply_withdrawn,
    HoldEnded: _apply_hold_ended,
    Moved: _apply_moved,
    Recalled: _apply_recalled,
    ProfileSet: _apply_profile,
    NamedKeySet: _apply_key,
    FactTold: _apply_noted,
    **dict.fromkeys((HourlyLimitSet, HoursLearnt, HourStopped, HourSlowed), _apply_hourly),
    PriceListSet: _apply_price_list,
    BatchesRecalled: _apply_batches_recalled,
}
