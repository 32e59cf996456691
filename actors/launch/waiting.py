"""Waits that end: for the word to stop, and for work of others that may never come back.

Implements: the launcher's promise that stopping ends, whatever state Ray is in.
Not here: what is waited for (run.py, cluster.py), who sends the signals (supervisor_process.py).
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from actors.clock import SystemClock

_LOOK_SECONDS = 0.1

Result = TypeVar("Result")


class GivenUp(Exception):
    """The work was not done in time, or what it needs is gone."""


class Stop:
    """Whether somebody asked to stop. A threading.Event would not do: its lock is taken for a moment in every wait,
    and a signal handler of the same thread that calls set() in that moment waits for itself for ever."""

    def __init__(self) -> None:
        self._asked = False
        self._latch = threading.Lock()
        self._latch.acquire()

    def set(self) -> None:
        """For signal handlers: called any number of times, at any moment of the main thread."""
        if not self._asked:
            self._asked = True
            self._latch.release()

    def is_set(self) -> bool:
        return self._asked

    def wait(self, seconds: float) -> bool:
        """Whether it was asked, at the latest now. For one thread only."""
        if not self._asked:
            self._latch.acquire(timeout=seconds)
        return self._asked


def within(work: Callable[[], Result], seconds: float | None, holds: Callable[[], bool] = lambda: True) -> Result:
    """What `work` gives, done in a thread of its own for at most so long (None: no limit) and while `holds` is true.

    Raises what it raises, or GivenUp. Work that was given up stays behind in its thread, so the process should not go
    on for long.
    """
    clock = SystemClock()
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is waited for.
            future.set_exception(error)

    threading.Thread(target=run, name="bounded-work", daemon=True).start()
    deadline = None if seconds is None else clock.monotonic() + seconds
    while True:
        try:
            return future.result(_LOOK_SECONDS)
        except TimeoutError:
            if future.done():  # It was the work's own.
                raise
        if not holds():
            raise GivenUp("what it needs is gone")
        if deadline is not None and clock.monotonic() >= deadline:
            raise GivenUp(f"not done within {seconds:g} s")
