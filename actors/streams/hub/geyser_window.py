"""The newest slots of the Yellowstone stream: their whole blocks, and the statuses of their slots in the node's order.

Implements: from_slot, from a window that is bounded by slots and by bytes and never hides a hole: a slot that became
final and whose block did not come ends the window there, and older slots are dropped. Pure.
Not here: where updates come from (window_source.py), filters (yellowstone/match.py), replays (yellowstone/replays.py).
"""

import itertools
from collections import deque
from collections.abc import Iterator

from actors.geyser_proto import geyser_pb2
from actors.streams.api import WindowEntry


class GeyserWindow:
    """begins_at: all updates of slots from here on will come; None: what comes first may be in the middle of a slot."""

    def __init__(self, slots_max: int, bytes_max: int, begins_at: int | None) -> None:
        self._slots_max, self._bytes_max = slots_max, bytes_max
        self._begins_at = begins_at
        self._entries: deque[WindowEntry] = deque()
        self._blocks: dict[int, bytes] = {}
        self._bytes = 0
        self.last_slot = 0
        self.newest = 0  # Number of the newest entry.
        self.dropped = 0  # Number of the newest entry that was dropped.

    @property
    def first_slot(self) -> int | None:
        """The first slot of which everything is here; None: nothing is."""
        if self._begins_at is None or self.last_slot < self._begins_at:
            return None
        return self._begins_at

    def add_status(self, slot: int, status: int, body: bytes) -> None:
        """Take a status of a slot. body: its update, without names of filters."""
        self.last_slot = max(self.last_slot, slot)
        if self._begins_at is None:
            if status == geyser_pb2.SLOT_PROCESSED:
                # Slots above this one only begin now, so all of their updates are still to come.
                self._begins_at = self.last_slot + 1
            return
        if slot < self._begins_at:
            return
        if status == geyser_pb2.SLOT_FINALIZED and slot not in self._blocks:
            self._drop_up_to(slot)
            return
        self._add(slot, status, body)

    def add_block(self, slot: int, body: bytes) -> None:
        """Add the whole block of a slot; a repeated block changes nothing."""
        self.last_slot = max(self.last_slot, slot)
        if self._begins_at is None or slot < self._begins_at or slot in self._blocks:
            return
        self._blocks[slot] = body
        self._bytes += len(body)
        self._add(slot, None, b"")
        while self._blocks and (len(self._blocks) > self._slots_max or self._bytes > self._bytes_max):
            self._drop_up_to(min(self._blocks))

    def after(self, number: int, from_slot: int, every_after: int, most: int) -> list[WindowEntry]:
        """The entries after this number, of slots from from_slot on; after every_after, of all slots."""
        return list(itertools.islice(self._wanted(number, from_slot, every_after), most))

    def block(self, slot: int) -> bytes | None:
        return self._blocks.get(slot)

    def _wanted(self, number: int, from_slot: int, every_after: int) -> Iterator[WindowEntry]:
        # Numbers rise by one, and entries leave only at the old end.
        skipped = 0 if not self._entries else max(0, number + 1 - self._entries[0].number)
        for entry in itertools.islice(self._entries, skipped, None):
            if entry.slot >= from_slot or entry.number > every_after:
                yield entry

    def _add(self, slot: int, status: int | None, body: bytes) -> None:
        self.newest += 1
        self._bytes += len(body)
        self._entries.append(WindowEntry(self.newest, slot, status, body))

    def _drop_up_to(self, slot: int) -> None:
        """Drop this slot and all below it."""
        self._begins_at = slot + 1
        for old in [one for one in self._blocks if one <= slot]:
            self._bytes -= len(self._blocks.pop(old))
        while self._entries and self._entries[0].slot <= slot:
            gone = self._entries.popleft()
            self._bytes -= len(gone.body)
            self.dropped = gone.number
