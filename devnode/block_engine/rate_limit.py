"""The rate limit of the block engine.

Implements: so many requests a second for each client, counted in a bucket that is full at first. A client is its
key (x-jito-auth, or uuid in the query) or, without one, its address.
Pure: times are arguments. Not here: the limit's setting (faults/plan.py), the answer to a refused call (endpoints.py).
"""

from dataclasses import dataclass, field

CLIENTS_MAX = 10_000  # In memory; above it those with a full bucket are forgotten.


@dataclass(slots=True)
class RateLimit:
    _used: dict[str, tuple[float, float]] = field(default_factory=dict)  # By client: requests used, and when.

    def allows(self, client: str, per_second: int, now_seconds: float) -> bool:
        """Whether the client may make one more request now; counts it if so."""
        used, at_seconds = self._used.get(client, (0.0, now_seconds))
        left = max(0.0, used - (now_seconds - at_seconds) * per_second)
        if left + 1 > per_second:
            return False
        if len(self._used) >= CLIENTS_MAX:
            self._forget_idle(per_second, now_seconds)
        self._used[client] = (left + 1, now_seconds)
        return True

    def _forget_idle(self, per_second: int, now_seconds: float) -> None:
        self._used = {
            client: (used, at_seconds)
            for client, (used, at_seconds) in self._used.items()
            if used > (now_seconds - at_seconds) * per_second
        }
