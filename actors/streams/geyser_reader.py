"""One client's part in a feed: gives the filters their names back, and passes updates on to the client's queue.

Implements: a request that replaces another takes over at one update, without a gap and without a repetition. Both
subscriptions see the same statuses of slots in the same order, so a status is the place: the old one sends up to it,
the new one from there. Where the new one is ahead, it keeps its updates until the old one is at a status that it has
seen; where the old one is ahead, it stops at its next status, and the new one drops its updates up to the same.
Synchronous; nothing is awaited. Not here: the node's side (geyser_feed.py), gRPC (geyser_stream.py).
"""

from collections import OrderedDict
from collections.abc import Callable
from enum import Enum, auto

from actors.streams import geyser_ends
from actors.streams.geyser_ends import StreamEnd
from actors.streams.geyser_outbox import GeyserOutbox
from actors.streams.geyser_requests import WATCH, WantedStream, header
from actors.streams.geyser_updates import SeenUpdate

_RECENT_STATUSES = 512  # More than any two streams of one node are apart.
_ONLY_WATCH = (WATCH,)


class _State(Enum):
    DROPPING = auto()  # Before the status at which it takes over; the old reader has sent all up to there.
    KEEPING = auto()  # Its charge is not posted yet, or the place at which it takes over is not known yet.
    SENDING = auto()
    DONE = auto()


class GeyserReader:
    """Begins as KEEPING. kept_bytes_max: of the updates that are kept; beyond that the stream ends."""

    def __init__(self, wanted: WantedStream, outbox: GeyserOutbox, kept_bytes_max: int) -> None:
        self.wanted, self._outbox, self._kept_bytes_max = wanted, outbox, kept_bytes_max
        self._heads: dict[tuple[str, ...], bytes] = {}
        self._state = _State.KEEPING
        self._kept: list[tuple[int | None, bytes, bytes]] = []
        self._kept_bytes = 0
        self._statuses: OrderedDict[int, None] = OrderedDict()  # Marks of the newest statuses.
        self._old: GeyserReader | None = None
        self._successor: GeyserReader | None = None
        self._places: dict[int, int] = {}  # While it follows: how many updates were kept before each status.
        self._stops_at_next = False  # The successor is behind: the next status is the place.
        self._begins_after: int | None = None
        self._feed_has_ended = False
        self.on_settled: Callable[[], None] | None = None  # Called once it sends, or never will.

    # --- called by the feed

    def take(self, names: tuple[str, ...], body: bytes, update: SeenUpdate | None) -> None:
        if self._state is _State.DONE:
            return
        # Statuses of the three levels alone: others come only to those who ask for them.
        status = update.mark if update is not None and update.status is not None and WATCH in names else None
        if self._state is _State.DROPPING:
            if status is not None and status == self._begins_after:
                self.release()
        elif names != _ONLY_WATCH:
            self._pass_on(names, body, None if update is None else update.slot)
        if status is not None:
            self._remember(status)

    def feed_ended(self, end: StreamEnd) -> None:
        self._feed_has_ended = True
        if self._successor is not None:
            common = [place for status, place in self._successor._places.items() if status in self._statuses]
            self._hand_over(max(common, default=0))  # It will never reach another common status.
        elif self._state is not _State.DONE:
            self._outbox.end(end)

    # --- called by the stream

    def release(self) -> None:
        """Send what was kept, and everything that comes."""
        if self._state is not _State.DONE:
            self._state, self._old, self._places = _State.SENDING, None, {}
            for slot, head, body in self._kept:
                self._outbox.put(slot, head, body)
            self._kept, self._kept_bytes = [], 0
        self._settled()

    def follow(self, old: "GeyserReader") -> None:
        """Take over from a reader of another feed that is sending."""
        if old._feed_has_ended or old.wanted.key is None:
            old.stop()
            self.release()
        else:
            self._old, old._successor = old, self

    def stop(self) -> None:
        self._state, self._old, self._successor = _State.DONE, None, None
        self._kept, self._kept_bytes = [], 0
        self._settled()

    def _settled(self) -> None:
        on_settled, self.on_settled = self.on_settled, None
        if on_settled is not None:
            on_settled()

    @property
    def is_sending(self) -> bool:
        return self._state is _State.SENDING

    # --- taking over

    def _remember(self, status: int) -> None:
        self._statuses[status] = None
        if len(self._statuses) > _RECENT_STATUSES:
            self._statuses.popitem(last=False)
        if self._old is not None:
            self._places[status] = len(self._kept)
            if status in self._old._statuses:
                self._old._stops_at_next = True
        successor = self._successor
        if successor is not None:
            place = successor._places.get(status)
            if place is not None:
                self._hand_over(place)
            elif self._stops_at_next:
                self._successor = None
                self.stop()
                successor._begin_after(status)

    def _begin_after(self, status: int) -> None:
        self._state, self._begins_after = _State.DROPPING, status
        self._old, self._places, self._kept, self._kept_bytes = None, {}, [], 0

    def _hand_over(self, place: int) -> None:
        """End here; the successor sends what it kept from this place on."""
        successor = self._successor
        self.stop()
        if successor is not None:
            del successor._kept[:place]
            successor.release()

    def _pass_on(self, names: tuple[str, ...], body: bytes, slot: int | None) -> None:
        head = self._heads.get(names)
        if head is None:
            ours = self.wanted.names
            head = self._heads[names] = header(tuple(sorted(ours[name] for name in names if name != WATCH)))
        if self._state is _State.SENDING:
            self._outbox.put(slot, head, body)
            return
        self._kept.append((slot, head, body))
        self._kept_bytes += len(head) + len(body)
        if self._kept_bytes > self._kept_bytes_max:
            self.stop()
            self._outbox.end(geyser_ends.TOO_MUCH_KEPT)
