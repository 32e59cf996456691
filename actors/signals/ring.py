"""The newest entries of the log in memory, each written as JSON once for all subscribers.

Pure. Entries have consecutive numbers, so that a subscriber's place is one integer, and there is no queue for each.
"""

from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

import orjson

from actors.signals.log import NO_CURSOR, LogEntry, cursor_key

RING_MAX = 20_000


class SharedEntry:
    """One entry of the log as subscribers get it. event: None for a gap. key: by which its cursor is compared."""

    __slots__ = ("_body", "cursor", "entry", "event", "is_first", "key")

    def __init__(self, entry: LogEntry, body: bytes | None = None) -> None:
        self.entry, self.cursor, self.event, self.is_first = entry, entry.cursor, entry.event, entry.is_charged
        self.key = cursor_key(entry.cursor)
        self._body = body

    @property
    def body(self) -> bytes:
        if self._body is None:
            self._body = body_of_entry(self.entry)
        return self._body


def body_of_entry(entry: LogEntry) -> bytes:
    """Return what clients get of an entry, as JSON: the signal and its cursor, or a gap."""
    if entry.gap is not None:
        slots = {"from_slot": entry.gap.from_slot, "to_slot": entry.gap.to_slot, "reason": entry.gap.reason}
        return orjson.dumps({"gap": {"from_cursor": entry.cursor, "to_cursor": entry.cursor, **slots}})
    assert entry.event is not None
    fields: dict[str, Any] = entry.event.body() | {"cursor": entry.cursor}
    if entry.change != "event":
        fields["correction"] = entry.change
    return orjson.dumps(fields)


def gap_of_the_stores(from_cursor: str, to_cursor: str) -> bytes:
    reason = "these signals are older than what is kept"
    gap = {"from_cursor": from_cursor, "to_cursor": to_cursor, "from_slot": None, "to_slot": None, "reason": reason}
    return orjson.dumps({"gap": gap})


class SignalRing:
    """Has every entry after `floor` and up to `last`."""

    def __init__(self, entries_max: int = RING_MAX) -> None:
        self._entries_max = entries_max
        self._told: list[SharedEntry] = []
        self._reported: set[tuple[str, str, str]] = set()
        self._first = 0  # Number of the first entry here.
        self.floor = self.last = NO_CURSOR
        self._floor_key = self._last_key = cursor_key(NO_CURSOR)

    def begin_after(self, floor: str, *, is_end: bool) -> None:
        """Set the cursor after which every entry will be here. is_end: no entry up to it will come."""
        assert not self._told
        self.floor, self._floor_key = floor, cursor_key(floor)
        if is_end:
            self.last, self._last_key = floor, self._floor_key

    def append(self, entry: LogEntry) -> None:
        """Add the next entry of the log.

        Ignores an entry that is not after the last one, and a repeated first report of a signal: after a loss the log
        has it under another cursor."""
        told = SharedEntry(entry)
        if told.key <= self._last_key:
            return
        self.last, self._last_key = told.cursor, told.key
        if told.is_first and told.event is not None:
            if told.event.identity in self._reported:
                return
            self._reported.add(told.event.identity)
        self._told.append(told)
        if len(self._told) > self._entries_max + self._entries_max // 8:  # Seldom, because it moves all entries.
            dropped = len(self._told) - self._entries_max
            self.floor, self._floor_key = self._told[dropped - 1].cursor, self._told[dropped - 1].key
            self._reported -= {each.event.identity for each in self._told[:dropped] if each.event is not None}
            del self._told[:dropped]
            self._first += dropped

    @property
    def following(self) -> int:
        """Return the number of the next entry, which grows with every entry."""
        return self._first + len(self._told)

    @property
    def first(self) -> int:
        return self._first

    def at(self, number: int) -> SharedEntry:
        return self._told[number - self._first]

    def number_after(self, cursor: str) -> int | None:
        """Return the number of the first entry after a cursor. None: entries after it are not here any more."""
        key = cursor_key(cursor)
        if key < self._floor_key:
            return None
        return self._first + bisect_right(self._told, key, key=_key)

    def newest_first(self) -> Iterator[LogEntry]:
        return (told.entry for told in reversed(self._told))


def _key(told: SharedEntry) -> tuple[int, int]:
    return told.key
