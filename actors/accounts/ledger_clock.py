"""The clock of an account owner: its process's clocks, and the database's time as its answers tell it.

Implements: threat 53. A shell: it reads clocks and keeps the decision of ledger_time.py.
Everything in this context takes its time from here. Reading it costs one read of the monotonic clock and an addition.
"""

import logging

from actors.accounts.account import Moment
from actors.accounts.ledger_time import Clocks, after_answer, agreed_ms, doubt
from actors.clock import Clock
from actors.units import UnixMillis, UnixSeconds

logger = logging.getLogger(__name__)

# An answer with the same offset, to this many milliseconds, is processed once in this many: every commit brings an
# answer. A clock that was set is noticed with the next answer all the same.
_SAME_MS = 100
_LOOK_MS = 1_000


class LedgerClock:
    """A Clock whose wall time is the ledger's time. Until the database has answered, it is this process's wall
    clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.monotonic = clock.monotonic  # Bound once, because every call reads it.
        self._clocks: Clocks | None = None
        self._ahead_ms = clock.now_ms() - self._steady_ms()
        self._doubt: str | None = None
        self._look_at_ms = 0

    def now(self) -> UnixSeconds:
        return UnixSeconds(self.now_ms() // 1000)

    def now_ms(self) -> UnixMillis:
        return UnixMillis(self._steady_ms() + self._ahead_ms)

    def moment(self) -> Moment:
        """Return both times of one moment, from one read of the monotonic clock."""
        steady = self.monotonic()
        return Moment(int(steady * 1000 + 0.5) + self._ahead_ms, int(steady))

    def answered(self, database_ms: int, asked: float) -> None:
        """Record the time in an answer of the database that arrived now. asked: the monotonic clock at the request."""
        steady_ms, before = self._steady_ms(), self._clocks
        is_recent = before is not None and steady_ms < self._look_at_ms
        if is_recent and abs(database_ms - steady_ms - before.database_ms) < _SAME_MS:  # type: ignore[union-attr]
            return
        self._look_at_ms = steady_ms + _LOOK_MS
        self._clocks = after_answer(before, database_ms, self._clock.now_ms(), int(asked * 1000), steady_ms)
        self._ahead_ms = self._clocks.ledger_ms
        self._look()

    def agreed_ms(self) -> int | None:
        """Return the time for acts that cannot be undone; None while the clocks do not agree on one."""
        self._look()
        return agreed_ms(self._clocks, self._clock.now_ms(), self._steady_ms())

    @property
    def doubt(self) -> str | None:
        """Return why the clocks are in doubt, or None."""
        self._look()
        return self._doubt

    def _look(self) -> None:
        before, self._doubt = self._doubt, doubt(self._clocks, self._clock.now_ms(), self._steady_ms())
        if self._doubt is not None and before is None:
            logger.error("nothing expires for now: %s", self._doubt)
        elif self._doubt is None and before is not None:
            logger.warning("the clocks agree again; credits expire as before")

    def _steady_ms(self) -> int:
        return int(self.monotonic() * 1000 + 0.5)
