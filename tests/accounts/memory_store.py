"""Accounts kept in memory: for tests and simulations, with the same promises as the real store while it lives.

Implements: store.AccountStore. Refuses what PostgreSQL would refuse, so that a test that passes here means something.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from actors.accounts import ledger
from actors.accounts.account import Deposit, Mark, MarkKind, Profile, Return
from actors.accounts.credits import Batch
from actors.accounts.hourly_limit import NO_HOUR, BegunHour, HourlySetting
from actors.accounts.ledger import Entry, EntryType
from actors.accounts.listings import NO_FILTER, LedgerFilter
from actors.accounts.named_keys import KeyProfile, KeySpending, StoredKey
from actors.accounts.outbox import EXPIRING_SECONDS, Announcement, announcement, deposit_credited
from actors.accounts.referrals import Referral
from actors.accounts.store import EXPIRED_LOOKED_BACK_SECONDS
from actors.accounts.stored import Credited, Fenced, Past, Stored, StoreUnavailable
from actors.accounts.writes import Head, Told, Write
from actors.clock import Clock, SystemClock
from actors.events import CreditsExpiring, Event
from actors.units import Pubkey, UnixSeconds, VirtualShard, base58_text, routing_bytes, virtual_shard
from tests.accounts.memory_bills import MemoryBills
from tests.accounts.memory_cuts import MemoryCuts
from tests.accounts.memory_directory import MemoryDirectory
from tests.accounts.memory_holders import MemoryHolders
from tests.accounts.memory_key_imports import MemoryKeyImports
from tests.accounts.memory_owners import MemoryOwners
from tests.accounts.memory_seals import MemorySeals
from tests.accounts.memory_undelivered import MemoryUndelivered
from tests.accounts.memory_usage import MemoryUsage


@dataclass(slots=True)
class Row:
    profile: Profile
    head: Head
    last_deposit: Deposit | None = None
    batches: dict[int, Batch] = field(default_factory=dict)
    entries: list[tuple[Entry, bytes]] = field(default_factory=list)
    marks: dict[tuple[int, bytes], Mark] = field(default_factory=dict)
    keys: dict[int, KeyProfile] = field(default_factory=dict)
    spending: dict[int, KeySpending] = field(default_factory=dict)
    hourly: HourlySetting = field(default_factory=HourlySetting)
    hour: BegunHour = NO_HOUR
    price_list: str = ""


class MemoryAccountStore:
    """clock: the store's own, as a database server has its own."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock: Clock = clock or SystemClock()
        self.debits: dict[bytes, bytes] = {}  # Each operation that was debited, for ever, and its account.
        self.rows: dict[bytes, Row] = {}
        self.owners = MemoryOwners()
        self._keys: dict[bytes, bytes] = {}
        self._named: dict[bytes, tuple[bytes, int]] = {}  # Hash of a named key to its account and number.
        self.deposits: dict[bytes, tuple[bytes, Deposit]] = {}
        self.returns: dict[bytes, Return] = {}
        self.codes: dict[str, Referral] = {}
        self.outbox = MemoryOutbox(self._live_batches)
        self.usage = MemoryUsage(self.rows)
        self.undelivered = MemoryUndelivered(self.debits)
        self.key_imports = MemoryKeyImports(self._keys)
        self.holders = MemoryHolders(self.owners)
        self.seals = MemorySeals(self._chains)
        self.bills = MemoryBills(self._chains)
        self.cuts = MemoryCuts()
        self.directory = MemoryDirectory(self.rows)

    def _chains(self) -> dict[bytes, list[tuple[Entry, bytes]]]:
        return {pubkey: row.entries for pubkey, row in self.rows.items()}

    async def prepare(self, now_ms: int) -> None:
        del now_ms

    async def has_owner(self, shards: Sequence[VirtualShard]) -> bool:
        await asyncio.sleep(0)
        return any(self.owners.of(shard)[0] for shard in shards)

    async def take_over(self, owner: str, shards: Sequence[VirtualShard], renew: bool) -> int:
        await asyncio.sleep(0)
        if renew and any(self.owners.of(shard)[1] != owner for shard in shards):
            raise Fenced
        return self.owners.take(shards, owner)

    async def check_owner(self, epoch: int, shards: Sequence[VirtualShard]) -> int:
        await asyncio.sleep(0)
        self._check_owner(epoch, shards)
        return self.clock.now_ms()

    async def write(self, epoch: int, group: Write) -> int:
        await asyncio.sleep(0)
        self.write_now(epoch, group)
        return self.clock.now_ms()

    def write_now(self, epoch: int, group: Write) -> None:
        """All checks come first: a group is written whole or not at all."""
        self._check_owner(epoch, tuple(group.shards))
        self._check_group(group)
        for pubkey, (_, profile) in group.profiles.items():
            self._put_profile(pubkey, profile)
        for head in group.heads:
            self.rows[head.pubkey].head = head
        for pubkey, entry, after in group.entries:
            self.rows[pubkey].entries.append((entry, after))
            if entry.type == EntryType.DEBIT:
                self.debits[entry.operation] = pubkey
        for pubkey, batch in group.new_batches:
            self.rows[pubkey].batches[batch.id] = Batch(
                batch.id, batch.source, batch.credits, batch.credits, batch.created_at, batch.expires_at
            )
        for (pubkey, number), remaining in group.batches.items():
            batch = self.rows[pubkey].batches[number]
            assert 0 <= remaining <= batch.credits, (batch, remaining)
            batch.remaining = type(batch.remaining)(remaining)
        for pubkey, mark in group.marks:
            self.rows[pubkey].marks[mark.kind, mark.operation] = mark
        for pubkey, deposit in group.deposits:
            self.deposits[deposit.operation] = (pubkey, deposit)
            self.rows[pubkey].last_deposit = deposit
            self.outbox.credited(pubkey, deposit)
        for _, returned in group.returns:
            self.returns[returned.operation] = returned
        for (pubkey, number), key in group.keys.items():
            before = self.rows[pubkey].keys.get(number)
            for known in () if before is None else (before.key_hash, before.old_hash):
                self._named.pop(known or b"", None)
            self.rows[pubkey].keys[number] = key
            for known in filter(None, (key.key_hash, key.old_hash)):
                self._named[known] = (pubkey, number)
        for (pubkey, number), spent in group.spending.items():
            assert spent.total >= 0 and spent.in_day >= 0, spent
            self.rows[pubkey].spending[number] = spent
        for pubkey, setting in group.hourly_limits.items():
            self.rows[pubkey].hourly = setting
        for pubkey, name in group.price_lists.items():
            self.rows[pubkey].price_list = name
        for pubkey, hour in group.hours.items():
            self.rows[pubkey].hour = hour
        for told in group.events:
            self.outbox.told(told)
        self.undelivered.write(epoch, group.place, group.undelivered)

    def _check_owner(self, epoch: int, shards: Sequence[VirtualShard]) -> None:
        if any(self.owners.of(shard)[0] != epoch for shard in shards):
            raise Fenced

    def _check_group(self, group: Write) -> None:
        for head in group.heads:
            row = self.rows.get(head.pubkey)
            if (row.head.seq if row else 0) != head.seq_before or head.balance < 0:
                raise StoreUnavailable("an account is not where its owner left it")
        debits = [entry.operation for _, entry, _ in group.entries if entry.type == EntryType.DEBIT]
        if len(set(debits)) != len(debits) or not self.debits.keys().isdisjoint(debits):
            raise StoreUnavailable("an operation was debited before")
        for pubkey, mark in group.marks:
            marked = self.rows.get(pubkey)
            if marked is not None and (mark.kind, mark.operation) in marked.marks:
                raise StoreUnavailable("this operation was marked before")
        for _, deposit in group.deposits:
            if deposit.operation in self.deposits:
                raise StoreUnavailable("this transfer was credited before")
        for _, returned in group.returns:
            if returned.operation not in self.deposits or returned.operation in self.returns:
                raise StoreUnavailable("a deposit to take back is missing or was taken back before")
        blocks = {key.block: place for place, key in self._all_keys() if key.block}
        for place, key in group.keys.items():
            if blocks.get(key.block or b"", place) != place:
                raise StoreUnavailable("this block is there already")
            if self._named.get(key.key_hash, place) != place:
                raise StoreUnavailable("this key is there already")
        for pubkey, (_, profile) in group.profiles.items():
            if profile.key_hash is not None and self._keys.get(profile.key_hash, pubkey) != pubkey:
                raise StoreUnavailable("this key belongs to another account")

    def _put_profile(self, pubkey: bytes, profile: Profile) -> None:
        row = self.rows.get(pubkey)
        if row is None:
            self.rows[pubkey] = Row(profile, Head(pubkey, 0, 0, 0, 0, 0, 0, ledger.genesis(pubkey)))
        else:
            if row.profile.key_hash is not None:
                self._keys.pop(row.profile.key_hash, None)
            row.profile = msgspec.structs.replace(
                profile,
                ref_code=row.profile.ref_code,
                ref_bonus_bps=row.profile.ref_bonus_bps,
                created_at=row.profile.created_at,
            )
        if profile.key_hash is not None:
            self._keys[profile.key_hash] = pubkey

    async def load(self, pubkey: bytes, since_ms: int) -> Stored | None:
        await asyncio.sleep(0)
        row = self.rows.get(pubkey)
        if row is None:
            return None
        recent = [pair for pair in row.entries if pair[0].at_ms >= since_ms]
        marks = [
            mark
            for mark in row.marks.values()
            if mark.kind in (MarkKind.VOID, MarkKind.REFUND) and mark.at_ms >= since_ms
        ]
        batches = [_copy(batch) for batch in row.batches.values() if batch.remaining]
        keys = [StoredKey(key, row.spending.get(number, KeySpending())) for number, key in sorted(row.keys.items())]
        return Stored(
            row.profile,
            row.head,
            batches,
            recent or row.entries[-1:],
            marks,
            row.last_deposit,
            keys,
            row.hourly,
            row.hour,
            row.price_list,
        )

    async def find_key(self, key_hash: bytes) -> bytes | None:
        await asyncio.sleep(0)
        return self._keys.get(key_hash) or self._named.get(key_hash, (None, 0))[0]

    def _all_keys(self) -> Iterator[tuple[tuple[bytes, int], KeyProfile]]:
        return (((pubkey, number), key) for pubkey, row in self.rows.items() for number, key in row.keys.items())

    async def find_root(self, public: bytes) -> bytes | None:
        await asyncio.sleep(0)
        roots = (
            place for place, key in self._all_keys() if key.block is None and public in (key.public, key.old_public)
        )
        return next((pubkey for pubkey, _ in roots), None)

    async def find_mark(self, pubkey: bytes, kinds: Sequence[int], operation: bytes) -> Mark | None:
        await asyncio.sleep(0)
        row = self.rows.get(pubkey)
        found = (row.marks.get((kind, operation)) for kind in kinds) if row else ()
        return next((mark for mark in found if mark is not None), None)

    async def find_ended(self, operations: Sequence[tuple[bytes, bytes]]) -> dict[tuple[bytes, bytes], Past]:
        await asyncio.sleep(0)
        found = {key: self._past(*key) for key in operations}
        return {key: past for key, past in found.items() if past is not None}

    def _past(self, pubkey: bytes, operation: bytes) -> Past | None:
        row = self.rows.get(pubkey)
        voided = row is not None and any((kind, operation) in row.marks for kind in (MarkKind.VOID, MarkKind.REFUND))
        if operation not in self.debits and not voided:
            return None
        entries = row.entries if row is not None and self.debits.get(operation) == pubkey else []
        debits = (entry for entry, _ in entries if entry.operation == operation and entry.type == EntryType.DEBIT)
        return Past(next(debits, None), voided)

    async def find_batches(self, pubkey: bytes, numbers: Sequence[int]) -> list[Batch]:
        await asyncio.sleep(0)
        row = self.rows.get(pubkey)
        return [_copy(row.batches[number]) for number in numbers if number in row.batches] if row else []

    async def entries(
        self, pubkey: bytes, offset: int, limit: int, debits_only: bool, wanted: LedgerFilter = NO_FILTER
    ) -> list[Entry]:
        await asyncio.sleep(0)
        row = self.rows.get(pubkey)
        if row is None:
            return []
        found = [entry for entry, _ in row.entries if not debits_only or entry.type == EntryType.DEBIT]
        found = [entry for entry in found if wanted.takes(entry)]
        return [
            msgspec.structs.replace(entry, amount=0)
            if debits_only and (MarkKind.REFUND, entry.operation) in row.marks
            else entry
            for entry in found[::-1][offset : offset + limit]
        ]

    def _live_batches(self) -> Iterator[tuple[bytes, Batch]]:
        return ((pubkey, batch) for pubkey, row in self.rows.items() for batch in row.batches.values())

    async def find_deposits(self, operations: Sequence[bytes]) -> dict[bytes, Credited]:
        await asyncio.sleep(0)
        return {operation: self._credited(operation) for operation in operations if operation in self.deposits}

    def _credited(self, operation: bytes) -> Credited:
        pubkey, deposit = self.deposits[operation]
        returned = self.returns.get(operation)
        taken, uncollected = (returned.taken, returned.uncollected) if returned else (0, 0)
        credits = deposit.credits + deposit.bonus
        return Credited(pubkey, credits, deposit.assigned, returned is not None, taken, uncollected)

    async def expired(self, shards: Sequence[VirtualShard], now: int, limit: int) -> list[bytes]:
        await asyncio.sleep(0)
        mine = set(shards)
        found = (
            pubkey
            for pubkey, row in self.rows.items()
            if virtual_shard(routing_bytes(pubkey)) in mine
            and any(
                batch.remaining and now - EXPIRED_LOOKED_BACK_SECONDS < batch.expires_at <= now
                for batch in row.batches.values()
            )
        )
        return [pubkey for pubkey, _ in zip(found, range(limit), strict=False)]

    async def add_referral(self, referral: Referral) -> bool:
        await asyncio.sleep(0)
        return self.codes.setdefault(referral.code, referral) is referral

    async def find_referral(self, code: str) -> Referral | None:
        await asyncio.sleep(0)
        return self.codes.get(code)

    async def expire_referral(self, code: str, now: int) -> Referral | None:
        await asyncio.sleep(0)
        found = self.codes.get(code)
        if found is None:
            return None
        until = now if found.expires_at is None else min(found.expires_at, now)
        expired = self.codes[code] = found._replace(expires_at=until)
        return expired

    async def referrals(self) -> list[tuple[Referral, int]]:
        await asyncio.sleep(0)
        linked = [row.profile.ref_code for row in self.rows.values() if row.profile.ref_bonus_bps is not None]
        return [(self.codes[code], linked.count(code)) for code in sorted(self.codes)]

    async def close(self) -> None:
        return None


def _copy(batch: Batch) -> Batch:
    return Batch(batch.id, batch.source, batch.credits, batch.remaining, batch.created_at, batch.expires_at)


class MemoryOutbox:
    """batches: of all accounts, spent ones too."""

    def __init__(self, batches: Callable[[], Iterable[tuple[bytes, Batch]]]) -> None:
        self._batches = batches
        self._events: list[Announcement] = []
        self._last = 0
        self._announced: set[tuple[bytes, int]] = set()
        self._causes: set[tuple[bytes, str, bytes]] = set()
        self._taken: set[int] = set()

    def credited(self, pubkey: bytes, deposit: Deposit) -> None:
        """The store has written this deposit."""
        at = UnixSeconds(deposit.at_ms // 1000)
        self._add(deposit_credited(pubkey, msgspec.structs.asdict(deposit), deposit.operation, at))

    async def announce_expiring(self, shards: Sequence[VirtualShard], now_ms: int) -> None:
        await asyncio.sleep(0)
        now, mine = UnixSeconds(now_ms // 1000), set(shards)
        for pubkey, batch in self._batches():
            near = now < batch.expires_at <= now + EXPIRING_SECONDS
            if near and batch.remaining and (pubkey, batch.id) not in self._announced and _shard(pubkey) in mine:
                self._announced.add((pubkey, batch.id))
                account = Pubkey(base58_text(pubkey))
                event = CreditsExpiring(account, batch.id, batch.source, batch.remaining, batch.expires_at, now)
                self._add(event)

    def told(self, told: Told) -> None:
        """The store has written this event with its cause; a cause has one."""
        cause = told.pubkey, told.kind, told.subject
        if cause not in self._causes:
            self._causes.add(cause)
            body = msgspec.json.encode(told.body).decode()
            self._add(announcement(0, told.pubkey, told.kind, told.at_ms, body).event)

    @property
    def events(self) -> list[Event]:
        """All, taken or not."""
        return [row.event for row in self._events]

    async def take(self, limit: int) -> list[Announcement]:
        await asyncio.sleep(0)
        taken = [row for row in self._events if row.id not in self._taken][:limit]
        self._taken.update(row.id for row in taken)
        return taken

    async def forget(self, before_ms: int) -> None:
        await asyncio.sleep(0)
        self._events = [row for row in self._events if not self._is_old(row, before_ms)]

    def _is_old(self, row: Announcement, before_ms: int) -> bool:
        return row.id in self._taken and row.event.at * 1000 < before_ms

    def _add(self, event: Event) -> None:
        self._last += 1
        self._events.append(Announcement(self._last, event))


def _shard(pubkey: bytes) -> VirtualShard:
    return virtual_shard(routing_bytes(pubkey))
