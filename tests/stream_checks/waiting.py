"""Waits until many clients have reached a state, for as long as more and more of them reach it.

A fixed time limit fails on a slow machine, and a long one hides a client that will never come. So a wait fails when no
further client has reached the state for STALL_SECONDS.
"""

import asyncio
import time
from collections.abc import Callable, Collection
from typing import TypeVar

STALL_SECONDS = 120.0  # A replica that was killed is back after up to 30 s, on two cores that do much else.
_LOOK_SECONDS = 0.2  # A look at 500 clients takes some milliseconds.

One = TypeVar("One")


class Stalled(Exception):
    """No further client has reached the state for too long; the text names it."""


async def until_all(
    clients: Collection[One],
    holds: Callable[[One], bool],
    failure: str,
    check: Callable[[], None] = lambda: None,
    stall_seconds: float = STALL_SECONDS,
) -> None:
    """Return when `holds` is true of every client. check: raises where waiting on is of no use."""
    most, moved_at = -1, time.monotonic()
    while True:
        check()
        there = sum(map(holds, clients))
        if there == len(clients):
            return
        if there > most:
            most, moved_at = there, time.monotonic()
        elif time.monotonic() - moved_at > stall_seconds:
            raise Stalled(f"{failure}: {there} of {len(clients)} after {stall_seconds:g} s without a further one")
        await asyncio.sleep(_LOOK_SECONDS)
