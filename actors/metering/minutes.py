"""When the minutes of one gRPC stream are due, counted on from the unpaid time of an earlier stream.

Implements: interface, "Signal billing": 60 credits for every 60-second interval after the first, when it begins;
decisions, "Seconds of gRPC streams". Pure: monotonic seconds are arguments.
Not here: which stream gets whose time (accounts/stream_times.py), charging (geyser_charges.py).
"""


class Minutes:
    """minute: seconds of an interval. taken: seconds that an ended stream has left to this one."""

    def __init__(self, minute: float, taken: float, now: float) -> None:
        self._minute = minute
        self._began = now - taken  # Of the interval that is open. Moves by whole intervals, as each is paid.

    def due_at(self) -> float:
        """When the next interval begins and has to be paid."""
        return self._began + self._minute

    def paid(self) -> None:
        """The interval that was due is paid, and open."""
        self._began += self._minute

    def unpaid(self, now: float) -> float:
        """The time that the stream leaves when it ends; at most a minute: no more than one charge was ever due."""
        return min(max(now - self._began, 0.0), self._minute)
