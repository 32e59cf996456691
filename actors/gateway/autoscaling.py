"""Decides the number of gateway replicas by their load, and measures the load of one replica.

Implements: design, "Measured facts" (the door skips Serve's request path, so Serve cannot see load). Pure: Serve calls
`replicas_for` in its controller, where this module arrives as a pickled copy, so it imports little and keeps nothing.
Delays and limits are Serve's. Not here: starting and stopping replicas.
"""

import math
from collections.abc import Callable
from typing import Any

METRIC = "load"  # Processor time of a replica divided by the target; 1.0 is as busy as the operator wants.
# The number shrinks only if the load would then be below this share of the target; otherwise it would oscillate.
_FEWER_SHARE = 0.8


def replicas_for(context: Any) -> tuple[int, dict[str, Any]]:
    """Return the wanted number of replicas, and no state. context: Serve's AutoscalingContext.

    A replica without a report yet counts as loaded at the target: it was started because of load.
    """
    loads = (context.aggregated_metrics or {}).get(METRIC, {})
    target = int(context.target_num_replicas)
    if not loads:
        return target, {}
    unknown = max(0, target - len(loads))
    total = sum(loads.values())
    more = math.ceil(total)
    if more > target:
        return more, {}
    return min(target, max(1, math.ceil(total / _FEWER_SHARE) + unknown)), {}


class LoadMeter:
    """Measures the processor time of this process since the last reading, in shares of the target.

    seconds, processor_seconds: clocks that never go back. aim: target seconds of processor time in a second.
    """

    def __init__(self, aim: float, seconds: Callable[[], float], processor_seconds: Callable[[], float]) -> None:
        assert aim > 0, aim
        self._aim, self._seconds, self._processor_seconds = aim, seconds, processor_seconds
        self._last = seconds(), processor_seconds()

    def read(self) -> float:
        before, self._last = self._last, (self._seconds(), self._processor_seconds())
        passed = self._last[0] - before[0]
        return (self._last[1] - before[1]) / passed / self._aim if passed > 0 else 0.0
