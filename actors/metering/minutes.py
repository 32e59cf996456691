"""When the minutes of one gRPC stream are due, counted on from the unpaid time of an earlier stream.

Implements: interface, "Signal billing": 60 credits for every 60-second interval after the first, when it begins;
decisions, "Seconds of gRPC streams". Pure: monotonic seconds are arguments.
Not here: which stream gets whose time (accounts/stream_times.py), charging (geyser_charges.py).
"""


class Minutes:
    """minute: seconds of an interval. taken: seconds that an ended stream has left to this one."""

    def __init__(self, minute: float, taken: float, now: float) -> None:
        self._minute = minute
        self._began = now - taken  # Start of the open interval; moves by whole intervals as each is paid.

    def due_at(self) -> float:
        """Return when the next interval begins and must be paid."""
        return self._began + self._minute

    def paid(self) -> None:
        """Record that the due interval is paid and open."""
        self._began += self._minute

    def unpaid(self, now: float) -> float:
        """Return the time that the stream leaves at its end; at most a minute, because only one charge was ever due."""
        return min(max(now - self._began, 0.0), self._minute)
