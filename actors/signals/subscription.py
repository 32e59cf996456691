"""One subscriber's place in the log: what it got, what waits for it, and what it is charged for.

Implements: interface, "Signal billing"; hostile inputs 30 and 32. Reads no store: hub.py feeds it.
"""

import asyncio
import secrets
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Protocol

from actors.signals.deliveries import Delivered
from actors.signals.filters import SignalFilter
from actors.signals.log import NO_CURSOR, LogEntry, is_after

QUEUE_MAX = 10  # Entries that wait for a live subscriber; with more it is behind. About what two connections cost.
REPLAY_MAX = 100  # Entries that wait for one that is behind; of them at most QUEUE_MAX are charged.


class SignalSink(Protocol):
    """Where the signals of one subscription go."""

    def deliver(self, body: bytes, charged: bool) -> bool:
        """Take one signal as JSON. False: not now; SignalSubscription.resume must follow."""
        ...


class SignalSubscription:
    """One subscriber's place in the log. Made by SignalHub.subscribe; end it with SignalHub.unsubscribe."""

    def __init__(self, pubkey: bytes, wanted: SignalFilter, sink: SignalSink, after: str) -> None:
        self.pubkey, self.filter, self._sink = pubkey, wanted, sink
        self.name = secrets.token_hex(8)
        self.began_after = self.position = after
        self.covered_until = NO_CURSOR  # By the record in the store.
        self.earlier: tuple[Delivered, ...] = ()  # Records of the account from before.
        self.earlier_until = NO_CURSOR  # The newest entry of the log at the time of those records.
        self.is_live = False
        self._queue: deque[tuple[bytes, bool, str]] = deque()  # Body, whether it is charged, its cursor.
        self._delivered = after
        self._drained = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    def take(self, entry: LogEntry, body: bytes) -> None:
        """Take the next entry of the log."""
        self.position = entry.cursor
        if self.wants(entry):
            self._queue.append((body, self.is_charged(entry), entry.cursor))
            self.resume()

    def wants(self, entry: LogEntry) -> bool:
        return entry.event is None or self.filter.matches(entry.event)

    def is_charged(self, entry: LogEntry) -> bool:
        return self.may_be_charged(entry) and not is_after(entry.cursor, self.covered_until)

    def may_be_charged(self, entry: LogEntry) -> bool:
        """Whether it costs something once the record covers it."""
        if not entry.is_charged or entry.event is None:
            return False
        if is_after(entry.cursor, self.earlier_until):
            return True
        return not any(record.covers(entry.cursor, entry.event) for record in self.earlier)

    def notice(self, body: bytes) -> None:
        """Queue a gap notice."""
        self._queue.append((body, False, self.position))
        self.resume()

    def resume(self) -> None:
        """Deliver what is queued, as far as the sink takes it."""
        while self._queue:
            body, charged, cursor = self._queue[0]
            if not self._sink.deliver(body, charged):
                return
            self._delivered = cursor
            self._queue.popleft()
        self._drained.set()

    @property
    def waiting(self) -> int:
        return len(self._queue)

    @property
    def came_to(self) -> str:
        """The cursor up to which everything was delivered."""
        return self._delivered if self._queue else self.position

    async def drained(self) -> None:
        while self._queue:
            self._drained.clear()
            await self._drained.wait()


def parts(subscription: SignalSubscription, entries: Sequence[LogEntry]) -> Iterator[list[LogEntry]]:
    """Cut a page into parts, so that few entries wait at any time, and few charged ones."""
    part: list[LogEntry] = []
    wanted = charged = 0
    for entry in entries:
        part.append(entry)
        if subscription.wants(entry):
            wanted, charged = wanted + 1, charged + subscription.may_be_charged(entry)
        if wanted == REPLAY_MAX or charged == QUEUE_MAX:
            yield part
            part, wanted, charged = [], 0, 0
    if part:
        yield part
