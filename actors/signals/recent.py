"""GET /signals/recent: a free snapshot of the newest signals, or a page after a cursor.

Implements: interface, "Public endpoints"; decisions, `GET /signals/recent`. Answers come from the memory of the hub and
are cached, so that many callers cost little. A removed signal is not shown; a moved one has its new slot.

When full: above SEARCHES_MAX requests for entries that are not in memory: 503. Beyond CACHED_BYTES_MAX the oldest
answers are forgotten. A cached answer is good until the next signal, and for a quarter of a second at least, so only
questions that many ask are found again: most are the same one. The bytes hold 16 of the largest answers (500 signals of
about 500 bytes), or 160 of the default 50 signals.
"""

import asyncio
import itertools
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import orjson

from actors.clock import Clock
from actors.errors import Err, Refusal
from actors.pages import PageAnswer, PageRequest
from actors.signals.filters import SignalFilter, WantedSignals, read_query
from actors.signals.hub import AWAY, SignalHub
from actors.signals.log import LogEntry
from actors.signals.replays import ReplayPage, Replays

LIMIT_DEFAULT, LIMIT_MAX = 50, 500
# Of one client address, at each replica. A question that no answer is kept for can search the whole ring, which takes
# milliseconds; a client that fills a gap needs a few answers of 500 signals.
MINUTE_MAX = 300
CACHED_BYTES_MAX = 4 << 20
_ENTRY_BYTES = 500  # Memory of the objects of one cached answer, in addition to its texts.
_CACHED_SECONDS = 0.25
_PAGES_MAX = 10  # Pages of the log that one request may search.
_LIMIT = re.compile(r"[1-9][0-9]{0,2}")
_PAGE_SECONDS = 0.05  # Pause between two pages read from the stores, for all requests together.
SEARCHES_MAX = 50  # Concurrent requests of one process for entries older than those in memory.
_BUSY = Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, "too many searches for older signals are under way")
_AWAY = Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, "signals cannot be read at the moment")
_BAD_LIMIT = Refusal(Err.INVALID_REQUEST, f"limit: wanted a whole number from 1 to {LIMIT_MAX}")


class _TooManySearches(Exception):
    pass


class RecentSignals:
    def __init__(
        self,
        hub: SignalHub,
        replays: Replays,
        clock: Clock,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._hub, self._replays, self._clock = hub, replays, clock
        self._cached: OrderedDict[tuple[tuple[str, str], ...], tuple[float, int, bytes]] = OrderedDict()
        self.cached_bytes = 0
        self._turn, self._sleep, self._searches = asyncio.Lock(), sleep, 0

    async def answer(self, request: PageRequest) -> PageAnswer | Refusal:
        key = tuple(sorted(request.query.items()))
        now, version = self._clock.monotonic(), self._hub.version
        found = self._cached.get(key)
        if found is not None and (found[1] == version or now < found[0]):
            return PageAnswer(found[2])
        body = await self._body(request.query)
        if isinstance(body, Refusal):
            return body
        self._keep(key, (now + _CACHED_SECONDS, version, body))
        return PageAnswer(body)

    def _keep(self, key: tuple[tuple[str, str], ...], kept: tuple[float, int, bytes]) -> None:
        before = self._cached.pop(key, None)
        if before is not None:
            self.cached_bytes -= _bytes_of(key, before[2])
        self._cached[key] = kept
        self.cached_bytes += _bytes_of(key, kept[2])
        while self.cached_bytes > CACHED_BYTES_MAX:
            oldest, (_, _, body) = self._cached.popitem(last=False)
            self.cached_bytes -= _bytes_of(oldest, body)

    async def _body(self, query: Mapping[str, str]) -> bytes | Refusal:
        limit_text = query.get("limit", str(LIMIT_DEFAULT))
        if not (_LIMIT.fullmatch(limit_text) and int(limit_text) <= LIMIT_MAX):
            return _BAD_LIMIT
        wanted = read_query(query, ["limit"])
        if isinstance(wanted, Refusal):
            return wanted
        if wanted.since is None:
            events = list(itertools.islice(self._newest(wanted.filter), int(limit_text)))
            return _document(events, self._hub.last)
        try:
            return _document(*await self._after(wanted, wanted.since, int(limit_text)))
        except _TooManySearches:
            return _BUSY
        except AWAY:
            return _AWAY

    def _newest(self, wanted: SignalFilter) -> Iterable[dict[str, Any]]:
        """Yield signals of the ring, newest first."""
        corrected: dict[tuple[str, str, str], LogEntry] = {}
        for entry in self._replays.ring.newest_first():
            event = entry.event
            if event is None:
                continue
            later = corrected.get(event.identity)
            if entry.change in ("removed", "moved"):
                corrected.setdefault(event.identity, entry)
            elif later is None or later.change == "moved":
                shown = event if later is None or later.event is None else later.event
                if wanted.matches(shown):
                    yield shown.body() | {"cursor": entry.cursor}
                corrected.setdefault(event.identity, entry)

    async def _page(self, since: str) -> ReplayPage:
        """Return entries after a cursor.

        Entries not in memory are read for one request at a time, with pauses: these requests are free, and a page costs
        the stores and this process tens of milliseconds."""
        if self._replays.ring.number_after(since) is not None:
            return await self._replays.after(since, LIMIT_MAX)
        if self._searches >= SEARCHES_MAX:
            raise _TooManySearches
        self._searches += 1
        try:
            async with self._turn:
                page = await self._replays.after(since, LIMIT_MAX)
                await self._sleep(_PAGE_SECONDS)
        finally:
            self._searches -= 1
        return page

    async def _after(self, wanted: WantedSignals, since: str, limit: int) -> tuple[list[dict[str, Any]], str]:
        """Return signals after a cursor, oldest first, and the next cursor."""
        kept: dict[tuple[str, str, str], dict[str, Any]] = {}
        for _ in range(_PAGES_MAX):
            page = await self._page(since)
            for entry in page.entries:
                since = entry.cursor
                event = entry.event
                if event is None or not wanted.filter.matches(event):
                    continue
                if entry.change == "removed":
                    kept.pop(event.identity, None)
                elif entry.change == "moved" and event.identity in kept:
                    kept[event.identity]["slot"] = event.slot
                else:
                    kept[event.identity] = event.body() | {"cursor": entry.cursor}
                if len(kept) == limit:
                    return list(kept.values()), since
            if not page.entries:
                break
        return list(kept.values()), since


def _bytes_of(key: tuple[tuple[str, str], ...], body: bytes) -> int:
    return _ENTRY_BYTES + len(body) + sum(len(name) + len(value) for name, value in key)


def _document(events: list[dict[str, Any]], next_cursor: str) -> bytes:
    return orjson.dumps({"ok": True, "events": events, "next_cursor": next_cursor})
