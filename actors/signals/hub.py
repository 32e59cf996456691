"""The signals of one process: one reader of the log, however many subscribers.

Implements: interface, "subscribeSignal" and "Signal billing"; decisions, "cursors and gaps"; hostile inputs 30 and 32.
Each entry is written as JSON once for all. A subscriber that is behind, because it began at an old cursor or takes what
it gets slowly, is fed by a task of its own from the log until it has caught up; so nothing is dropped, and memory for
each is bounded by REPLAY_MAX entries. What no store has any more is a gap notice.

Billing: an entry is charged if it is a first report, the record of this subscription covers it (deliveries.py), and no
record of the account from before did. Records run ahead of delivery by few entries, as what they cover is free for the
next subscription: a client that reads nothing must not get a replay for the price of two connections.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import orjson

from actors.clock import Clock
from actors.signals.deliveries import LEASE_MS, Delivered, DeliveryStore, merged
from actors.signals.filters import SignalFilter
from actors.signals.history import HistoryUnavailable
from actors.signals.log import NO_CURSOR, LogEntry, SignalLog, SignalLogUnavailable, cursor_key, is_after
from actors.signals.replays import Replays
from actors.signals.subscription import QUEUE_MAX, SignalSink, SignalSubscription, parts

logger = logging.getLogger(__name__)

_PAGE_MAX = 500
_READ_WAIT_MS = 1_000
_RENEW_SECONDS = 5.0
_PAUSE_SECONDS = 0.5
_LOADED_MAX = 5_000
AWAY = (SignalLogUnavailable, HistoryUnavailable)


def body_of_entry(entry: LogEntry) -> bytes:
    """Return what clients get of an entry, as JSON: the signal and its cursor, or a gap."""
    if entry.gap is not None:
        gap = {"from_cursor": entry.cursor, "to_cursor": entry.cursor, **_slots(entry)}
        return orjson.dumps({"gap": gap})
    assert entry.event is not None
    fields = entry.event.body() | {"cursor": entry.cursor}
    if entry.change != "event":
        fields["correction"] = entry.change
    return orjson.dumps(fields)


def _slots(entry: LogEntry) -> dict[str, Any]:
    assert entry.gap is not None
    return {"from_slot": entry.gap.from_slot, "to_slot": entry.gap.to_slot, "reason": entry.gap.reason}


def gap_of_the_stores(from_cursor: str, to_cursor: str) -> bytes:
    reason = "these signals are older than what is kept"
    gap = {"from_cursor": from_cursor, "to_cursor": to_cursor, "from_slot": None, "to_slot": None, "reason": reason}
    return orjson.dumps({"gap": gap})


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
        self._sleep = sleep
        self._subscriptions: dict[str, SignalSubscription] = {}
        self.last = NO_CURSOR  # The newest entry that was read.
        self.version = 0  # Counts changes of the ring.
        self._tasks: list[asyncio.Task[None]] = []
        self._closing: set[asyncio.Task[None]] = set()
        self.wallets_elsewhere: Callable[[], frozenset[str]] = frozenset  # Of webhooks; set by the wiring.

    @property
    def count(self) -> int:
        return len(self._subscriptions)

    async def start(self) -> None:
        try:
            await self.load()
        except AWAY as error:  # The reader goes on trying; a replica starts without Redis.
            logger.warning("signals are not read yet: %s", error)
        self._tasks = [asyncio.create_task(self._read_for_ever()), asyncio.create_task(self._renew_for_ever())]

    async def stop(self) -> None:
        for subscription in list(self._subscriptions.values()):
            self.unsubscribe(subscription)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, *self._closing, return_exceptions=True)

    async def load(self) -> None:
        """Fill the ring with the newest entries of the log."""
        for entry in reversed(await self._log.latest(_LOADED_MAX)):
            self._replays.ring.append(entry)
            self.last = entry.cursor
        self.version += 1

    # --- subscribers

    async def subscribe(
        self, pubkey: bytes, wanted: SignalFilter, sink: SignalSink, since: str | None = None
    ) -> SignalSubscription:
        """Begin after the cursor `since`, or now. Nothing is delivered before SignalHub.begin.

        Raises SignalLogUnavailable, where nothing could be recorded; nothing was delivered then.
        """
        subscription = SignalSubscription(pubkey, wanted, sink, since or self.last)
        if since is not None:
            records = await self._deliveries.delivered(pubkey)
            newest = await self._log.latest(1)  # After the records: what they cover was written before.
            subscription.earlier_until = newest[0].cursor if newest else NO_CURSOR
            changed, gone = merged(records, subscription.earlier_until)
            await self._deliveries.tidy(pubkey, changed, gone)
            subscription.earlier = tuple((records | changed).values())
        else:
            await self._renew([subscription])
        if wanted.wallets:
            await self._log.watch(sorted(wanted.wallets), self._clock.now())
        return subscription

    def begin(self, subscription: SignalSubscription) -> None:
        """Deliver from now on."""
        self._subscriptions[subscription.name] = subscription
        if not is_after(self.last, subscription.position):
            subscription.is_live = True
        else:
            self._fall_behind(subscription)

    def unsubscribe(self, subscription: SignalSubscription) -> None:
        """End a subscription, and write down exactly how far it came."""
        if self._subscriptions.pop(subscription.name, None) is None:
            return
        if subscription.task is not None:
            subscription.task.cancel()
        closing = asyncio.get_running_loop().create_task(self._close(subscription))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def _close(self, subscription: SignalSubscription) -> None:
        until = max(subscription.came_to, subscription.began_after, key=cursor_key)
        record = Delivered(subscription.filter, subscription.began_after, until)
        try:
            await self._deliveries.record([(subscription.pubkey, subscription.name, record)])
        except SignalLogUnavailable as error:  # The record from before covers more, in the customer's favour.
            logger.warning("the end of a subscription was not recorded: %s", error)

    # --- delivering

    async def _read_for_ever(self) -> None:
        while True:
            try:
                entries = await self._log.read(self.last, _PAGE_MAX, _READ_WAIT_MS)
                self.publish(entries)
                continue
            except SignalLogUnavailable as error:
                logger.warning("signals wait: %s", error)
            except Exception:  # A bug must not end the reader.
                logger.exception("reading the log of signals failed")
            await self._sleep(_PAUSE_SECONDS)

    def publish(self, entries: list[LogEntry]) -> None:
        """Hand new entries to every subscriber that is not behind."""
        for entry in entries:
            self._replays.ring.append(entry)
            self.last = entry.cursor
            self.version += 1
            body = body_of_entry(entry)
            for subscription in list(self._subscriptions.values()):
                if subscription.is_live and subscription.waiting < QUEUE_MAX:
                    subscription.take(entry, body)
                elif subscription.is_live:
                    self._fall_behind(subscription)

    def _fall_behind(self, subscription: SignalSubscription) -> None:
        subscription.is_live = False
        subscription.task = asyncio.get_running_loop().create_task(self._catch_up(subscription))

    async def _catch_up(self, subscription: SignalSubscription) -> None:
        leased = False
        while True:
            try:
                if not leased:  # Its record may run further ahead than a replay's.
                    await self._record([subscription], subscription.position)
                await subscription.drained()
                page = await self._replays.after(subscription.position, _PAGE_MAX)
                if page.lost_until is not None:
                    subscription.notice(gap_of_the_stores(subscription.position, page.lost_until))
                    subscription.position = max(subscription.position, page.lost_until, key=cursor_key)
                await self._replay(subscription, page.entries)
                if not page.entries and not leased:
                    await self._renew([subscription])
                    leased = True
                    continue
            except AWAY as error:
                logger.warning("a replay of signals waits: %s", error)
                await self._sleep(_PAUSE_SECONDS)
                continue
            # No await from an empty page to `is_live`: an entry in between would be lost.
            if not page.entries and not is_after(self.last, subscription.position):
                subscription.is_live = True
                return
            if not page.entries:
                await self._sleep(_PAUSE_SECONDS)  # The stores lack what the reader has: they are being restored.

    async def _replay(self, subscription: SignalSubscription, entries: Sequence[LogEntry]) -> None:
        """Deliver a page in parts, each recorded before and delivered before the next."""
        for part in parts(subscription, entries):
            await subscription.drained()
            if any(map(subscription.may_be_charged, part)):
                await self._record([subscription], part[-1].cursor)
            for entry in part:
                subscription.take(entry, body_of_entry(entry))

    # --- records of deliveries, and watched wallets

    async def _renew_for_ever(self) -> None:
        while True:
            await self._sleep(_RENEW_SECONDS)
            try:
                await self._renew([each for each in self._subscriptions.values() if each.is_live])
                await self._log.watch(sorted(self.wallets()), self._clock.now())
            except SignalLogUnavailable as error:
                logger.warning("deliveries of signals are free for now: %s", error)

    async def _renew(self, subscriptions: list[SignalSubscription]) -> None:
        """Write ahead what live subscriptions may be charged for in the next seconds."""
        if subscriptions:
            await self._record(subscriptions, f"{await self._deliveries.now_ms() + LEASE_MS}-0")

    async def _record(self, subscriptions: list[SignalSubscription], until: str) -> None:
        """Only what a record covers is charged."""
        rows = [(each.pubkey, each.name, Delivered(each.filter, each.began_after, until)) for each in subscriptions]
        await self._deliveries.record(rows)
        for each in subscriptions:
            each.covered_until = until

    def wallets(self) -> frozenset[str]:
        """Return the wallets that somebody here watches."""
        named = [each.filter.wallets for each in self._subscriptions.values() if each.filter.wallets]
        return self.wallets_elsewhere().union(*named)
