"""One subscriber's place in the log: delivered events and charges.

Implements: interface, "Signal billing"; threats 30 and 32. Reads no store: hub.py feeds it.
Nothing is queued for a subscriber: its place is a number in the ring, or a page of older entries. Events that its
client does not take now stay there.
"""

import asyncio
import secrets
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Protocol

from actors.signals.deliveries import Delivered
from actors.signals.filters import SignalFilter
from actors.signals.log import NO_CURSOR, cursor_key
from actors.signals.ring import SharedEntry, SignalRing

# Charged entries that a record may cover before the client has them; about the price of two connections.
AHEAD_MAX = 10
REPLAY_MAX = 100  # Entries from the stores in memory for a subscriber that is behind.
_LOOKED_AT_MAX = 500
_NEVER = cursor_key(NO_CURSOR)


class SignalSink(Protocol):
    """Where the signals of one subscription go."""

    def deliver(self, body: bytes, charged: bool) -> bool:
        """Take one signal as JSON. False: not now; SignalSubscription.resume must follow."""
        ...


class SignalSubscription:
    """One subscriber's place in the log. Made by SignalHub.subscribe; end it with SignalHub.unsubscribe.

    on_short: called when the next entry costs something that no record covers; SignalSubscription.cover must follow.
    """

    def __init__(
        self,
        pubkey: bytes,
        wanted: SignalFilter,
        sink: SignalSink,
        after: str,
        ring: SignalRing,
        on_short: Callable[["SignalSubscription"], None],
    ) -> None:
        self.pubkey, self.filter, self._sink, self._ring, self._on_short = pubkey, wanted, sink, ring, on_short
        self.name = secrets.token_hex(8)
        self.began_after = self.position = after
        self.earlier: tuple[Delivered, ...] = ()  # Earlier records of the account.
        self.earlier_until = _NEVER  # The log's newest entry at the time of those records.
        self.is_live = False  # True: its record runs ahead of the clock, so it gets new events at once.
        self.has_begun = self.is_over = False
        self._covered_until = _NEVER  # Up to this cursor the stored record covers it.
        # Its place in the ring. None: it has not begun, or its place is older than the ring.
        self._number: int | None = None
        self._page: deque[SharedEntry] = deque()
        self._drained = asyncio.Event()
        self.task: asyncio.Task[None] | None = None  # Task that feeds it from the stores.

    # --- feeding

    def follow_ring(self, number: int) -> None:
        """Continue with this entry of the ring."""
        self._number = number
        self.resume()

    def give(self, page: Iterable[SharedEntry]) -> None:
        """Continue with entries that are older than the ring."""
        self._page.extend(page)
        self.resume()

    async def drained(self) -> None:
        """Wait until all given entries are delivered."""
        while self._page:
            self._drained.clear()
            await self._drained.wait()

    def resume(self) -> None:
        """Deliver entries as far as the sink takes them and records cover them."""
        if self.is_over or not self.has_begun:
            return
        if self._page:
            while self._page and self._deliver(self._page[0]):
                self._page.popleft()
            if self._page:
                return
            self._drained.set()
        number, ring = self._number, self._ring
        if number is None:
            return
        if number < ring.first:  # The client took nothing for so long that the ring has dropped its place.
            self._number = None
            self._on_short(self)
            return
        following = ring.following
        while number < following and self._deliver(ring.at(number)):
            number += 1
            self._number = number
        left = following - number
        if self.is_live and left > AHEAD_MAX:
            self.is_live = False
            self._on_short(self)
        elif not self.is_live and not left:  # The replay has caught up.
            self._on_short(self)

    def _deliver(self, told: SharedEntry) -> bool:
        event = told.event
        if event is None or self.filter.matches(event):
            charged = told.is_first and self.may_be_charged(told)
            if charged and told.key > self._covered_until:
                if not self.is_live:
                    self._on_short(self)
                    return False
                charged = False  # Records cannot be written now, so a replay could bill it again.
            if not self._sink.deliver(told.body, charged):
                return False
        self.position = told.cursor
        return True

    @property
    def is_behind_ring(self) -> bool:
        return self._number is None

    @property
    def has_page(self) -> bool:
        return bool(self._page)

    # --- charging

    def may_be_charged(self, told: SharedEntry) -> bool:
        """Return whether it costs something once the record covers it."""
        if not told.is_first or told.event is None:
            return False
        if told.key > self.earlier_until:
            return True
        return not any(record.covers(told.cursor, told.event) for record in self.earlier)

    def wanted_cover(self) -> str | None:
        """Return the cursor up to which a record should reach now: a few charged entries ahead. None: it has caught
        up, and its record may run ahead of the clock."""
        charged, cursor = 0, self.position
        for told in islice(self._ahead(), _LOOKED_AT_MAX):
            cursor = told.cursor
            if told.event is not None and self.filter.matches(told.event):
                charged += self.may_be_charged(told)
            if charged == AHEAD_MAX:
                return cursor
        has_more = self._number is None or self._ring.following - self._number > _LOOKED_AT_MAX
        return cursor if self._page or has_more else None

    def _ahead(self) -> Iterator[SharedEntry]:
        yield from self._page
        if self._number is not None:
            for number in range(max(self._number, self._ring.first), self._ring.following):
                yield self._ring.at(number)

    def cover(self, until: str, is_live: bool) -> None:
        """A record now reaches up to this cursor: deliver the entries that it covers."""
        self._covered_until, self.is_live = cursor_key(until), is_live
        self.resume()
