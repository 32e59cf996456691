"""An event loop whose time goes to the next timer at once, and its clock."""

import asyncio
import selectors
from typing import Any

from actors.clock import ManualClock


class _Jump(selectors.SelectSelector):
    """Never waits: time goes to the next timer."""

    seconds = 0.0

    def select(self, timeout: float | None = None) -> Any:
        assert timeout is not None, "nothing will ever happen again"
        self.seconds += max(0.0, timeout)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.jump = _Jump()
        super().__init__(self.jump)

    def time(self) -> float:
        return self.jump.seconds


class LoopClock(ManualClock):
    """The wall clock of a virtual loop."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop, self._started_ms = loop, self._now_ms

    def now_ms(self) -> Any:
        return self._started_ms + int(self._loop.time() * 1_000)

    def monotonic(self) -> float:
        return self._loop.time()
