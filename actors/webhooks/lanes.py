"""The jobs that a dispatcher has under lease, in one lane for each webhook.

Implements: threats 27 and 28 (one slow receiver delays nobody else). Pure.
A lane sends a few jobs at once, one where its webhook fails or order means something. So a receiver that hangs holds
one place, and all places together are bounded by what the dispatcher leases.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

JobType = TypeVar("JobType")

AT_ONCE_MAX = 8  # Concurrent requests to one webhook.


@dataclass(slots=True)
class _WebhookLane(Generic[JobType]):
    at_once_max: int
    waiting: deque[JobType] = field(default_factory=deque)
    under_way: int = 0


class Lanes(Generic[JobType]):
    """webhook_of, at_once_max_of: of a job."""

    def __init__(self, webhook_of: Callable[[JobType], str], at_once_max_of: Callable[[JobType], int]) -> None:
        self._webhook_of, self._at_once_max_of = webhook_of, at_once_max_of
        self._lanes: dict[str, _WebhookLane[JobType]] = {}
        self.waiting = self.under_way = 0

    def add(self, jobs: Iterable[JobType]) -> list[JobType]:
        """Add jobs in this order. Returns those to send now."""
        touched: dict[str, None] = {}
        for job in jobs:
            name = self._webhook_of(job)
            lane = self._lanes.get(name)
            if lane is None:
                lane = self._lanes[name] = _WebhookLane(self._at_once_max_of(job))
            lane.waiting.append(job)
            self.waiting += 1
            touched[name] = None
        return [job for name in touched for job in self._next(name)]

    def ended(self, job: JobType, failed: bool) -> tuple[list[JobType], list[JobType]]:
        """End a job's request. Returns the jobs to send now, and those to give back: a failed webhook is left alone
        until its next job is due."""
        name = self._webhook_of(job)
        lane = self._lanes[name]
        lane.under_way -= 1
        self.under_way -= 1
        given_back = self.withdraw(name) if failed else []
        ready = self._next(name)
        if not lane.under_way and not lane.waiting:
            del self._lanes[name]
        return ready, given_back

    def withdraw_where(self, is_meant: Callable[[JobType], bool]) -> list[JobType]:
        """Remove waiting jobs of these webhooks. Running requests end by themselves."""
        taken: list[JobType] = []
        for name, lane in list(self._lanes.items()):
            meant = [job for job in lane.waiting if is_meant(job)]
            if meant:
                lane.waiting = deque(job for job in lane.waiting if not is_meant(job))
                taken += meant
                if not lane.under_way and not lane.waiting:
                    del self._lanes[name]
        self.waiting -= len(taken)
        return taken

    def withdraw(self, name: str) -> list[JobType]:
        """Remove the waiting jobs of a webhook. Running requests end by themselves."""
        lane = self._lanes.get(name)
        if lane is None:
            return []
        taken = list(lane.waiting)
        lane.waiting.clear()
        self.waiting -= len(taken)
        return taken

    def _next(self, name: str) -> list[JobType]:
        lane = self._lanes[name]
        ready: list[JobType] = []
        while lane.waiting and lane.under_way < lane.at_once_max:
            ready.append(lane.waiting.popleft())
            lane.under_way += 1
        self.waiting -= len(ready)
        self.under_way += len(ready)
        return ready
