"""GET /signals/history: starts exports, and makes the part of their answers before the first signal.

Implements: decisions, "history of signals". A shell; history_export.py sends and charges.

When full: above EXPORTS_MAX exports of a replica: 503, of one account above ACCOUNT_EXPORTS_MAX: 429, both free. All
exports of a replica share one process that encodes them.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

import orjson

from actors.clock import Clock
from actors.errors import Err, Refusal
from actors.metering.meters import Meters
from actors.metering.standing_watch import StandingWatch
from actors.methods.prices import HISTORY
from actors.pages import PageAnswer, PageRequest
from actors.side_process import ProcessLost, RequestFailed
from actors.signals.history import Archived, HistoryUnavailable
from actors.signals.history_export import (
    COMPLETE,
    CREDITS,
    EVENTS,
    NEWEST,
    SLICE_EVENTS_MAX,
    Export,
    ExportParts,
    RangeTold,
    price,
)
from actors.signals.history_formats import offered_types
from actors.signals.history_process import HistoryEncoding
from actors.signals.history_query import HistoryRequest, read_history
from actors.signals.history_rows import HistoryRange, HistoryRows
from actors.signals.log import SignalLog, SignalLogUnavailable, cursor_key
from actors.times import iso_ms

_BEGINNING_MAX = 64  # Includes those that wait for the archive, or only ask for the price: they have nothing in memory.
EXPORTS_MAX, ACCOUNT_EXPORTS_MAX = 8, 2  # Each has up to three slices in memory, of about 4 MB.
_ARCHIVE_WAITS, _ARCHIVE_SECONDS = 4, 0.5  # The archive copies the log once a second.
_SEQUENCE_MAX = (1 << 32) - 1
_AWAY = Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, "the history of signals cannot be read at the moment")
_FULL = Refusal(
    Err.SERVICE_TEMPORARILY_UNAVAILABLE, "too many exports of signals are under way here; nothing is charged"
)
_ACCOUNT_FULL = Refusal(
    Err.CONCURRENCY_LIMITED, f"an account may have {ACCOUNT_EXPORTS_MAX} exports of signals at once; nothing is charged"
)
# A client whose answer was cut knows by `cut` how many events more than it received may be charged: one slice, and what
# the buffers of the sockets on the way hold, of which 12 MB of JSON lines are assumed.
_PRICE = f"events={EVENTS}; cut={SLICE_EVENTS_MAX + 24_000}"


class SignalHistoryPage:
    """Belongs to one event loop."""

    def __init__(
        self,
        rows: HistoryRows,
        log: SignalLog,
        meters: Meters,
        watch: StandingWatch,
        clock: Clock,
        encoding: HistoryEncoding,
    ) -> None:
        self.rows, self._log, self.meters, self.clock, self._encoding = rows, log, meters, clock, encoding
        self._parts = ExportParts(rows, meters, watch, clock)
        self._types = offered_types()
        self.exports: Counter[bytes] = Counter()  # Includes those that begin, and those of HEAD.
        # For each export that is paid, or about to be, the function that ends it.
        self._sent: set[Callable[[], None]] = set()

    async def close(self) -> None:
        await self._encoding.close()

    async def answer(self, request: PageRequest) -> PageAnswer | Refusal:
        asked = read_history(request.query, request.headers, self._types, self.clock.now_ms())
        if isinstance(asked, Refusal):
            return asked
        credits = self.meters.prices_by(request.price_list).credits(HISTORY, CREDITS)
        if asked.credits_max is not None and asked.credits_max < credits:
            return _too_dear(credits, asked.credits_max)
        if self.exports[request.account] >= ACCOUNT_EXPORTS_MAX:
            return _ACCOUNT_FULL
        if len(self._sent) >= EXPORTS_MAX or self.exports.total() >= _BEGINNING_MAX:
            return _FULL
        leave = self._enter(request.account)
        try:
            answer = await self._begin(request, asked, leave)
        except (HistoryUnavailable, SignalLogUnavailable, ProcessLost, RequestFailed):
            answer = _AWAY
        except BaseException:
            leave()
            raise
        if isinstance(answer, Refusal) or request.is_head:
            leave()
        return answer

    def _enter(self, account: bytes) -> Callable[[], None]:
        """Count an export. Returns a function that ends the count once."""
        self.exports[account] += 1
        counted = [account]

        def leave() -> None:
            if counted:
                self.exports[counted.pop()] -= 1
                if not self.exports[account]:
                    del self.exports[account]
                self._sent.discard(leave)

        return leave

    async def _begin(
        self, request: PageRequest, asked: HistoryRequest, leave: Callable[[], None]
    ) -> PageAnswer | Refusal:
        archived, is_whole = await self._extent(asked.until_ms)
        kept = archived.kept_from_ms
        if asked.until_ms <= kept:
            return Refusal(Err.INVALID_REQUEST, f"signals before {iso_ms(kept)} are not kept any more")
        wanted = HistoryRange(
            asked.after, min(cursor_key(archived.cursor), (asked.until_ms - 1, _SEQUENCE_MAX)), asked.query
        )
        gaps = await self._gaps(asked, kept)
        headers = [("x-signals-from", iso_ms(kept)), ("x-signals-gaps", str(len(gaps))), ("cache-control", "no-store")]
        headers.append(("vary", "Accept"))
        headers.append(("content-disposition", f'attachment; filename="signals.{asked.format}"'))
        content_type = self._types[asked.format]
        if request.is_head:
            credits = self.meters.prices_by(request.price_list).credits(HISTORY, CREDITS)
            headers.append(("x-signals-price", f"credits={credits}; {_PRICE}"))
            events = await self.rows.estimate(wanted)
            headers += [
                ("x-signals-estimated", str(events)),
                ("x-credits-estimated", str(price(max(events, 1), credits))),
            ]
            return PageAnswer(_Body(_nothing(), leave), 200, content_type, headers)
        if len(self._sent) >= EXPORTS_MAX:
            return _FULL
        self._sent.add(leave)
        encoder = await self._encoding.open(asked.format)  # Before the hold, which expires soon.
        try:
            charge = await self.meters.hold(request.payer, HISTORY, CREDITS)
        except BaseException:
            encoder.close()
            raise
        if isinstance(charge, Refusal):
            encoder.close()
            return charge
        credits = charge.settle.ceiling
        if asked.credits_max is not None and asked.credits_max < credits:  # The prices have just changed.
            encoder.close()
            await self.meters.release(charge)
            return _too_dear(credits, asked.credits_max)
        headers.append(("x-signals-price", f"credits={credits}; {_PRICE}"))
        export = Export(self._parts, request, asked, wanted, encoder, charge, RangeTold(_whole(is_whole), kept, gaps))

        def end() -> None:
            export.end()
            leave()

        return PageAnswer(_Body(export.pieces(), end), 200, content_type, headers)

    async def _extent(self, until_ms: int) -> tuple[Archived, bool]:
        """Return the state of the history, and whether it is complete up to this time. Waits briefly for entries that
        only the log has."""
        now_ms, waits = self.clock.now_ms(), 0
        while True:
            archived = await self.rows.extent()
            newer = await self._log.read(archived.cursor, 1)
            is_there = not newer or cursor_key(newer[0].cursor)[0] >= until_ms
            if is_there or waits == _ARCHIVE_WAITS:
                return archived, is_there and until_ms <= now_ms
            waits += 1
            await asyncio.sleep(_ARCHIVE_SECONDS)

    async def _gaps(self, asked: HistoryRequest, kept_from_ms: int) -> list[dict[str, Any]]:
        begins_ms = asked.after[0] + 1 if asked.after[1] == _SEQUENCE_MAX else asked.after[0]
        found: list[dict[str, Any]] = []
        if 0 < begins_ms < kept_from_ms:
            found.append({"from": iso_ms(begins_ms), "to": iso_ms(kept_from_ms), "reason": "not kept any more"})
        return found + [orjson.loads(gap) for gap in await self.rows.gaps(begins_ms, asked.until_ms)]


class _Body(AsyncGenerator[bytes, None]):
    """The pieces of an answer, and cleanup at its end even if no piece was read: a generator that never began runs
    nothing when closed."""

    def __init__(self, pieces: AsyncGenerator[bytes, None], on_end: Callable[[], None]) -> None:
        self._pieces, self._on_end = pieces, on_end

    def asend(self, value: None) -> Coroutine[Any, Any, bytes]:
        return self._pieces.asend(value)

    def athrow(self, *error: Any) -> Coroutine[Any, Any, bytes]:
        return self._pieces.athrow(*error)

    async def aclose(self) -> None:
        try:
            await self._pieces.aclose()
        finally:
            self._on_end()


def _too_dear(credits: int, allowed: int) -> Refusal:
    return Refusal(Err.MAX_CREDITS_EXCEEDED, f"{credits} credits at least, and {allowed} are allowed")


def _whole(is_whole: bool) -> str:
    return COMPLETE if is_whole else NEWEST


async def _nothing() -> AsyncGenerator[bytes, None]:
    """The body of a HEAD."""
    for piece in tuple[bytes, ...]():
        yield piece
