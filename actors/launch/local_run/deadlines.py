"""Waiting with a deadline: for a stop signal, and for calls that may hang.

Implements: the launcher's promise that a stop ends, whatever state Ray is in.
Not here: the calls (run.py, local_run/cluster.py), the sender of the signals (local_run/supervisor_process.py).
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from actors.clock import SystemClock

_LOOK_SECONDS = 0.1

Result = TypeVar("Result")


class GivenUp(Exception):
    """A call did not return in time, or Ray ended while it ran."""


class Stop:
    """A request to stop that a signal handler may set at any moment.

    A threading.Event could deadlock: each wait takes its lock for a moment, and a signal handler of the same thread
    that calls set() in that moment would wait for itself.
    """

    def __init__(self) -> None:
        self._asked = False
        self._latch = threading.Lock()
        self._latch.acquire()

    def set(self) -> None:
        """Request the stop. A signal handler may call this at any moment, any number of times."""
        if not self._asked:
            self._asked = True
            self._latch.release()

    def is_set(self) -> bool:
        return self._asked

    def wait(self, seconds: float) -> bool:
        """Wait until a stop is requested or the time is over, and return whether it was requested. One thread only."""
        if not self._asked:
            self._latch.acquire(timeout=seconds)
        return self._asked


def within(work: Callable[[], Result], seconds: float | None, holds: Callable[[], bool] = lambda: True) -> Result:
    """Run `work` in a thread of its own and return its result.

    seconds: the time limit; None: no limit. holds: checked while waiting; False ends the wait. Raises what `work`
    raises, or GivenUp. Work that was given up keeps its thread, so the process should end soon.
    """
    clock = SystemClock()
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised again by future.result.
            future.set_exception(error)

    threading.Thread(target=run, name="bounded-work", daemon=True).start()
    deadline = None if seconds is None else clock.monotonic() + seconds
    while True:
        try:
            return future.result(_LOOK_SECONDS)
        except TimeoutError:
            if future.done():  # `work` itself raised a TimeoutError.
                raise
        if not holds():
            raise GivenUp("Ray's own processes have ended")
        if deadline is not None and clock.monotonic() >= deadline:
            raise GivenUp(f"not done within {seconds:g} s")
