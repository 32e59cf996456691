"""A circuit breaker for one node and one class of methods, by the outcomes of its recent calls.

Implements: node pool (circuit breaker per node and method class).
Pure: milliseconds of a monotonic clock arrive as arguments. pool.py decides which answers are failures.

| From      | To        | When                                                                                |
|-----------|-----------|-------------------------------------------------------------------------------------|
| closed    | open      | 5 of the last 20 calls failed, and at least half of the recorded calls              |
| open      | half-open | the open time is over (doubled each time in a row, to 30 s), or the node came back  |
| half-open | closed    | the one trial call succeeds; the recorded outcomes are cleared                      |
| half-open | open      | the trial call fails                                                                |

An outcome counts only in the phase in which its call began: calls in flight at a transition cannot cause another one.
"""

from dataclasses import dataclass
from enum import Enum, unique

RECORDED = 20
FAILURES_MIN = 5  # One or two lost connections are a restart, not a failing node.
OPEN_MS_MAX = 30_000
_ALL = (1 << RECORDED) - 1


@unique
class Phase(Enum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


@dataclass(slots=True)
class Breaker:
    open_ms: int  # The length of the first open phase.
    phase: Phase = Phase.CLOSED
    failures: int = 0  # One bit for each call, the newest lowest.
    seen: int = 0
    opened_in_a_row: int = 0
    open_until_ms: int = 0
    generation: int = 0  # Of the phase; a call's ticket is the generation in which it began.
    trying: bool = False

    def admits(self, now_ms: int) -> bool:
        """Return whether a call may begin now. Moves from open to half-open when the open time is over."""
        if self.phase is Phase.CLOSED:
            return True
        if self.phase is Phase.OPEN:
            if now_ms < self.open_until_ms:
                return False
            self._enter(Phase.HALF_OPEN)
        return not self.trying

    def begin(self) -> int:
        """Begin a call, admitted or for lack of another node. Returns the ticket for ended() or abandoned()."""
        if self.phase is Phase.HALF_OPEN:
            self.trying = True
        return self.generation

    def ended(self, ticket: int, good: bool, now_ms: int) -> None:
        if ticket != self.generation or self.phase is Phase.OPEN:
            return
        if self.phase is Phase.HALF_OPEN:
            if good:
                self.opened_in_a_row = 0
                self._enter(Phase.CLOSED)
            else:
                self._open(now_ms)
            return
        self.failures = ((self.failures << 1) | (not good)) & _ALL
        self.seen = min(self.seen + 1, RECORDED)
        failed = self.failures.bit_count()
        if not good and failed >= FAILURES_MIN and failed * 2 >= self.seen:
            self._open(now_ms)

    def abandoned(self, ticket: int) -> None:
        """Record that the caller left: the call does not count, and another one may be tried."""
        if ticket == self.generation:
            self.trying = False

    def node_is_back(self) -> None:
        """Move to half-open early, because the node's probes succeed again."""
        if self.phase is Phase.OPEN:
            self._enter(Phase.HALF_OPEN)

    def _open(self, now_ms: int) -> None:
        length = min(self.open_ms << min(self.opened_in_a_row, 16), max(self.open_ms, OPEN_MS_MAX))
        self.opened_in_a_row += 1
        self.open_until_ms = now_ms + length
        self._enter(Phase.OPEN)

    def _enter(self, phase: Phase) -> None:
        self.phase = phase
        self.generation += 1
        self.failures = self.seen = 0
        self.trying = False
