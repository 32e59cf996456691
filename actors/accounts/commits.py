"""Group commit: entries that arrive during a write form the next group.

Implements: money rules 2, 5, 9 and 12; threats 20, 21, 40, 41 and 44.
A shell: no rule about credits lives here. One write is in flight at a time, so groups reach the ledger in the order in
which they were decided.

When the store does not commit, memory is ahead of the ledger. Then every account in the failed group and in the next
one is dropped from memory, and all waiting callers learn that their outcome is unknown. Then the owner takes its own
shards over once more, with a new epoch. a write whose end is unknown has been made by the time the new epoch is given,
or can never be made. Only then are accounts loaded again and calls admitted, without a restart. An owner whose shards
belong to another owner stops for good.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple

from actors.accounts.account import Account, Event, Moved
from actors.accounts.api import OwnerUnavailable
from actors.accounts.held_shards import HeldShards
from actors.accounts.holders_store import Giver, check_held
from actors.accounts.ledger import EntryType
from actors.accounts.ledger_clock import LedgerClock
from actors.accounts.store import AccountStore
from actors.accounts.stored import Fenced, NotGiven, StoreUnavailable
from actors.accounts.undelivered import Place, UndeliveredCharges
from actors.accounts.writes import Entries, Write
from actors.calls import REPLICA_ID_BYTES
from actors.telemetry.metrics import Metrics
from actors.units import VirtualShard

logger = logging.getLogger(__name__)

GATHERED_MAX = 20_000  # Entries behind a write. Beyond it no call is admitted; existing holds can still end.
SLOW_SECONDS = 3  # A write longer than this means that the store is not committing: no call is admitted.
BEAT_SECONDS = 1.0  # Interval at which an idle owner checks that its store answers and its shards are still its own.
# A write costs 0.4 ms of processor time before its first entry, here and at the server, and 8 us for each entry. So a
# group waits for calls that are likely to join it, in small steps and while they keep coming.
LINGER_SECONDS = 0.001
_LINGER_STEPS_MAX = 4
_MANY_ACCOUNTS = 8
_LARGE_GROUP_ENTRIES = 8  # After a group of this size the next group always waits, because calls come in bursts.
_SKIPPED_MAX = 64
_ENTRY_LABELS = {int(kind): (kind.name.lower(),) for kind in EntryType}
_RECOVERY_PAUSES = (0.05, 0.1, 0.2, 0.5, 1.0)


class _Group:
    """One group being gathered. All its callers share the future, which is done when the group is durable."""

    __slots__ = ("accounts", "future", "is_wanted", "write")

    def __init__(self) -> None:
        self.write = Write()
        self.accounts: dict[bytes, Account] = {}
        self.is_wanted = False  # True: write the group even without an event, for the lists of undelivered charges.
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.future.add_done_callback(_retrieve)


class _Adoption(NamedTuple):
    shards: Sequence[VirtualShard]
    by: Giver
    done: "asyncio.Future[None]"


class GroupCommit:
    """Writes groups of events. forget: called with the accounts that must be dropped from memory. undelivered: lists
    written with each group. told: called with entries that became durable."""

    def __init__(
        self,
        store: AccountStore,
        clock: LedgerClock,
        owner: str,
        held: HeldShards,
        forget: Callable[[Iterable[Account]], None],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        metrics: Metrics | None = None,
        undelivered: UndeliveredCharges | None = None,
        told: Callable[[Entries], None] | None = None,
    ) -> None:
        self._told: Callable[[Entries], None] = told or (lambda _: None)
        self._undelivered = UndeliveredCharges() if undelivered is None else undelivered
        self._place = Place(held.index)
        self._store, self._clock, self._owner, self._held = store, clock, owner, held
        self._forget, self._sleep = forget, sleep
        self._metrics = metrics or Metrics()
        self._metrics.watch("entries_waiting", "Ledger entries that wait for the next commit.", lambda: self.gathered)
        self.epoch = self.generation = 0  # generation: how often memory was dropped after a failed commit.
        self._adopting: list[_Adoption] = []
        self.inherited = False  # True: one of the shards had another owner before.
        self.open = False  # False while the store is known not to commit.
        self.fenced = False
        self.closed: asyncio.Future[None]  # A failed future, handed out while `open` is False.
        self._gathering: _Group
        self._flying: _Group | None = None
        self._flying_since = 0
        self._latest: dict[bytes, Account] = {}  # Accounts of the previous group.
        self._latest_entries = 0
        self.coming: dict[bytes, int] = {}  # How many calls a replica is asking ahead, as it told last.
        self._lingering: asyncio.Future[None] | None = None  # Done when the group need not wait any longer.
        self._to_skip = self._skipped = 0  # Groups that shall not linger, as it was in vain; how many did not so far.
        self._wake = asyncio.Event()
        self._beat_due = self._distrusted = False
        self._task: asyncio.Task[None] | None = None
        self._beat: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Take the shards over from any former owner. Raises StoreUnavailable."""
        self._gathering = _Group()
        self.closed = asyncio.get_running_loop().create_future()
        self.closed.add_done_callback(_retrieve)
        self.closed.set_exception(OwnerUnavailable("the ledger is not committing"))
        await self._store.prepare(self._clock.now_ms())
        self.inherited = await self._store.has_owner(self._held.all)
        self.epoch = await self._store.take_over(self._owner, self._held.all, False)
        await self._ask_owner()  # The database's time must be known before the first decision.
        if self._clock.doubt is not None:
            await self._store.prepare(self._clock.now_ms())
        self.open = True
        self._task = asyncio.create_task(self._run())
        self._schedule_beat()

    async def stop(self) -> None:
        """Write the gathered group and the lists of undelivered charges, then end."""
        if self._beat is not None:
            self._beat.cancel()
        last = self.listed() if self._undelivered.is_changed else self.pending()
        if last is not None and self.open:
            await asyncio.wait((last,), timeout=SLOW_SECONDS)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self.open = False

    def admits(self, steady: int) -> bool:
        """Return whether a call admitted now could be recorded (money rule 9)."""
        return (
            self.open
            and len(self._gathering.write.entries) < GATHERED_MAX
            and (self._flying is None or steady - self._flying_since < SLOW_SECONDS)
        )

    def record(self, account: Account, event: Event) -> "asyncio.Future[None]":
        """Add an event, which was just applied, to the gathering group. Returns the group's future."""
        group = self._gathering
        written = group.write.add(account, event, 0 if type(event) is Moved else self._clock.now_ms())
        assert written, event
        group.accounts[account.pubkey] = account
        if type(event) is Moved:
            group.write.tell(account, event.entry)
        if self._flying is None:
            self._wake.set()
        if self._lingering is not None and not account.holds and not self._others_are_likely():
            self._end_linger(self._lingering)
        return group.future

    def pending(self, pubkey: bytes | None = None) -> "asyncio.Future[None] | None":
        """Return a future that is done when all decisions so far (of this account) are durable; None: they are."""
        for group in (self._gathering, self._flying):
            if group is not None and (pubkey in group.accounts if pubkey is not None else group.accounts):
                return group.future
        return None

    def naming(self, shards: frozenset[VirtualShard]) -> "asyncio.Future[None] | None":
        """Return a future that is done when the write under way is durable, if it names one of these shards."""
        flying = self._flying
        return flying.future if flying is not None and shards & flying.write.shards else None

    def listed(self) -> "asyncio.Future[None]":
        """Return a future that is done when the current lists of undelivered charges are durable. They get a group of
        their own if no other follows."""
        if not self.open:
            return self.closed
        self._gathering.is_wanted = True
        self._wake.set()
        return self._gathering.future

    @property
    def gathered(self) -> int:
        return len(self._gathering.write.entries)

    def distrust(self, account: Account) -> None:
        """Drop an account whose invariant broke in the middle of a turn. As after a failed write, the events not yet
        sent are dropped, and work continues from the ledger. Events already sent were decided earlier, and stand."""
        logger.exception("account %s broke an invariant", account.pubkey.hex())
        self.open, self._distrusted = False, True
        group, self._gathering = self._gathering, _Group()
        self._forget([*group.accounts.values(), account])
        group.future.set_exception(OwnerUnavailable("an invariant broke"))
        self._wake.set()

    async def confirm(self) -> int:
        """Return the epoch, once the store has confirmed the ownership of the shards. Raises OwnerUnavailable."""
        epoch = self.epoch
        try:
            await check_held(self._store.check_owner, epoch, self._held)
        except (Fenced, StoreUnavailable) as error:
            raise OwnerUnavailable("the ledger does not say that these shards are still ours") from error
        return epoch

    async def beat(self) -> None:
        """Check the ownership of the shards, and read the store's time. Recover when the store does not answer."""
        try:
            await self._ask_owner()
        except Fenced:
            self._fence()
        except Exception as error:  # noqa: BLE001 - a shard that cannot ask must not go on as if it had.
            await self._recover(error)

    async def _ask_owner(self) -> None:
        asked = self._clock.monotonic()
        self._clock.answered(await check_held(self._store.check_owner, self.epoch, self._held), asked)

    async def _run(self) -> None:
        while not self.fenced:
            await self._wake.wait()
            self._wake.clear()
            while (self._gathering.accounts or self._gathering.is_wanted) and not self.fenced:
                await self._linger()
                await self._commit()
            if self._distrusted and not self.fenced:
                await self._recover("an invariant broke")
            while self._adopting and not self.fenced:
                await self._adopt(self._adopting.pop(0))
            if self._beat_due and not self.fenced:
                self._beat_due = False
                await self.beat()
                self._schedule_beat()

    async def adopt(self, shards: Sequence[VirtualShard], by: Giver) -> None:
        """Take these shards too, between two groups, with the next epoch for all shards. Raises NotGiven when they are
        not where their giver left them, and OwnerUnavailable."""
        if not self.open:
            raise OwnerUnavailable("the ledger is not committing")
        adoption = _Adoption(shards, by, asyncio.get_running_loop().create_future())
        adoption.done.add_done_callback(_retrieve)
        self._adopting.append(adoption)
        self._wake.set()
        await asyncio.shield(adoption.done)

    async def _adopt(self, adoption: "_Adoption") -> None:
        shards, by, done = adoption
        held = self._held
        mine = [shard for shard in held.all if shard not in shards]
        try:
            taken = await self._store.holders.adopt(self._owner, held.index, self.epoch, mine, shards, by)
        except NotGiven as error:
            done.set_exception(error)
        except Fenced:
            self._fence()
            done.set_exception(OwnerUnavailable("the shards have another owner"))
        except Exception as error:  # noqa: BLE001 - whether the epoch has changed is not known now.
            await self._recover(error)
            done.set_exception(OwnerUnavailable(str(error)))
        else:
            self.epoch, self.inherited = taken, True
            held.take(shards)
            done.set_result(None)

    async def _linger(self) -> None:
        """Wait while more calls are likely to join this group. A lone caller never waits. After a small group that
        waited in vain, some groups do not wait: twice as many each time."""
        if self._skipped < self._to_skip and self._latest_entries < _LARGE_GROUP_ENTRIES:
            self._skipped += 1
            return
        if not self._others_are_likely():
            return
        loop = asyncio.get_running_loop()
        before = gathered = self.gathered
        for _ in range(_LINGER_STEPS_MAX):
            self._lingering = loop.create_future()
            timer = loop.call_later(LINGER_SECONDS, self._end_linger, self._lingering)
            await self._lingering
            timer.cancel()
            self._lingering = None
            if self.gathered == gathered:
                break
            gathered = self.gathered
            if not self._others_are_likely():
                break
        if gathered == before:  # A replica that ended tells nothing more, and a node may take long.
            self.coming.clear()
        self._skipped = 0
        self._to_skip = 0 if gathered > before else min(2 * self._to_skip + 1, _SKIPPED_MAX)

    def _others_are_likely(self) -> bool:
        """Return whether an account of this or the previous group has a running call, or any is asked ahead."""
        if self.coming or len(self._latest) >= _MANY_ACCOUNTS:
            return True
        for accounts in (self._gathering.accounts, self._latest):
            # A loop, because a generator costs more than the check itself, on every commit.
            for account in accounts.values():
                if account.holds:
                    return True
        return False

    @staticmethod
    def _end_linger(lingering: "asyncio.Future[None]") -> None:
        if not lingering.done():
            lingering.set_result(None)

    async def _commit(self) -> None:
        group, self._gathering = self._gathering, _Group()
        self._cut(group)
        self._latest, self._latest_entries = group.accounts, len(group.write.entries)
        asked = self._clock.monotonic()
        self._flying, self._flying_since = group, int(asked)
        try:
            database_ms = await self._store.write(self.epoch, group.write)
        except Fenced:
            self._fence()
        except Exception as error:
            self._metrics.store_failures.add(())
            if not isinstance(error, StoreUnavailable):
                logger.exception("a group could not be written")
            await self._recover(error)
        else:
            self._clock.answered(database_ms, asked)
            self._flying = None
            group.future.set_result(None)
            # After the callbacks of the future, in which the answers leave: telling and counting take longer than they.
            call_soon, seconds = asyncio.get_running_loop().call_soon, self._clock.monotonic() - asked
            call_soon(self._told, group.write.entries)
            call_soon(_count, self._metrics, group.write, seconds)

    def _cut(self, group: _Group) -> None:
        write = group.write
        write.cut(group.accounts)
        write.shards = write.shards or self._held.named_alone()  # A group without accounts has to name one, too.
        write.place = self._place
        # A group of one entry uses a statement that takes one list; other lists wait for the next group.
        is_single = len(write.entries) == 1 and not group.is_wanted
        replica = write.entries[0][1].operation[:REPLICA_ID_BYTES] if is_single else None
        write.undelivered = self._undelivered.cut(replica)

    def _fence(self) -> None:
        logger.error("%s: the shards have another owner; this one has stopped", self._owner)
        self.fenced = True
        self._drop_unwritten("the shards have another owner")
        for adoption in self._adopting:
            adoption.done.set_exception(OwnerUnavailable("the shards have another owner"))

    def _drop_unwritten(self, reason: str) -> None:
        self.open = False
        self.generation += 1
        self._undelivered.unwritten()
        failed = [group for group in (self._flying, self._gathering) if group is not None]
        self._flying, self._gathering, self._latest = None, _Group(), {}
        for group in failed:
            self._forget(group.accounts.values())
            if not group.future.done():
                group.future.set_exception(OwnerUnavailable(reason))

    async def _recover(self, error: object) -> None:
        logger.warning("the ledger is not committing, no paid call is admitted: %s", error)
        self._drop_unwritten("the ledger did not commit")
        attempt = 0
        while True:
            try:
                await self._store.prepare(self._clock.now_ms())
                self.epoch = await self._store.take_over(self._owner, self._held.all, True)
            except Fenced:
                self._fence()
                return
            except Exception as again:  # noqa: BLE001 - whatever it is, giving up would leave the shard closed for good.
                logger.warning("the ledger is still not committing: %s: %s", type(again).__name__, again)
                await self._sleep(_RECOVERY_PAUSES[min(attempt, len(_RECOVERY_PAUSES) - 1)])
                attempt += 1
            else:
                logger.warning("the ledger commits again; calls are admitted with epoch %d", self.epoch)
                self.open, self._distrusted = True, False
                return

    def _schedule_beat(self) -> None:
        self._beat = asyncio.get_running_loop().call_later(BEAT_SECONDS, self._wake_for_beat)

    def _wake_for_beat(self) -> None:
        self._beat_due = True
        if self.open and self._undelivered.is_changed:
            self._gathering.is_wanted = True  # No call came for a while: write the deliveries reported since.
        self._wake.set()


def _retrieve(future: "asyncio.Future[None]") -> None:
    """Mark the exception as retrieved, so that the event loop logs no warning for it."""
    if not future.cancelled():
        future.exception()


def _count(metrics: Metrics, write: Write, seconds: float) -> None:
    """Count a durable group in the metrics."""
    metrics.commit_seconds.observe(seconds)
    metrics.commit_rows.observe(len(write.entries))
    for kind in {entry.type for _, entry, _ in write.entries}:
        amounts = [abs(entry.amount) for _, entry, _ in write.entries if entry.type == kind]
        metrics.ledger_entries.add(_ENTRY_LABELS[kind], len(amounts))
        metrics.ledger_credits.add(_ENTRY_LABELS[kind], sum(amounts))
