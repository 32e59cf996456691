"""The signals of one process: one reader of the log, however many subscribers.

Implements: interface, "subscribeSignal" and "Signal billing"; decisions, "cursors and gaps"; threats 30 and 32.
Each entry is written as JSON once for all and stays in the ring. A subscriber's place is a number in the ring. One that
takes nothing for a while goes on from its place, and nothing is queued for it. A place that is older than the ring is
fed from the stores, REPLAY_MAX entries at a time. What no store has any more is a gap notice.

Billing: an entry is charged if it is a first report, the record of this subscription covers it (deliveries.py), and no
record of the account from before did. The record of a subscriber that gets entries as they come runs ahead of the
clock. The record of one that is behind runs ahead by AHEAD_MAX charged entries, as what it covers is free for the next
subscription: a client that reads nothing must not get a replay for the price of two connections. Records of all
subscribers are written together.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from weakref import WeakSet, WeakValueDictionary

from actors.background import Background
from actors.clock import Clock
from actors.place_shares import BALANCE_MIN, CREDITS_A_PLACE, PlaceShares
from actors.signals.deliveries import LEASE_MS, Delivered, DeliveryStore, merged
from actors.signals.filters import SignalFilter
from actors.signals.history import HistoryUnavailable
from actors.signals.log import (
    NO_CURSOR,
    SUBSCRIBED_WALLETS_MAX,
    WALLET_SECONDS,
    LogEntry,
    SignalLog,
    SignalLogUnavailable,
    cursor_key,
)
from actors.signals.replays import Replays
from actors.signals.ring import SharedEntry, gap_of_the_stores
from actors.signals.subscription import REPLAY_MAX, SignalSink, SignalSubscription

logger = logging.getLogger(__name__)

_PAGE_MAX = 500
_READ_WAIT_MS = 1_000
_RENEW_SECONDS = 5.0
_PAUSE_SECONDS = 0.5
_PAGE_SECONDS = 0.005  # Pause between pages of one account's replays: other work has most of the time.
_LOADED_MAX = 5_000
_COVERED_AT_ONCE = 200
# Subscribers served before other tasks of this process run, and written events leave.
_IN_ONE_TURN = 32
_ENDS_JOINED = 64  # Ended subscriptions of an account after which its records are joined.
_COUNTED_ACCOUNTS_MAX = 10_000
ACCOUNT_WALLETS_MAX = 1_000  # Wallets of one account, in one process.
# Taken by all replicas together; what an account holds is counted in each replica, as its subscriptions are.
WALLETS = PlaceShares(total=SUBSCRIBED_WALLETS_MAX, kept=2_000, base=10, of_one_max=ACCOUNT_WALLETS_MAX)
AWAY = (SignalLogUnavailable, HistoryUnavailable)


class WalletsFull(SignalLogUnavailable):
    """The account has no place for these wallets. most: wallets it may watch here. hint: how to get more places."""

    def __init__(self, most: int, hint: str) -> None:
        super().__init__("no place for more wallets")
        self.most, self.hint = most, hint


class SignalHub:
    def __init__(
        self,
        log: SignalLog,
        replays: Replays,
        deliveries: DeliveryStore,
        clock: Clock,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._log, self._replays, self._deliveries, self._clock = log, replays, deliveries, clock
        self._ring, self._sleep = replays.ring, sleep
        self._subscriptions: dict[str, SignalSubscription] = {}
        self._made: WeakSet[SignalSubscription] = WeakSet()  # Includes subscriptions that never begin.
        self._is_loaded = False
        # Wallets that an account named, each until its place is free: who changes names must not get a second place.
        self._named: dict[bytes, dict[str, int]] = {}
        self._ends: Counter[bytes] = Counter()  # Number of ended subscriptions by account.
        self._turns: WeakValueDictionary[bytes, asyncio.Lock] = WeakValueDictionary()  # Locks of accounts that replay.
        self._short: set[SignalSubscription] = set()  # Subscriptions that wait until a record is written.
        self._covering: asyncio.Task[None] | None = None
        self._background = Background(logger, "serving signals failed")

    @property
    def count(self) -> int:
        return len(self._subscriptions)

    @property
    def last(self) -> str:
        """Return the cursor of the newest entry read."""
        return self._ring.last

    @property
    def version(self) -> int:
        """Return a number that changes with every entry."""
        return self._ring.following

    async def start(self) -> None:
        try:
            await self.load()
        except AWAY as error:  # The reader keeps trying; a replica starts without Redis.
            logger.warning("signals are not read yet: %s", error)
        self._background.start(self._read_for_ever())
        self._background.start(self._renew_for_ever())

    async def stop(self) -> None:
        closing = [self.unsubscribe(subscription) for subscription in list(self._subscriptions.values())]
        kept = {task for task in closing if task is not None}
        await self._background.stop(but=kept)

    async def load(self) -> None:
        """Fill the ring with the newest entries of the log. Raises one of AWAY."""
        entries = await self._log.latest(_LOADED_MAX)
        floor = entries[-1].cursor if entries else await self._replays.newest()
        self._ring.begin_after(floor, is_end=not entries)
        for entry in reversed(entries):
            self._ring.append(entry)
        self._is_loaded = True

    # --- subscribers

    async def subscribe(
        self,
        pubkey: bytes,
        wanted: SignalFilter,
        sink: SignalSink,
        since: str | None = None,
        *,
        balance: int = BALANCE_MIN,
    ) -> SignalSubscription:
        """Begin after the cursor `since`, or now. Nothing is delivered before SignalHub.begin. balance: in credits.

        Raises one of AWAY, where nothing could be read or recorded, and WalletsFull; nothing was delivered then.
        """
        if not self._is_loaded:
            raise SignalLogUnavailable("the log has not been read yet")
        subscription = SignalSubscription(pubkey, wanted, sink, since or self.last, self._ring, self._cover_soon)
        self._made.add(subscription)
        await self._take_wallets(subscription, balance)
        if since is not None:
            doubtful = await self._deliveries.doubtful()
            records, until = await self._joined_records(pubkey)
            subscription.earlier_until = max(cursor_key(until), cursor_key(doubtful.until))
            subscription.earlier = (doubtful, *records)
            newest = max(until, self.last, key=cursor_key)
            if newest != NO_CURSOR and cursor_key(since) > cursor_key(newest):
                # A cursor of the future: no record that begins there could cover earlier charges.
                subscription.began_after = subscription.position = newest
        else:
            subscription.follow_ring(self._ring.following)
            await self._cover([subscription])
        return subscription

    def may_watch(self, pubkey: bytes, wanted: SignalFilter) -> bool:
        """Return whether this account may name these wallets too, whatever its balance. `subscribe` checks the
        balance."""
        return not wanted.wallets or len(wanted.wallets | self._wallets_of(pubkey)) <= ACCOUNT_WALLETS_MAX

    def _wallets_of(self, pubkey: bytes, but: SignalSubscription | None = None) -> frozenset[str]:
        """Return the wallets that this account names here, also in subscriptions that are being opened."""
        own = (each for each in list(self._made) if each.pubkey == pubkey and each is not but and not each.is_over)
        return frozenset[str]().union(*(each.filter.wallets or () for each in own))

    async def _take_wallets(self, subscription: SignalSubscription, balance: int) -> None:
        """Have its wallets watched, or raise WalletsFull. Redis refuses requests for reserved places."""
        wallets = subscription.filter.wallets
        if not wallets:
            return
        now = self._clock.now()
        taken = await self._log.subscribed_wallets(now)
        held = self._held(subscription.pubkey, now)
        before = held | self._wallets_of(subscription.pubkey, but=subscription)
        after = len(wallets | before)
        most = WALLETS.most(len(before), taken, balance)
        limit = WALLETS.total if after <= WALLETS.base else WALLETS.total - WALLETS.kept
        is_refused = after > most and not wallets <= held
        if is_refused or not await self._log.watch_more(sorted(wallets), now, limit):
            subscription.is_over = True  # The subscription holds no place.
            needed = after * CREDITS_A_PLACE
            if needed > balance:
                raise WalletsFull(most, f"{after} watched wallets need a balance of {needed} credits")
            few = f"name at most {WALLETS.base}" if after > WALLETS.base else "try later"
            raise WalletsFull(
                min(most, after - 1), f"most places are taken at the moment: {few}, or end a subscription"
            )
        self._name(subscription)

    def _held(self, pubkey: bytes, now: int) -> frozenset[str]:
        """Return the wallets for which the account was given a place. An opening under way was given none yet."""
        named = (wallet for wallet, until in self._named.get(pubkey, {}).items() if until >= now)
        begun = (each.filter.wallets or () for each in self._subscriptions.values() if each.pubkey == pubkey)
        return frozenset(named).union(*begun)

    def _name(self, subscription: SignalSubscription) -> None:
        until = self._clock.now() + WALLET_SECONDS
        named = self._named.setdefault(subscription.pubkey, {})
        named.update(dict.fromkeys(subscription.filter.wallets or (), until))

    def _forget_names(self) -> None:
        now = self._clock.now()
        for pubkey, named in list(self._named.items()):
            left = {wallet: until for wallet, until in named.items() if until >= now}
            if left:
                self._named[pubkey] = left
            else:
                del self._named[pubkey]

    def begin(self, subscription: SignalSubscription) -> None:
        """Start the delivery."""
        self._subscriptions[subscription.name] = subscription
        subscription.has_begun = True
        self._place(subscription)
        if not subscription.is_live:
            self._cover_soon(subscription)

    def unsubscribe(self, subscription: SignalSubscription) -> "asyncio.Task[None] | None":
        """End a subscription, and record exactly how far it came. None: it had ended before."""
        if self._subscriptions.pop(subscription.name, None) is None:
            return None
        subscription.is_over = True
        if subscription.filter.wallets:
            self._name(subscription)
        self._short.discard(subscription)
        if subscription.task is not None:
            subscription.task.cancel()
        return self._background.start(self._close(subscription))

    async def _close(self, subscription: SignalSubscription) -> None:
        until = max(subscription.position, subscription.began_after, key=cursor_key)
        record = Delivered(subscription.filter, subscription.began_after, until)
        try:
            await self._deliveries.record([(subscription.pubkey, subscription.name, record)])
            if self._is_time_to_join(subscription.pubkey):
                await self._joined_records(subscription.pubkey)
        except SignalLogUnavailable as error:  # The earlier record covers more, in the customer's favour.
            logger.warning("the end of a subscription was not recorded: %s", error)

    def _is_time_to_join(self, pubkey: bytes) -> bool:
        """Return True once every few ends of an account's subscriptions, because each leaves a record."""
        if len(self._ends) >= _COUNTED_ACCOUNTS_MAX:
            self._ends.clear()
        self._ends[pubkey] += 1
        return self._ends[pubkey] % _ENDS_JOINED == 0

    async def _joined_records(self, pubkey: bytes) -> tuple[Collection[Delivered], str]:
        """Join an account's records in the store. Returns what they cover, and the log's newest cursor."""
        records = await self._deliveries.delivered(pubkey)
        newest = await self._log.latest(1)  # Read after the records, so that everything they cover was written before.
        until = newest[0].cursor if newest else NO_CURSOR
        changed, gone = merged(records, until)
        await self._deliveries.tidy(pubkey, changed, gone)
        return (records | changed).values(), until

    def _place(self, subscription: SignalSubscription) -> None:
        """Continue from the ring if it has the subscriber's place, else from the stores."""
        number = self._ring.number_after(subscription.position)
        if number is not None:
            subscription.follow_ring(number)
        elif subscription.task is None or subscription.task.done():
            subscription.task = self._background.start(self._feed(subscription))

    async def _feed(self, subscription: SignalSubscription) -> None:
        """Feed a subscriber from the stores until the ring has its place.

        An account's replays take turns, because a replay without matches reads as fast as the stores allow, for the
        price of its beginning."""
        turn = self._turns.setdefault(subscription.pubkey, asyncio.Lock())
        while self._ring.number_after(subscription.position) is None:
            try:
                async with turn:
                    page = await self._replays.after(subscription.position, REPLAY_MAX)
                    await self._sleep(_PAGE_SECONDS)
            except AWAY as error:
                logger.warning("a replay of signals waits: %s", error)
                await self._sleep(_PAUSE_SECONDS)
                continue
            told = [SharedEntry(entry) for entry in page.entries]
            if page.lost_until is not None:
                notice = gap_of_the_stores(subscription.position, page.lost_until)
                told.insert(0, SharedEntry(LogEntry(page.lost_until, "gap"), notice))
            if not told:
                await self._sleep(_PAUSE_SECONDS)  # The ring has entries that the stores lack: they are being restored.
                continue
            subscription.give(told)
            await subscription.drained()
        self._place(subscription)

    # --- delivering

    async def _read_for_ever(self) -> None:
        while True:
            try:
                if not self._is_loaded:
                    await self.load()
                self.publish(await self._log.read(self.last, _PAGE_MAX, _READ_WAIT_MS))
                await self.deliver()
                continue
            except AWAY as error:
                logger.warning("signals wait: %s", error)
            except Exception:  # A bug must not end the reader.
                logger.exception("reading the log of signals failed")
            await self._sleep(_PAUSE_SECONDS)

    def publish(self, entries: Iterable[LogEntry]) -> None:
        """Add new entries of the log."""
        for entry in entries:
            self._ring.append(entry)

    async def deliver(self) -> None:
        """Give every subscriber its undelivered entries."""
        for index, subscription in enumerate(list(self._subscriptions.values()), 1):
            subscription.resume()
            if index % _IN_ONE_TURN == 0:
                await asyncio.sleep(0)

    # --- records of deliveries, and watched wallets

    def _cover_soon(self, subscription: SignalSubscription) -> None:
        """Write its record soon, together with those of other subscriptions."""
        if subscription.name not in self._subscriptions:
            return
        if subscription.is_behind_ring and not subscription.has_page:
            self._place(subscription)
        self._short.add(subscription)
        if self._covering is None or self._covering.done():
            self._covering = self._background.start(self._cover_all())

    async def _cover_all(self) -> None:
        while self._short:
            subscriptions, self._short = self._short, set()
            try:
                await self._cover(list(subscriptions))
            except SignalLogUnavailable as error:
                logger.warning("replays of signals wait: %s", error)
                self._short |= {each for each in subscriptions if not each.is_over}
                await self._sleep(_PAUSE_SECONDS)

    async def _renew_for_ever(self) -> None:
        while True:
            await self._sleep(_RENEW_SECONDS)
            self._forget_names()
            try:
                await self._cover([each for each in self._subscriptions.values() if each.is_live])
                await self._log.watch(sorted(self.wallets()), self._clock.now())
            except SignalLogUnavailable as error:
                logger.warning("deliveries of signals are free for now: %s", error)

    async def _cover(self, subscriptions: Sequence[SignalSubscription]) -> None:
        """Record what may be charged next: only entries covered by a record are charged."""
        if not subscriptions:
            return
        lease = f"{await self._deliveries.now_ms() + LEASE_MS}-0"
        for start in range(0, len(subscriptions), _COVERED_AT_ONCE):
            part = [each for each in subscriptions[start : start + _COVERED_AT_ONCE] if not each.is_over]
            wanted = [(each, each.wanted_cover()) for each in part]
            rows = [
                (each.pubkey, each.name, Delivered(each.filter, each.began_after, until or lease))
                for each, until in wanted
            ]
            await self._deliveries.record(rows)
            for each, until in wanted:
                each.cover(until or lease, is_live=until is None)

    def wallets(self) -> frozenset[str]:
        """Return the wallets that subscribers here watch."""
        named = [each.filter.wallets for each in self._subscriptions.values() if each.filter.wallets]
        return frozenset[str]().union(*named)
