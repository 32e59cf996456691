"""Remembers how far one feed of the Yellowstone stream is, to resume it without a repetition or a silent gap.

Implements: upstream loss is repaired by from_slot. A slot that is final has no more updates, so a feed resumes at the
first slot that is not, and leaves out what it has delivered already. Every slot that reaches the feed's level names
its parent; a parent that never came is a gap that the node did not declare. Pure.
"""

from actors.geyser_proto import geyser_pb2
from actors.streams.yellowstone.updates import SeenUpdate

MARKS_MAX = 500_000  # About 60 MB. Beyond that the oldest slots are forgotten, and cannot be resumed.
# A node may say that a slot is final just before it sends the last updates of that slot.
_RESUMED_BEHIND_FINAL = 1
_KEPT_BEHIND_FINAL = 8
_STATUS_OF_LEVEL: dict[int, int] = {
    geyser_pb2.PROCESSED: geyser_pb2.SLOT_PROCESSED,
    geyser_pb2.CONFIRMED: geyser_pb2.SLOT_CONFIRMED,
    geyser_pb2.FINALIZED: geyser_pb2.SLOT_FINALIZED,
}
# A slot has them in this order.
_LEVEL_STATUSES = (geyser_pb2.SLOT_PROCESSED, geyser_pb2.SLOT_CONFIRMED, geyser_pb2.SLOT_FINALIZED)
_BETWEEN_SLOTS = (geyser_pb2.SLOT_FIRST_SHRED_RECEIVED, geyser_pb2.SLOT_COMPLETED, geyser_pb2.SLOT_CREATED_BANK)


class Progress:
    """Belongs to one feed."""

    def __init__(self, level: int, marks_max: int = MARKS_MAX) -> None:
        self._status_of_level = _STATUS_OF_LEVEL[level]
        self._marks_max = marks_max
        self._marks: dict[int, set[int]] = {}  # By slot.
        self._count = 0
        # Replayed content from before the feed began is not delivered: the first slot with content, with each status.
        self._first_content: int | None = None
        self._first_with: dict[int, int] = {}
        self._highest_with: dict[int, int] = {}  # The highest slot with each status of a level, before it resumed.
        self._final: int | None = None
        self._doubted: int | None = None  # A parent that had not come when its child did.
        self._forgotten: int | None = None  # The highest slot whose marks were dropped before it was final.
        self.last_slot: int | None = None  # The highest slot of any update.

    def take(self, update: SeenUpdate, is_replay: bool) -> bool:
        """Count an update; False: it was delivered before, or is older than the feed."""
        slot, status = update.slot, update.status
        if is_replay and self._is_older(slot, status):
            return False
        marks = self._marks.get(slot)
        if marks is None:
            marks = self._marks[slot] = set()
        if update.mark in marks:
            return not is_replay  # The node itself sent it twice, as when a slot is replayed after a restart.
        marks.add(update.mark)
        self._count += 1
        if self.last_slot is None or slot > self.last_slot:
            self.last_slot = slot
        if status is None:
            if self._first_content is None or (slot < self._first_content and not is_replay):
                self._first_content = slot
        else:
            self._first_with.setdefault(status, slot)
            if not is_replay and status in _LEVEL_STATUSES:
                self._highest_with[status] = max(slot, self._highest_with.get(status, slot))
        if status == geyser_pb2.SLOT_FINALIZED and (self._final is None or slot > self._final):
            self._final = slot
            self._forget_below(slot - _KEPT_BEHIND_FINAL)
        if self._count > self._marks_max:
            self._forget_oldest()
        return True

    def lost_slot(self, update: SeenUpdate) -> int | None:
        """A slot that never reached the feed's level, although a child of it did and then another slot.

        A node may name a child just before its parent, so the next slot decides.
        """
        if update.status != self._status_of_level:
            return None
        lost, self._doubted = self._doubted, None
        if lost is not None and not self._has_reached(lost):
            return lost
        first, parent = self._first_with.get(self._status_of_level), update.parent
        if parent is not None and first is not None and parent >= first and not self._has_reached(parent):
            self._doubted = parent
        return None

    def _has_reached(self, slot: int) -> bool:
        if self._final is not None and slot < self._final - _KEPT_BEHIND_FINAL:
            return True  # Too old to decide.
        return hash(("slot", slot, self._status_of_level)) in self._marks.get(slot, ())

    @property
    def began(self) -> bool:
        """Return whether any update of a slot was seen; before that there is nothing to resume."""
        return self.last_slot is not None

    @property
    def resume_slot(self) -> int | None:
        """The first slot that may have updates that were not seen. None: too much was forgotten to resume."""
        slot = min(self._marks) if self._final is None else self._final - _RESUMED_BEHIND_FINAL
        if self._forgotten is not None and slot <= self._forgotten:
            return None
        return slot

    @property
    def last_whole_slot(self) -> int | None:
        """The last slot of which nothing can be missing: the last final one."""
        return self._final

    def _is_older(self, slot: int, status: int | None) -> bool:
        """Return whether the update is from before the feed began: the feed has seen nothing as old of its kind."""
        if status is not None and status in self._first_with:
            return slot < self._first_with[status]
        level = self._status_of_level
        if status is None:
            known = [one for one in (self._first_content, self._first_with.get(level)) if one is not None]
            if known:
                return slot < min(known)
        # Nothing of this kind was seen yet. What comes before a status that was seen is older than that.
        step = level if status is None else -1 if status in _BETWEEN_SLOTS else status
        return any(slot <= highest for above, highest in self._highest_with.items() if above > step)

    def _forget_below(self, slot: int) -> None:
        for old in [one for one in self._marks if one < slot]:
            self._count -= len(self._marks.pop(old))

    def _forget_oldest(self) -> None:
        slot = min(self._marks)
        if self._final is None or slot > self._final:
            self._forgotten = slot if self._forgotten is None else max(slot, self._forgotten)
        self._count -= len(self._marks.pop(slot))
