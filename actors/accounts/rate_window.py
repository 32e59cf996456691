"""The window of a rate limit: requests per second, in fixed windows of one second.

Implements: decisions, "rate limit shape". Pure.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class Window:
    """The last second with an admitted item, and its units.

    Only admitted items take a unit, so that a client without credits always gets 402, never 429. Concurrency slots are
    live holds of calls, counted by core.py.
    """

    second: int = 0
    used: int = 0

    def left(self, second: int, limit: int) -> int:
        """Return the units left in the window of this Unix second.

        Any second other than the last one is a fresh window, even an earlier one: a clock that was set back must not
        lock an account out."""
        return max(0, limit - self.used) if second == self.second else limit

    def take(self, second: int, units: int) -> None:
        if second == self.second:
            self.used += units
        else:
            self.second, self.used = second, units


def reset_at(second: int) -> int:
    """Return the Unix second in which the window ends."""
    return second + 1
