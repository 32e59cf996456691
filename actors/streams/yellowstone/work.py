"""Shares a replica's event loop between the work that gRPC clients cause and everything else.

Implements: design, "Work on the loop"; threat 62: reading a request, or evaluating filters for a replay, can take
seconds. Such work is done in turns. One turn at a time, of at most TURN_SECONDS; accounts take turns one after the
other, however many streams each has; other work of the loop runs between two turns; and all turns together take at most
SHARE of the loop's time, but for a beginning of BURST_SECONDS.
When full: only tasks wait here, at most two of each open stream. Time is measured, as filters differ in their cost by a
factor of a thousand; the function that tells the time is an argument.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable

from actors.clock import SystemClock

TURN_SECONDS = 0.002
SHARE = 0.35
BURST_SECONDS = 0.010


class GeyserWork:
    """Belongs to one event loop."""

    def __init__(self, now: Callable[[], float] = SystemClock.monotonic) -> None:
        self.now = now
        self._waiting: OrderedDict[bytes, deque[asyncio.Future[None]]] = OrderedDict()  # By account; the first is next.
        self._has_turn = False
        self._is_scheduled = False  # Whether the next turn is due in a later pass of the event loop.
        self._paid_until = 0.0  # Until then, other work gets the time that the turns took.

    async def begin(self, account: bytes) -> None:
        """Wait for a turn of this account. Call `end` afterwards."""
        if not self._has_turn and not self._is_scheduled:
            self._has_turn = True
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(account, deque()).append(turn)
        self._schedule()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.end(0.0)
            raise

    def end(self, seconds: float) -> None:
        """End the turn, which took this long."""
        self._has_turn = False
        self._paid_until = max(self._paid_until, self.now() - seconds) + seconds / SHARE
        self._schedule()

    def _wait_seconds(self) -> float:
        return self._paid_until - BURST_SECONDS - self.now()

    def _schedule(self) -> None:
        if self._has_turn or self._is_scheduled:
            return
        self._is_scheduled = True
        loop, wait = asyncio.get_running_loop(), self._wait_seconds()
        if wait > 0:
            loop.call_later(wait, self._grant)
        else:
            loop.call_soon(self._grant)  # Not at once: the event loop checks its sockets between two turns.

    def _grant(self) -> None:
        self._is_scheduled = False
        while self._waiting and not self._has_turn:
            account, turns = self._waiting.popitem(last=False)
            turn = turns.popleft()
            if turns:
                self._waiting[account] = turns
            if not turn.done():
                self._has_turn = True
                turn.set_result(None)


class Turn:
    """The turns of one piece of work, which may need many. Between begin and end only threads are awaited."""

    def __init__(self, work: GeyserWork, account: bytes) -> None:
        self._work, self._account = work, account
        self._began: float | None = None

    async def begin(self) -> None:
        if self._began is None:
            await self._work.begin(self._account)
            self._began = self._work.now()

    @property
    def is_over(self) -> bool:
        return self._began is not None and self._work.now() - self._began >= TURN_SECONDS

    async def step(self) -> None:
        """Call after each small piece of work: gives the turn up when it is over, and waits for the next."""
        if self.is_over:
            self.end()
        await self.begin()

    def end(self, more_seconds: float = 0.0) -> None:
        """more_seconds: of work that follows from this elsewhere, which counts too. Without a turn, nothing happens."""
        if self._began is not None:
            took, self._began = self._work.now() - self._began, None
            self._work.end(took + more_seconds)
