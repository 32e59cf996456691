"""Broadcasts a race over all legs at once, and stores the report of each leg.

Implements: interface, sendAndConfirm ("Legs"); decisions, `getSignatureStatus` (`legs`).
The shell: core.py decides when a race broadcasts, and actor.py has stored that before it comes here.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from actors.clock import Clock
from actors.methods.signed_transactions import SignedTransaction
from actors.ownership.api import SliceLost
from actors.sends.core import Race
from actors.sends.fault_switch import Reached
from actors.sends.legs import Leg, Submission
from actors.sends.statistics import LandingStatistics
from actors.sends.store import LegReport, RaceStore, RacesUnavailable
from actors.telemetry.metrics import Metrics
from actors.units import base58_text
from actors.upstream.signature_status import SignatureStatus

logger = logging.getLogger(__name__)

# Unstored broadcasts; above this number the oldest are lost, which only leaves a gap in the timeline of a race.
_UNSTORED_MAX = 5_000


@dataclass(slots=True)
class RunningRace:
    """A race whose window is open. reports: a leg that is under way has no end yet. done: set when the outcome is known
    or the window is over; callers wait for it. sent_here: a leg has taken it since this process drives the race.
    moved: another racer goes on with it."""

    race: Race
    transaction: SignedTransaction
    reports: list[LegReport] = field(default_factory=list)
    seen: SignatureStatus | None = None
    sent_here: bool = False
    moved: bool = False
    ticked: asyncio.Event = field(default_factory=asyncio.Event)
    done: asyncio.Event = field(default_factory=asyncio.Event)
    _sending: set["asyncio.Task[None]"] = field(default_factory=set)

    def sends(self, broadcast: "asyncio.Task[None]") -> None:
        """Keep a running broadcast referenced until it has ended."""
        self._sending.add(broadcast)
        broadcast.add_done_callback(self._sending.discard)

    async def quiet(self) -> None:
        """Wait until no broadcast is running."""
        if self._sending:
            await asyncio.wait(self._sending)


class Broadcasts:
    """reached: called at each step (fault_switch.py)."""

    def __init__(
        self,
        legs: Sequence[Leg],
        store: RaceStore,
        clock: Clock,
        statistics: LandingStatistics,
        metrics: Metrics,
        reached: Reached,
    ) -> None:
        self._legs, self._store, self._clock = legs, store, clock
        self._statistics, self._metrics, self._reached = statistics, metrics, reached
        self._unstored: deque[tuple[bytes, Sequence[LegReport]]] = deque(maxlen=_UNSTORED_MAX)

    async def send(self, running: RunningRace, number: int) -> None:
        """Send over all legs that take it; return when the last has answered and the reports are stored."""
        legs = [leg for leg in self._legs if leg.takes(running.transaction)]
        reports = await asyncio.gather(*(self._send(leg, running, number) for leg in legs))
        self._reached("broadcast")
        try:
            await self._store.report(running.race.signature, reports)
        except RacesUnavailable as error:
            name = base58_text(running.race.signature)
            logger.warning("reports of the legs for %s are not stored yet: %s", name, error)
            self._unstored.append((running.race.signature, reports))
        except SliceLost:
            _drop(running.race.signature)
        self._reached("reported")

    async def store_again(self) -> None:
        """Store the reports that the store did not accept. Raises RacesUnavailable."""
        while self._unstored:
            signature, reports = self._unstored.popleft()
            try:
                await self._store.report(signature, reports)
            except RacesUnavailable:
                self._unstored.appendleft((signature, reports))
                raise
            except SliceLost:
                _drop(signature)

    async def _send(self, leg: Leg, running: RunningRace, number: int) -> LegReport:
        place = len(running.reports)
        running.reports.append(LegReport(number, leg.name, self._clock.now_ms()))
        self._reached(f"leg:{leg.name}")
        try:
            done = await leg.send(running.transaction)
        except Exception as error:  # A bug in one leg must not end the others.
            logger.exception("the leg %s failed", leg.name)
            done = Submission(None, None, type(error).__name__)
        said = done.error.replace("\0", "")  # The text comes from the other side; PostgreSQL accepts no NUL.
        report = LegReport(number, leg.name, done.submitted_ms, done.acknowledged_ms, said, done.refused)
        running.reports[place] = report
        if report.sent:
            running.sent_here = True
            if not running.race.sent:
                running.race = replace(running.race, sent=True)
        self._statistics.leg_reported(self._clock.now_ms(), leg.name, done.submitted_ms, done.acknowledged_ms)
        self._metrics.send_legs.add((leg.name, report.result))
        return report


def _drop(signature: bytes) -> None:
    """Drop reports of a race that moved to another racer, which never gets them: it does not charge for them."""
    logger.warning("reports of the legs for %s are lost: another racer has its race", base58_text(signature))
