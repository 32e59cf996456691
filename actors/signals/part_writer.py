"""Writes the signals of one part into the log: what may be written, how far the part has come, and under which claim.

Implements: decisions, "one signal", "cursors and gaps". A shell; held_events.py says what has to wait for other parts.

Every write moves the position, so that whoever is killed next resumes where the log ends. With several parts, a part
tells once a slot how far it is, and its position together with that: one command of Redis a slot for each part.

When full: from HELD_MAX signals on that wait for other parts, is_full tells the reader to read nothing more.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from actors.signals.events import SignalEvent
from actors.signals.held_events import NO_OTHERS, HeldEvents
from actors.signals.log import LogEntry, SignalGap, SignalLog
from actors.signals.positions import Claim

HELD_MAX = 10_000
# Between two questions how far the other parts are. After each that brought nothing the next one comes after twice the
# time, up to eight times: it costs this process and Redis half a millisecond each, and where another part is seconds
# behind there would be a hundred a second.
_HELD_SECONDS, _DOUBLED_MAX = 0.01, 3
_WRITTEN_AT_ONCE = 500  # Redis runs one script for them, and nothing else meanwhile.


class PartWriter:
    """position: of the newest write. final: up to here the chain does not change, as its source tells; 0: not known."""

    def __init__(self, log: SignalLog, claim: Claim, written: "deque[LogEntry]") -> None:
        """written: called with the entries that were written."""
        self._log, self.claim, self._written = log, claim, written
        self.position = self.final = claim.position
        self.count = 0  # Number of new signals.
        self._is_one = claim.division.parts == 1
        self._held, self._others_reached = HeldEvents(), NO_OTHERS if self._is_one else 0
        self._in_vain = 0  # Reads in a row that found no progress.
        self._read = self._reached = 0  # The newest slot read, and the one reported to the others.

    @property
    def held(self) -> int:
        return len(self._held)

    @property
    def pause_seconds(self) -> float:
        """Return how long to wait before `write` is called again only for held signals."""
        return float(_HELD_SECONDS * 2 ** min(self._in_vain, _DOUBLED_MAX))

    @property
    def is_full(self) -> bool:
        return len(self._held) >= HELD_MAX

    def begin_now(self) -> None:
        """Forget the position, because it is lost."""
        self.position = self.final = 0

    def has_read(self, slot: int) -> None:
        """Record that the source has reached this slot, and will send nothing of earlier slots."""
        self.final = self.final or max(0, slot - 1)  # A new log begins here, even if this process is killed next.
        self._read = max(self._read, slot)

    def add(self, events: Sequence[SignalEvent]) -> None:
        self._held.add(events)

    async def write(self) -> None:
        """Write all signals that no other part can precede, and this part's progress. Raises what SignalLog.append
        raises."""
        is_asked = False
        while True:
            events = self._held.take(self._others_reached, _WRITTEN_AT_ONCE)
            position = max(self.position, self._held.position(self.final))
            reached = self._held.reached(self._read)
            if self._is_one:
                has_news = position > self.position
            else:
                has_news = reached > self._reached or (position > 0 and not self.position)
            if not (events or has_news or (self._held and not is_asked)):
                return
            found = await self._log.append(self.claim, position, reached, events)
            is_asked, self._others_reached = True, found.others_reached
            self._note(
                [LogEntry(each, "event", event) for each, event in zip(found.cursors, events, strict=True) if each]
            )
            self.position, self._reached = position, max(reached, self._reached)
            self._move(position)
            self._in_vain = 0 if events else self._in_vain + 1
            if not self._held.may_go_on(self._others_reached):
                return
            self._in_vain = 0

    def _note(self, fresh: Sequence[LogEntry]) -> None:
        self._written.extend(fresh)
        self.count += len(fresh)

    def _move(self, position: int) -> None:
        self.claim = replace(self.claim, position=max(self.claim.position, position))

    async def correct(self, lost_slot: int, events: Sequence[SignalEvent]) -> int:
        """Take back signals of a slot that a fork lost. Returns the number of corrections."""
        self._held.drop(lost_slot)
        return len(await self._log.correct(self.claim, lost_slot, events))

    async def report_gap(self, gap: SignalGap) -> None:
        await self._log.report_gap(self.claim, gap)
        self._move(gap.to_slot)
