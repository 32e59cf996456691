"""The same signed bytes sent twice are one send: within a window the node gets them once.

Implements: decisions, "same bytes sent again". Of one replica, in memory; each call is paid for, as its answer is the
signature. A send that the node refused, or did not answer, is no send: the next call tries again.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from actors.sends.core import WINDOW_SLOTS
from actors.upstream.replies import AnswerKind, NodeAnswer

WINDOW_SECONDS = WINDOW_SLOTS * 0.4
_KEPT_MAX = 20_000  # The oldest are forgotten; a chain takes the same bytes twice without harm.


class SentOnce:
    """Belongs to one event loop."""

    def __init__(self) -> None:
        self._sends: dict[bytes, tuple[float, asyncio.Task[NodeAnswer]]] = {}  # Oldest first.

    async def send(
        self, signature: bytes, send: Callable[[], Coroutine[Any, Any, NodeAnswer]], now: float
    ) -> NodeAnswer:
        """now: monotonic seconds. A caller that leaves ends the send of nobody else."""
        self._forget(now)
        found = self._sends.get(signature)
        if found is None:
            task = asyncio.create_task(send())
            self._sends[signature] = (now, task)
            task.add_done_callback(lambda done: self._ended(signature, done))
        else:
            task = found[1]
        return await asyncio.shield(task)

    def _ended(self, signature: bytes, task: "asyncio.Task[NodeAnswer]") -> None:
        if task.cancelled() or task.exception() is not None or task.result().kind is not AnswerKind.RESULT:
            found = self._sends.get(signature)
            if found is not None and found[1] is task:
                del self._sends[signature]

    def _forget(self, now: float) -> None:
        while self._sends:
            signature, (at, task) = next(iter(self._sends.items()))
            if len(self._sends) < _KEPT_MAX and (now - at < WINDOW_SECONDS or not task.done()):
                return
            del self._sends[signature]
