"""Checks whether a replica reaches the hub of its own node.

Implements: interface, "Service health". A shell around the link's state. A hub that starts again is away for a moment,
which its clients are told as a gap; health tells of one that stays away, as subscriptions are refused then.
"""

from typing import Protocol

from actors.clock import Clock

AWAY_SECONDS = 5.0  # A hub that was killed is back after two to four seconds.


class Connecting(Protocol):
    @property
    def connected(self) -> bool: ...


class OwnHub:
    def __init__(self, link: Connecting, clock: Clock) -> None:
        self._link, self._clock = link, clock
        self._reached_at = clock.monotonic()

    def look(self) -> bool:
        """Return whether the link is up, or has been down only briefly. Call it about every second."""
        now = self._clock.monotonic()
        if self._link.connected:
            self._reached_at = now
        return now - self._reached_at < AWAY_SECONDS
