"""GET /signals/history: the signals of a time, streamed in slices, each paid for before it is sent.

Implements: decisions, "history of signals"; money rule 10. A shell over history_rows.py, history_slices.py,
history_process.py.

A slice is fetched, read, held, encoded and sent, then posted; meanwhile the next one is read and the one after it is
fetched, so that at most three are in memory. A client that leaves in the middle of a slice pays for it if any piece of
it was given to the connection; else its hold is released. Slices grow, and are the smallest for a client that is slow.

A client that does not take a slice within SLICE_SECONDS_MAX is cut off. So are all clients where the process that
encodes is killed; slices that were not sent are free.
"""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import AsyncGenerator, Sequence
from typing import Any, NamedTuple

from actors.clock import Clock
from actors.errors import Err, Refusal
from actors.metering.meters import HeldCharge, Meters
from actors.metering.standing_watch import StandingWatch
from actors.methods.prices import HISTORY, STREAMS
from actors.pages import PageRequest
from actors.side_process import ProcessLost, RequestFailed
from actors.signals.history import HistoryUnavailable
from actors.signals.history_process import HistoryEncoder
from actors.signals.history_query import Cursor, HistoryRequest
from actors.signals.history_rows import HistoryRange, HistoryRows
from actors.signals.history_slices import last_place
from actors.times import iso_ms

logger = logging.getLogger(__name__)

CREDITS = STREAMS["signals"]["history_credits"]  # Price of each started EVENTS.
EVENTS = STREAMS["signals"]["history_events"]
SLICE_EVENTS_MAX = 8 * EVENTS
# Together with the gateway's 30 seconds for one piece, less than the shortest life of a hold, 55 seconds.
SLICE_SECONDS_MAX = 20.0
_SLOW_SECONDS = 2.0
_TOO_DEAR = Refusal(Err.MAX_CREDITS_EXCEEDED)
_LACKS = frozenset((Err.INSUFFICIENT_CREDITS, Err.KEY_BUDGET_EXCEEDED, Err.HOURLY_LIMIT_EXCEEDED))
COMPLETE, NEWEST, _CAPPED, _UNAVAILABLE = "complete", "newest", "max_credits", "unavailable"


class ExportParts(NamedTuple):
    """Objects shared by all exports of a replica."""

    rows: HistoryRows
    meters: Meters
    watch: StandingWatch
    clock: Clock


class _Slice(NamedTuple):
    """number: by which the encoder knows it. events: how many. place: of its last entry. end: why nothing follows, of a
    slice without events; else empty."""

    number: int
    events: int
    place: Cursor
    end: str


_Slices = asyncio.Queue[_Slice | asyncio.Task[_Slice] | HistoryUnavailable]


class RangeTold(NamedTuple):
    """End of an answer: what it says of its range. whole: the reason of an end that nothing cut short."""

    whole: str
    kept_from_ms: int
    gaps: list[dict[str, Any]]


class Export:
    """One answer. The charge of the first EVENTS is held when it is made."""

    def __init__(
        self,
        parts: ExportParts,
        request: PageRequest,
        asked: HistoryRequest,
        wanted: HistoryRange,
        encoder: HistoryEncoder,
        charge: HeldCharge,
        told: RangeTold,
    ) -> None:
        self._parts, self._meters, self._encoder, self._wanted = parts, parts.meters, encoder, wanted
        self._payer, self._proof, self._told = request.payer, request.proof or request.payer, told
        self._charge: HeldCharge | None = charge  # Charge of the slice being sent.
        self._given = False  # True once the connection was given any of that slice.
        # Thousands held or paid for, events delivered, credits charged.
        self._thousands, self._events, self._credits = 1, 0, 0
        self._credits_max = asked.credits_max
        self._events_max = None if asked.credits_max is None else asked.credits_max // charge.settle.ceiling * EVENTS
        self._place = wanted.after
        self._ended: Refusal | None = None
        self._size_max = SLICE_EVENTS_MAX
        self._slices: _Slices = asyncio.Queue(1)
        self._reading: asyncio.Task[None] | None = None
        self._readings, self._numbers = 0, itertools.count(1)
        self._preparing: set[asyncio.Task[_Slice]] = set()

    # --- what is paid

    async def _hold(self, events: int) -> Refusal | None:
        """Hold the cost of a slice that brings the export to this many events."""
        more = -(-events // EVENTS) - self._thousands
        if more <= 0:
            return None
        charge = await self._meters.hold(self._payer, HISTORY, CREDITS, takes_rate_unit=False, pieces=more)
        if isinstance(charge, Refusal):
            return charge
        if self._credits_max is not None and self._credits + charge.settle.ceiling > self._credits_max:
            await self._meters.release(charge)  # The account's prices rose in the meantime.
            return _TOO_DEAR
        self._charge, self._thousands = charge, self._thousands + more
        return None

    async def _post(self) -> None:
        """Post the held charge, even if the client leaves meanwhile."""
        charge, self._charge, self._given = self._charge, None, False
        if charge is None:
            return
        posted: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._meters.run(self._posted(charge, posted))
        if await posted:
            self._credits += charge.settle.charged

    async def _posted(self, charge: HeldCharge, posted: asyncio.Future[bool]) -> None:
        is_charged = await self._meters.post(charge)
        if not posted.done():
            posted.set_result(is_charged)

    def end(self) -> None:
        """Settle the slice in which the answer ended. Repeating it changes nothing."""
        charge, self._charge = self._charge, None
        if charge is not None:
            self._meters.run(self._settled(charge))
        self._stop_reading()
        self._encoder.close()
        self._parts.watch.leave(self._proof, self._payer, self)

    async def _settled(self, charge: HeldCharge) -> None:
        if self._given:
            await self._meters.post(charge)
        else:
            await self._meters.release(charge)

    def _may_not_go_on(self, refusal: Refusal) -> None:
        """Ignore the watch, which ends streams with few credits: here the next hold does, and no sooner."""
        if refusal.err not in _LACKS:
            self._ended = refusal

    # --- what is read

    def _start_reading(self, most: int | None) -> None:
        """Continue reading after the delivered part. most: events still allowed; None: no limit."""
        self._stop_reading()
        self._slices = asyncio.Queue(1)
        self._readings += 1
        self._reading = asyncio.create_task(self._read(self._place, most, self._slices))

    def _stop_reading(self) -> None:
        for task in (self._reading, *self._preparing):
            if task is not None:
                task.cancel()
        self._preparing.clear()

    async def _read(self, place: Cursor, most: int | None, slices: "_Slices") -> None:
        """Fetch a slice while the previous one is prepared and the one before is sent."""
        size = EVENTS
        try:
            while most is None or most > 0:
                count = size if most is None else min(size, most)
                lines = await self._parts.rows.slice(self._wanted._replace(after=place), count)
                if not lines:
                    await slices.put(_Slice(0, 0, self._wanted.last, self._told.whole))
                    return
                first_ms, *last = last_place(lines)
                place = last[0], last[1]
                prepared = asyncio.create_task(self._prepare(first_ms, place, lines))
                self._preparing.add(prepared)
                await slices.put(prepared)
                size = min(2 * size, self._size_max)
                most = None if most is None else most - count
            await slices.put(_Slice(0, 0, place, _CAPPED))
        except HistoryUnavailable as error:
            await slices.put(error)

    async def _prepare(self, first_ms: int, place: Cursor, lines: Sequence[bytes]) -> _Slice:
        corrections = await self._parts.rows.corrections(first_ms, place[0], self._wanted.query)
        number = next(self._numbers)
        events = await self._encoder.prepare(self._readings, number, lines, corrections)
        return _Slice(number, events, place, "")

    async def _next(self) -> _Slice:
        """Raises HistoryUnavailable, RequestFailed and ProcessLost."""
        found = await self._slices.get()
        if isinstance(found, HistoryUnavailable):
            raise found
        if isinstance(found, _Slice):
            return found
        self._preparing.discard(found)
        return await found

    # --- what is sent

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        self._parts.watch.join(self._proof, self._payer, self, self._may_not_go_on)
        if self._encoder.head:
            yield self._encoder.head
        self._start_reading(self._left())
        reason = ""
        while not reason:
            try:
                found = await self._next()
            except (HistoryUnavailable, RequestFailed) as error:
                logger.warning("an export of signals ends early: %s %s", type(error).__name__, error)
                reason = _UNAVAILABLE
                break
            except ProcessLost:
                return  # No end line, as after any cut: only the lost process had the earlier part.
            refusal = self._ended or await self._hold(self._events + found.events)
            if refusal is not None and refusal.err in _LACKS and self._size_max > EVENTS:
                self._go_on_in_smallest()  # The last credits may still pay for a slice of the smallest size.
                continue
            if refusal is not None:
                # Its owner moves: clients can continue later.
                is_away = refusal.err is Err.SERVICE_TEMPORARILY_UNAVAILABLE
                reason = _UNAVAILABLE if is_away else refusal.err.name.lower()
                if refusal is _TOO_DEAR:
                    reason = _CAPPED
                break
            began = self._parts.clock.monotonic()
            pieces = await self._written(found)
            written = self._parts.clock.monotonic()
            if pieces is None or written - began > SLICE_SECONDS_MAX:
                return  # The slice is free.
            for piece in pieces:
                self._given = True
                yield piece
                # If the socket takes everything at once, nothing waits, so a slice would block the event loop and hide
                # a disconnect.
                await asyncio.sleep(0)
                if self._parts.clock.monotonic() - began > SLICE_SECONDS_MAX:
                    return  # No end line, as after any cut.
            if found.events:
                await self._post()
            self._events, self._place, reason = self._events + found.events, found.place, found.end
            if reason == _CAPPED and self._left():  # Corrections removed part of the fetched rows.
                reason = ""
                self._start_reading(self._left())
            elif self._size_max > EVENTS and self._parts.clock.monotonic() - written > _SLOW_SECONDS and not reason:
                self._go_on_in_smallest()
        if reason != _UNAVAILABLE:
            self._given = True
            await self._post()  # The minimum price of an answer without signals.
        with contextlib.suppress(RequestFailed, ProcessLost):
            yield await self._encoder.end(self._end(reason))

    async def _written(self, found: _Slice) -> list[bytes] | None:
        """Return the pieces of a slice; None: they are lost."""
        try:
            return await self._encoder.write(found.number) if found.events else []
        except (RequestFailed, ProcessLost):
            return None

    def _left(self) -> int | None:
        return None if self._events_max is None else self._events_max - self._events

    def _go_on_in_smallest(self) -> None:
        self._size_max = EVENTS
        self._start_reading(self._left())

    def _end(self, reason: str) -> dict[str, Any]:
        return {
            "reason": reason,
            "cursor": f"{self._place[0]}-{self._place[1]}",
            "events": self._events,
            "credits": self._credits,
            "kept_from": iso_ms(self._told.kept_from_ms),
            "gaps": self._told.gaps,
        }


def price(events: int, credits: int = CREDITS) -> int:
    """Return the price of this many events; an export costs at least its first started EVENTS. credits: of each of
    these."""
    return max(1, -(-events // EVENTS)) * credits
