"""One client's part in a feed: gives the filters their names back, and passes updates on to the client's queue.

Implements: a request that replaces another takes over at one update, without a gap and without a repetition. Both
subscriptions see the same statuses of slots in the same order, so a status is the place: the old one sends up to it,
the new one from there. Where the new one is ahead, it keeps its updates until the old one is at a status that it has
seen; where the old one is ahead, it stops at its next status, and the new one drops its updates up to the same.
While past slots are replayed (yellowstone/replays.py), live ones are ignored, then kept, and at the end passed on
without what the replay has sent. Statuses are kept from the beginning: the feed may have the last status of an old slot
before the window that is replayed, and then no slot says that the replay has to wait for it. Synchronous; nothing is
awaited. Not here: the node's side (yellowstone/feed.py), gRPC (yellowstone/stream.py).
"""

from collections import OrderedDict
from collections.abc import Callable
from enum import Enum, auto

from actors.geyser_proto import geyser_pb2
from actors.streams.yellowstone import ends as geyser_ends
from actors.streams.yellowstone.ends import StreamEnd
from actors.streams.yellowstone.match import LEVEL_STATUSES
from actors.streams.yellowstone.outbox import GeyserOutbox
from actors.streams.yellowstone.requests import WATCH, WantedStream, header
from actors.streams.yellowstone.updates import SeenUpdate

# Of the headers that a reader keeps, with their names; one of 1,000 names is kept alone. A stream holds as many bytes
# of names as that one anyway.
_HEADS_BYTES_MAX = 16 * 1024
_NAME_BYTES = 64
_RECENT_STATUSES = 512  # More than any two streams of one node are apart.
_ONLY_WATCH = (WATCH,)
# Two nodes' streams are no further apart; then nothing that was replayed can come live any more.
_REPLAYED_BEHIND = 8


class _State(Enum):
    IGNORING = auto()  # A replay is far behind the present: only statuses are kept.
    DROPPING = auto()  # Before the status at which it takes over: the old reader has sent everything up to there.
    KEEPING = auto()  # Its charge is not posted yet, or the place at which it takes over is unknown.
    SENDING = auto()
    DONE = auto()


class _Replayed:
    """Updates that a replay has sent, which must not come again."""

    def __init__(self, from_slot: int) -> None:
        self.from_slot = from_slot
        self.slots: set[int] = set()
        self.statuses: set[tuple[int, int]] = set()
        self.last_slot = from_slot
        self.final_slot = from_slot

    def has(self, slot: int, status: int | None) -> bool:
        if status is not None:
            return (slot, status) in self.statuses
        return slot < self.from_slot or slot in self.slots


def _is_status(update: SeenUpdate | None) -> bool:
    return update is not None and update.status is not None


class GeyserReader:
    """Begins as KEEPING; with replays_from, a slot, as IGNORING. kept_bytes_max: of the updates that are kept; beyond
    that the stream ends.

    boundary: while a replay is near the present: the highest slot of which updates may have come before they were kept.
    None: not known yet.
    """

    def __init__(
        self, wanted: WantedStream, outbox: GeyserOutbox, kept_bytes_max: int, replays_from: int | None = None
    ) -> None:
        self.wanted, self._outbox, self._kept_bytes_max = wanted, outbox, kept_bytes_max
        self._heads: dict[tuple[str, ...], bytes] = {}
        self._heads_bytes = 0
        self._state = _State.KEEPING if replays_from is None else _State.IGNORING
        self._replayed = None if replays_from is None else _Replayed(replays_from)
        self._statuses_to_boundary = 0
        self._highest = 0  # Highest slot whose updates came.
        self.boundary: int | None = None
        self._kept: list[tuple[int | None, int | None, bytes, bytes]] = []
        self._kept_bytes = 0
        self._statuses: OrderedDict[int, None] = OrderedDict()  # Marks of the newest statuses.
        self._old: GeyserReader | None = None
        self._successor: GeyserReader | None = None
        self._places: dict[int, int] = {}  # While following: how many updates were kept before each status.
        self._stops_at_next = False  # The successor is behind: the next status is the place of takeover.
        self._begins_after: int | None = None
        self._feed_has_ended = False
        self.on_settled: Callable[[], None] | None = None  # Called once it sends, or never will.

    # --- called by the feed

    def take(self, names: tuple[str, ...], body: bytes, update: SeenUpdate | None) -> None:
        if self._state is _State.DONE:
            return
        # Statuses of the three levels alone: others come only to those who ask for them.
        status = update.mark if update is not None and update.status is not None and WATCH in names else None
        if self._replayed is not None and update is not None:
            self._look_for_boundary(update, WATCH in names)
        if self._state is _State.DROPPING:
            if status is not None and status == self._begins_after:
                self.release()
        elif names != _ONLY_WATCH and (self._state is not _State.IGNORING or _is_status(update)):
            self._pass_on(names, body, update)
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
        """Send the kept updates, and all later ones."""
        if self._state is not _State.DONE:
            self._state, self._old, self._places = _State.SENDING, None, {}
            kept = self._kept
            self._keep_nothing()
            for slot, status, head, body in kept:
                if self._replayed is None or slot is None or not self._replayed.has(slot, status):
                    self._outbox.put(slot, head, body)
        self._settled()

    def follow(self, old: "GeyserReader") -> None:
        """Take over from a reader of another feed that is sending."""
        if old._feed_has_ended or old.wanted.key is None or not old.is_sending:
            old.stop()
            self.release()
        else:
            self._old, old._successor = old, self

    def stop(self) -> None:
        self._state, self._old, self._successor = _State.DONE, None, None
        self._keep_nothing()
        self._settled()

    def _keep_nothing(self) -> None:
        size, self._kept, self._kept_bytes = self._kept_bytes, [], 0
        self._outbox.keep(-size)

    def _settled(self) -> None:
        on_settled, self.on_settled = self.on_settled, None
        if on_settled is not None:
            on_settled()

    @property
    def is_sending(self) -> bool:
        return self._state is _State.SENDING

    # --- replays

    def keep(self) -> None:
        """Keep updates from now on and find the boundary, because the replay is near the present."""
        if self._state is _State.DONE:
            return
        self._state = _State.KEEPING
        # At processed, slots of two forks may overlap: the first status may be of either.
        self._statuses_to_boundary = 2 if self.wanted.level == geyser_pb2.PROCESSED else 1

    def has_replayed(self, slot: int) -> bool:
        return self._replayed is not None and slot in self._replayed.slots

    def replays_slot(self, slot: int) -> None:
        """The replay sends this slot, so its live content is left out."""
        assert self._replayed is not None
        self._replayed.slots.add(slot)
        self._replayed.last_slot = max(slot, self._replayed.last_slot)

    def replay_status(self, slot: int, status: int, names: tuple[str, ...], body: bytes) -> None:
        assert self._replayed is not None
        self._replayed.statuses.add((slot, status))
        self._replayed.last_slot = max(slot, self._replayed.last_slot)
        if status == geyser_pb2.SLOT_FINALIZED:
            self._replayed.final_slot = max(slot, self._replayed.final_slot)
        if names:
            self.replay(slot, names, body)

    @property
    def replays_on_from(self) -> int | None:
        """The first slot of which the replay may not have sent all; None: nothing is replayed.

        As live, a slot is complete once a later one is final. Later slots may have been sent, too: what comes of an
        earlier one after them, above all that it is final, a replay from them would leave out.
        """
        return None if self._replayed is None else max(self._replayed.from_slot, self._replayed.final_slot - 1)

    def replay(self, slot: int, names: tuple[str, ...], body: bytes) -> None:
        """Send an update of a past slot. names: ours, of the filters."""
        if self._state is not _State.DONE:
            self._outbox.put(slot, self._head(names), body)

    def _look_for_boundary(self, update: SeenUpdate, is_watched: bool) -> None:
        level_status = LEVEL_STATUSES[self.wanted.level]
        if update.status is None or update.status == level_status:
            self._highest = max(self._highest, update.slot)
        if self._statuses_to_boundary and is_watched and update.status == level_status:
            self._statuses_to_boundary -= 1
            if not self._statuses_to_boundary:
                self.boundary = self._highest
        replayed = self._replayed
        assert replayed is not None
        is_new = self._state is _State.SENDING and update.status == geyser_pb2.SLOT_PROCESSED
        if is_new and update.slot > replayed.last_slot + _REPLAYED_BEHIND:
            self._replayed = None

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
        self._old, self._places = None, {}
        self._keep_nothing()

    def _hand_over(self, place: int) -> None:
        """End here; the successor sends its kept updates from this place on."""
        successor = self._successor
        self.stop()
        if successor is not None:
            del successor._kept[:place]
            successor.release()

    def _head(self, names: tuple[str, ...]) -> bytes:
        head = self._heads.get(names)
        if head is None:
            ours = self.wanted.names
            head = header(tuple(sorted(ours[name] for name in names if name != WATCH)))
            self._heads_bytes += len(head) + _NAME_BYTES * len(names)
            if self._heads_bytes > _HEADS_BYTES_MAX:
                self._heads.clear()
                self._heads_bytes = len(head) + _NAME_BYTES * len(names)
            self._heads[names] = head
        return head

    def _pass_on(self, names: tuple[str, ...], body: bytes, update: SeenUpdate | None) -> None:
        slot, status = (None, None) if update is None else (update.slot, update.status)
        head = self._head(names)
        if self._state is _State.SENDING:
            if self._replayed is None or slot is None or not self._replayed.has(slot, status):
                self._outbox.put(slot, head, body)
            return
        self._kept.append((slot, status, head, body))
        size = len(head) + len(body)
        self._kept_bytes += size
        if not self._outbox.keep(size):
            self.stop()
        elif self._kept_bytes > self._kept_bytes_max:
            self.stop()
            self._outbox.end(geyser_ends.TOO_MUCH_KEPT)
