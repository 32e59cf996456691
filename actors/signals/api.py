"""Reading the log of signals from a cursor, for other contexts: webhooks are fed by it.

Implements: decisions, "cursors and gaps", "one signal", "watched wallets". The wiring opens a SignalReader
(launch/assembly/signalling.py) and hands it over as a port. It holds no place of its own: the caller keeps the cursor,
and reads again from the same one after a failure.

What the caller may rely on:
- Pages are in the order of the log, and each has at most as many signals as asked for. Memory is bounded by that.
- A signal comes once with `is_first`. Its corrections (a fork lost it) come later, with the same `cause`.
- What no store has any more is told once, in `gaps`: the JSON that subscribers get. Nothing else is missing.
- A cursor is never behind the one asked with, also where the page is empty.
"""

import logging
import math
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from actors import hosting
from actors.actor_client import ActorClient
from actors.background import Background
from actors.signals.hub import AWAY
from actors.signals.log import LogEntry, SignalLog, SignalLogUnavailable, cursor_key
from actors.signals.replays import Replays
from actors.signals.ring import body_of_entry, gap_of_the_stores

__all__ = ["AWAY", "Classifiers", "LoggedSignal", "SignalPage", "SignalReader"]

logger = logging.getLogger(__name__)

ACTOR_PREFIX = "signal-classifier-"  # Followed by the number of the classifier's part.
WAIT_MS_MAX = 4_000
_DIVISION_SECONDS = 2.0  # Interval of reading the number of classifiers.
_SOURCE_AWAY_SECONDS = 4.0  # A change of the source takes less. Below the interval of a classifier's health checks.


class LoggedSignal(NamedTuple):
    """One entry of the log that is about a signal.

    cause: unique for ever, and the same for a signal and its corrections. at_ms: Unix milliseconds at which the log got
    it. lamports: the size of a largeSwap. body: the signal as JSON, as subscribers get it.
    is_first: the first report, which may be billed; otherwise a
    correction: its `correction` in the body is removed, moved or restored.
    """

    cursor: str
    cause: str
    kind: str
    mint: str | None
    program: str
    accounts: tuple[str, ...]
    wallets: tuple[str, ...]
    at_ms: int
    body: bytes
    is_first: bool
    lamports: int | None = None


class SignalPage(NamedTuple):
    """cursor: go on after it. gaps: notices as JSON, {"gap": {from_cursor, to_cursor, from_slot, to_slot, reason}}, of
    what was lost before or among the signals of this page."""

    signals: Sequence[LoggedSignal]
    cursor: str
    gaps: Sequence[bytes] = ()


class SignalReader:
    """One reader of the log."""

    def __init__(self, log: SignalLog, replays: Replays) -> None:
        self._log, self._replays = log, replays

    async def newest(self) -> str:
        """Return a cursor after which only later signals come. Raises one of AWAY."""
        return await self._replays.newest()

    async def read(self, after_cursor: str, count: int, wait_ms: int = 0) -> SignalPage:
        """Return at most so many entries after a cursor, oldest first.

        wait_ms: how long to wait where there are none, at most WAIT_MS_MAX. after_cursor: "0-0" is the oldest entry
        that is kept. Raises one of AWAY (the stores did not answer); nothing is lost by reading again.
        """
        page = await self._replays.after(after_cursor, count)
        gaps, entries, cursor = list[bytes](), page.entries, after_cursor
        if page.lost_until is not None:
            gaps.append(gap_of_the_stores(after_cursor, page.lost_until))
            cursor = max(cursor, page.lost_until, key=cursor_key)
        if not entries and not gaps and wait_ms:
            entries = await self._log.read(cursor, count, min(wait_ms, WAIT_MS_MAX))
        gaps += [body_of_entry(entry) for entry in entries if entry.gap is not None]
        if entries:
            cursor = max(cursor, entries[-1].cursor, key=cursor_key)
        return SignalPage([logged for entry in entries if (logged := _logged(entry)) is not None], cursor, gaps)

    async def watch(self, wallets: Collection[str], now: int) -> None:
        """Have the activity of these wallets reported for the next minute; call it again before that is over.

        now: Unix seconds. Raises one of AWAY.
        """
        await self._log.watch(sorted(wallets), now, for_webhooks=True)


class Classifiers:
    """The classifiers as a replica holds them: it asks each for its health. The log says how many there are."""

    def __init__(self, log: SignalLog) -> None:
        self._log = log
        self._classifiers: list[ActorClient] = []
        self._background = Background(logger, "looking for the classifiers failed")

    async def start(self) -> None:
        await self.look()
        self._background.repeat(self.look, _DIVISION_SECONDS)

    async def stop(self) -> None:
        await self._background.stop()
        for classifier in self._classifiers:
            await classifier.stop()

    async def look(self) -> None:
        """Update the number of classifiers; it stays the same while the log is unavailable."""
        try:
            division = await self._log.division()
        except SignalLogUnavailable:
            division = None
        parts = max(1, len(self._classifiers)) if division is None else division.parts
        while len(self._classifiers) > parts:
            await self._classifiers.pop().stop()
        for part in range(len(self._classifiers), parts):
            classifier = ActorClient(hosting.Reference(f"{ACTOR_PREFIX}{part}"))
            classifier.start()
            self._classifiers.append(classifier)

    def sources(self) -> dict[str, Any]:
        """Return the signals part of GET /health.

        source: `blocks` where one classifier polls; `none` where one has no source. lag_slots: of the slowest; None:
        unknown. gap: the newest that a classifier reported since its start, if any."""
        states = [classifier.state for classifier in self._classifiers]
        names = {str(state.get("source", "none")) for state in states}
        lags = [state.get("lag_slots") for state in states]
        gaps = [gap for state in states if (gap := state.get("gap")) is not None]
        found = {
            "source": next(name for name in ("none", "blocks", "yellowstone") if name in names),
            "lag_slots": None if None in lags else max(int(lag) for lag in lags if lag is not None),
        }
        return found | ({"gap": max(gaps, key=lambda gap: gap["to_slot"])} if gaps else {})

    @property
    def are_read(self) -> bool:
        """Return whether every classifier has a source; one that is starting or changing its source counts as having
        one."""
        return all(
            classifier.is_starting or classifier.state.get("source_away_seconds", math.inf) < _SOURCE_AWAY_SECONDS
            for classifier in self._classifiers
        )


def _logged(entry: LogEntry) -> LoggedSignal | None:
    event = entry.event
    if event is None:
        return None
    return LoggedSignal(
        *(entry.cursor, "signal:" + ":".join(event.identity), event.kind, event.mint, event.program, event.accounts),
        *(event.wallets, cursor_key(entry.cursor)[0], body_of_entry(entry), entry.change == "event"),
        event.lamports,
    )
