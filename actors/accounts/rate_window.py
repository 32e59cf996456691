"""The window of a rate limit: requests per second, in fixed windows of one second.

Implements: decisions, "rate limit shape". Pure.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class Window:
    """The last second with an admitted item, and its units.

    Only admitted items take a unit, so that a client without credits hears 402, and not 429, however often it asks.
    Concurrency slots are live holds of calls, counted by core.py.
    """

    second: int = 0
    used: int = 0

    def left(self, second: int, limit: int) -> int:
        """Units left in the window of this Unix second. Any other second than the last one is a fresh window, an
        earlier one too: a clock that was set back must not lock an account out."""
        return max(0, limit - self.used) if second == self.second else limit

    def take(self, second: int, units: int) -> None:
        if second == self.second:
            self.used += units
        else:
            self.second, self.used = second, units


def reset_at(second: int) -> int:
    """Unix second in which the window ends."""
    return second + 1
