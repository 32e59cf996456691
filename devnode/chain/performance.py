"""Throughput samples, one a minute.

Implements: getRecentPerformanceSamples. Pure: time arrives as monotonic seconds. Samples live in memory only.
"""

from collections import deque
from dataclasses import dataclass, field

SAMPLE_SECONDS = 60
SAMPLES_KEPT = 720


@dataclass(frozen=True, slots=True)
class Sample:
    slot: int
    slots: int
    transactions: int
    period_seconds: int


@dataclass(slots=True)
class PerformanceSampler:
    _samples: deque[Sample] = field(default_factory=lambda: deque(maxlen=SAMPLES_KEPT))
    _started: float | None = None
    _slots: int = 0
    _transactions: int = 0

    def observe(self, slot: int, transactions: int, now_seconds: float) -> None:
        """Count a block that was sealed at this monotonic time."""
        if self._started is None:
            self._started = now_seconds
        self._slots += 1
        self._transactions += transactions
        elapsed = now_seconds - self._started
        if elapsed >= SAMPLE_SECONDS:
            self._samples.append(Sample(slot, self._slots, self._transactions, round(elapsed)))
            self._started, self._slots, self._transactions = now_seconds, 0, 0

    def recent(self, limit: int) -> list[Sample]:
        """Newest first."""
        return list(self._samples)[::-1][:limit]
