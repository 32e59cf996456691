"""Loads accounts once for concurrent requests, keeps them while in use, applies events, and drops them when idle.

Implements: design, "One billed call" (one load task per account); threat 39 (loads are capped, and "no such account" is
remembered briefly); house rule "load first, then decide, apply and journal with no await between". A shell.
"""

import asyncio
import heapq
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from actors.accounts.account import (
    Account,
    Defaults,
    Event,
    Moment,
    NamedKeySet,
    Profile,
    ProfileSet,
    apply,
    new_account,
)
from actors.accounts.api import OwnerReply, OwnerUnavailable, refused
from actors.accounts.commits import GroupCommit
from actors.accounts.core import decide_credit_expiry, decide_hold_expiry, is_due
from actors.accounts.expiring_map import ExpiringMap
from actors.accounts.held_shards import HeldShards
from actors.accounts.ledger_clock import LedgerClock
from actors.accounts.named_keys import KeyProfile
from actors.accounts.referrals import Referral, captured
from actors.accounts.store import AccountStore
from actors.accounts.stored import Damaged, StoreUnavailable, restore
from actors.config import AccountsConfig
from actors.errors import Err
from actors.telemetry.metrics import Metrics
from actors.units import routing_bytes

logger = logging.getLogger(__name__)

UNKNOWN_MAX = 50_000
ROOTS_MAX = 10_000  # About 100 bytes each. Beyond this limit the first use of a child key costs another look-up.
_QUEUE_FACTOR = 16  # Loads that may queue, for each load that is running: about one second of the database's work.
# When memory is full, a load evicts one account in this many at once, so that few loads pay for the search.
_EVICTED_SHARE = 50
_EVICTION_SECONDS = 5

Found = TypeVar("Found")


class NotHeld(OwnerUnavailable):
    """This owner does not have the shard of the request, or no longer: the caller should ask the current owner."""


class WrongOwner(NotHeld):
    """As NotHeld, where the account of the request is known."""

    def __init__(self, pubkey: bytes) -> None:
        super().__init__(f"account {pubkey.hex()} has another owner")
        self.pubkey = pubkey


class Activations:
    """The accounts in memory. `accounts` and `by_key` are read on every call; only this class changes them."""

    def __init__(
        self,
        config: AccountsConfig,
        defaults: Defaults,
        store: AccountStore,
        commits: GroupCommit,
        clock: LedgerClock,
        held: HeldShards,
    ) -> None:
        self._held = held
        self._config, self.defaults = config, defaults
        self._store, self._commits, self._clock = store, commits, clock
        self.moment = clock.moment  # Bound once, because every call reads it twice.
        self.accounts: dict[bytes, Account] = {}
        self.by_key: dict[bytes, Account] = {}
        self._loads: dict[bytes, asyncio.Task[Account | None]] = {}
        self._key_loads: dict[bytes, asyncio.Task[bytes | None]] = {}
        self._places = asyncio.Semaphore(config.activations_in_flight_max)
        # Accounts by public key of their named keys. The mapping never changes; the oldest is evicted first.
        self._roots: dict[bytes, bytes] = {}
        self._unknown: ExpiringMap[bytes, bool] = ExpiringMap(max(1, config.unknown_seconds))
        self._evict_at = 0
        self.oldest_hold_seconds = 0  # As of the last call of `due`.
        # Accounts just loaded or opened, whose hourly spending is not known yet (hour_learning.py).
        self.fresh: dict[bytes, Account] = {}

    async def load(self, pubkey: bytes) -> Account | None:
        """Return the account, loading it when it is not in memory. None: it does not exist. Raises OwnerUnavailable."""
        account = self.accounts.get(pubkey)
        if account is not None:
            return account
        if self.is_unknown(pubkey):
            return None
        task = self._loads.get(pubkey)
        if task is None:
            task = self._begin(self._loads, pubkey, self._load)
        loaded: Account | None = await asyncio.shield(task)
        # The load may have found none while another request opened the account; or a loaded account was evicted again.
        return self.accounts.get(pubkey) if loaded is None else loaded

    async def account_for(self, pubkey: bytes, mistake: str | None = None) -> Account | OwnerReply[Any]:
        """Load the account of a command, which the caller decides and records before it awaits anything.

        Returns the refusal where the account does not exist or the command has a mistake. Raises OwnerUnavailable.
        """
        if mistake is not None:
            return refused(Err.INVALID_REQUEST, mistake)
        account = await self.load(pubkey)
        if account is None:
            return refused(Err.ACCOUNT_NOT_FOUND)
        self.check_current(account)
        return account

    async def load_by_key(self, key_hash: bytes) -> Account | None:
        """Return the account whose active API key has this hash, or None."""
        account = self.by_key.get(key_hash)
        if account is not None:
            return account
        if self.is_unknown(key_hash):
            return None
        pubkey = await self._located(key_hash, self._find_key)
        if pubkey is None:
            return self.by_key.get(key_hash)
        account = await self.load(pubkey)
        # The key may have been changed since the store was asked.
        return account if account is not None and account.opens(key_hash) else None

    async def load_by_root(self, public: bytes, routing: bytes) -> Account | None:
        """Return the account of the named key with this public key.

        None: no account has the key, or the account has other routing bytes. Raises OwnerUnavailable."""
        if self.is_unknown(public):
            return None
        pubkey = self._roots.get(public) or await self._located(public, self._find_root)
        # Checked before the load: a made-up key must not make replicas ask another owner and remember its account.
        return None if pubkey is None or routing_bytes(pubkey) != routing else await self.load(pubkey)

    # --- one turn on an account in memory: nothing is awaited --------------------------------------------------------

    def is_current(self, account: Account) -> bool:
        """Return whether this object still is the account in memory, so that its events will be written."""
        return self._commits.open and self.accounts.get(account.pubkey) is account

    def check_current(self, account: Account) -> None:
        """Raise OwnerUnavailable for an account that was evicted, because its events would not be written."""
        if not self.is_current(account):
            self.check_owned(account.pubkey)
            raise OwnerUnavailable("the ledger did not commit")

    def end_due(self, account: Account, moment: Moment) -> None:
        """End the holds and batches that are past their time. Every decision requires this call before it."""
        if not is_due(account, moment):
            return
        for ended in decide_hold_expiry(account, moment):
            apply(account, ended)
        for expired in decide_credit_expiry(account, moment, self._clock.agreed_ms()):
            self.record(account, expired)

    def record(self, account: Account, event: Event) -> "asyncio.Future[None]":
        """Apply an event and add it to the next group write. Returns the future of that group."""
        apply(account, event)
        return self._commits.record(account, event)

    def record_key(self, account: Account, profile: KeyProfile) -> "asyncio.Future[None]":
        """Record a new or changed named key. Calls with it are accepted once know_key has its hash."""
        before = account.keys.by_number.get(profile.number)
        for former in () if before is None else (before.profile.key_hash, before.profile.old_hash):
            self.by_key.pop(former or b"", None)
        return self.record(account, NamedKeySet(profile))

    def set_key(self, account: Account, profile: KeyProfile) -> "asyncio.Future[None]":
        """Record a new or changed named key, and accept it from now on."""
        written = self.record_key(account, profile)
        for key_hash in filter(None, (profile.key_hash, profile.old_hash)):
            self.know_key(account, key_hash)
        self._unknown.drop(profile.public or b"")
        return written

    def know_key(self, account: Account, key_hash: bytes) -> None:
        if self.accounts.get(account.pubkey) is account:
            self._unknown.drop(key_hash)
            self.by_key[key_hash] = account

    def open_account(self, pubkey: bytes, referral: Referral | None = None) -> Account:
        """Open a new account in memory and record it; the caller waits until it is durable.

        Returns the account in memory where another request has opened it since the caller looked.
        """
        present = self.accounts.get(pubkey)
        if present is not None:
            return present
        if not self._commits.open:
            raise OwnerUnavailable("the ledger is not committing")
        now = self._clock.now()
        ref_code, ref_bonus_bps = captured(referral, now)
        profile = Profile(created_at=now, ref_code=ref_code, ref_bonus_bps=ref_bonus_bps)
        account = new_account(pubkey, profile, self.defaults)
        self.insert(account)
        self.record(account, ProfileSet(profile))
        return account

    async def until_written(self, pubkey: bytes) -> None:
        """Wait until every decision made so far about this account is durable."""
        pending = self._commits.pending(pubkey)
        if pending is not None:
            await asyncio.shield(pending)

    # --- keeping accounts in memory ----------------------------------------------------------------------------------

    def insert(self, account: Account) -> None:
        """Keep an account that was just opened or loaded."""
        assert account.pubkey not in self.accounts, account.pubkey.hex()
        account.used_at = int(self._clock.monotonic())
        self._make_room()
        self.accounts[account.pubkey] = account
        self.fresh[account.pubkey] = account
        self._unknown.drop(account.pubkey)
        for key_hash in account.key_hashes():
            self.by_key[key_hash] = account

    def key_changed(self, account: Account, before: bytes | None) -> None:
        """Refuse the old key from now on."""
        if before is not None:
            self.by_key.pop(before, None)
        after = account.profile.key_hash
        if after is not None:
            self._unknown.drop(after)
            self.by_key[after] = account

    def forget(self, accounts: Iterable[Account]) -> None:
        for account in accounts:
            if self.accounts.get(account.pubkey) is account:
                del self.accounts[account.pubkey]
                self.fresh.pop(account.pubkey, None)
            for key_hash in account.key_hashes():
                if self.by_key.get(key_hash) is account:
                    del self.by_key[key_hash]

    def evict_idle(self, steady: int) -> None:
        """Evict accounts unused for `idle_seconds`. Looks at all accounts, so the caller runs it rarely."""
        if steady < self._evict_at:
            return
        self._evict_at = steady + _EVICTION_SECONDS
        limit = steady - self._config.idle_seconds
        self.forget([account for account in self.accounts.values() if account.used_at <= limit and self._idle(account)])

    async def peek(self, pubkey: bytes) -> Account | None:
        """Return the account for reading: from memory, else from the store without keeping it. Raises
        OwnerUnavailable."""
        account = self.accounts.get(pubkey)
        return account if account is not None else await self._read(pubkey)

    async def peek_by_key(self, key_hash: bytes) -> Account | None:
        account = self.by_key.get(key_hash)
        if account is not None:
            return account
        pubkey = await self._find_key(key_hash)
        account = None if pubkey is None else await self.peek(pubkey)
        return account if account is not None and account.opens(key_hash) else None

    def forget_unknown(self) -> None:
        """Forget which accounts and keys were unknown: after new shards arrive, they may be known."""
        self._unknown = ExpiringMap(max(1, self._config.unknown_seconds))

    def is_unknown(self, key: bytes) -> bool:
        if not self._config.unknown_seconds:
            return False
        self._unknown.turn(int(self._clock.monotonic()))
        return self._unknown.get(key) is not None

    def remember_unknown(self, key: bytes) -> None:
        if len(self._unknown) < UNKNOWN_MAX:
            self._unknown.put(key, True, int(self._clock.monotonic()))

    def _begin(
        self, tasks: "dict[bytes, asyncio.Task[Found | None]]", key: bytes, work: Callable[[bytes], Any]
    ) -> "asyncio.Task[Found | None]":
        if len(self._loads) + len(self._key_loads) >= _QUEUE_FACTOR * self._config.activations_in_flight_max:
            raise OwnerUnavailable("too many accounts are being loaded at once")
        task: asyncio.Task[Found | None] = asyncio.create_task(work(key))
        tasks[key] = task

        def done(ended: "asyncio.Task[Found | None]") -> None:
            tasks.pop(key, None)
            if not ended.cancelled():
                # Marks the exception as retrieved: waiting callers raise it, and without callers it needs no warning.
                ended.exception()

        task.add_done_callback(done)
        return task

    def _idle(self, account: Account) -> bool:
        return not account.holds and self._commits.pending(account.pubkey) is None

    def _make_room(self) -> None:
        if len(self.accounts) < self._config.activations_max:
            return
        count = max(1, len(self.accounts) // _EVICTED_SHARE)
        idle = (account for account in self.accounts.values() if self._idle(account))
        oldest = heapq.nsmallest(count, idle, key=lambda account: account.used_at)
        if not oldest:
            raise OwnerUnavailable("too many accounts are in use at once")
        self.forget(oldest)

    async def _load(self, pubkey: bytes) -> Account | None:
        async with self._places:
            if not self._commits.open:
                raise OwnerUnavailable("the ledger is not committing")
            generation = self._commits.generation
            account = await self._read(pubkey)
        self.check_owned(pubkey)  # The shard may have left during the load.
        if not self._commits.open or self._commits.generation != generation:
            # The ledger may now contain a write whose outcome was unknown at the time of this read.
            raise OwnerUnavailable("the ledger did not commit")
        present = self.accounts.get(pubkey)
        if present is not None:
            return present
        if account is None:
            self.remember_unknown(pubkey)
        else:
            self.insert(account)
        return account

    def check_owned(self, pubkey: bytes) -> None:
        """Raise WrongOwner for an account of another owner.

        The store would refuse its writes, and this owner would conclude that it lost its own shards."""
        if not self._held.has_account(pubkey):
            raise WrongOwner(pubkey)

    async def _read(self, pubkey: bytes) -> Account | None:
        self.check_owned(pubkey)
        return await self.read(pubkey)

    async def read(self, pubkey: bytes) -> Account | None:
        """Read the account, of any shard, from the store. Raises OwnerUnavailable."""
        since_ms = self.defaults.entries_since_ms(self._clock.now_ms())
        try:
            stored = await self._store.load(pubkey, since_ms)
            return None if stored is None else restore(stored, self.defaults, int(self._clock.monotonic()))
        except StoreUnavailable as error:
            raise OwnerUnavailable("the ledger cannot be read") from error
        except Damaged as error:
            logger.error("account %s is halted: %s; run the audit", pubkey.hex(), error)
            raise OwnerUnavailable("this account is halted") from error

    async def _located(self, name: bytes, find: Callable[[bytes], Any]) -> bytes | None:
        """Return the account that the store has under this hash or public key. Concurrent callers share one look-up."""
        task = self._key_loads.get(name)
        if task is None:
            task = self._begin(self._key_loads, name, find)
        pubkey: bytes | None = await asyncio.shield(task)
        return pubkey

    async def _find_key(self, key_hash: bytes) -> bytes | None:
        return await self._find(key_hash, self._store.find_key)

    async def _find_root(self, public: bytes) -> bytes | None:
        pubkey = await self._find(public, self._store.find_root)
        if pubkey is not None:
            self._roots[public] = pubkey
            if len(self._roots) > ROOTS_MAX:
                del self._roots[next(iter(self._roots))]
        return pubkey

    async def _find(self, name: bytes, ask: Callable[[bytes], Awaitable[bytes | None]]) -> bytes | None:
        async with self._places:
            try:
                pubkey = await ask(name)
            except StoreUnavailable as error:
                raise OwnerUnavailable("the ledger cannot be read") from error
        if pubkey is None and name not in self.by_key:
            self.remember_unknown(name)
        return pubkey

    def due(self, moment: Moment) -> list[Account]:
        """Return the accounts with a hold or a batch past its time, and record the age of the oldest hold."""
        found, earliest = [], moment.steady + self.defaults.hold_seconds
        for account in self.accounts.values():
            for hold in account.holds.values():
                if hold.expires_at < earliest:
                    earliest = hold.expires_at
                break  # Every hold lasts equally long, so the rest are younger.
            if is_due(account, moment):
                found.append(account)
        self.oldest_hold_seconds = moment.steady + self.defaults.hold_seconds - earliest
        return found

    def report_to(self, metrics: Metrics) -> None:
        """Show how many accounts and holds are in memory, counted when the figures are asked for."""
        metrics.watch("accounts_in_memory", "Accounts that this owner has loaded.", lambda: len(self.accounts))
        text = "Holds without an end yet, of the accounts in memory."
        oldest = "Age of the oldest hold of this owner, as of the last second."
        metrics.watch("oldest_hold_seconds", oldest, lambda: self.oldest_hold_seconds)
        metrics.watch("holds", text, lambda: sum(len(account.holds) for account in self.accounts.values()))
