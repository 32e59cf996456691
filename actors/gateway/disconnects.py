"""Notices that a client has left while its call is being worked on.

Implements: hostile input 36 (what a caller who leaves early pays is pipeline.py's).
A shell. Looking costs a task, so it begins only when a call takes long enough for anybody to leave: most never pay it.
"""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from actors.gateway.requests import AsgiCaller, ClientLeftError, Receive

LOOK_AFTER_SECONDS = 0.1

_Result = TypeVar("_Result")


class Departure:
    """Watches for the task that makes it, from LOOK_AFTER_SECONDS on; cancels that task when its client is gone.

    The body must have been read whole: from then on the only thing left to receive is the disconnect.
    """

    def __init__(self, receive: Receive, caller: AsgiCaller | None = None) -> None:
        self.noticed = False
        self._receive, self._caller = receive, caller
        self._task = asyncio.current_task()
        self._timer = asyncio.get_running_loop().call_later(LOOK_AFTER_SECONDS, self._begin)
        self._watcher: asyncio.Task[None] | None = None

    def stop(self) -> None:
        """Must be called, in the task's own turn, before it answers."""
        self._timer.cancel()
        if self._watcher is not None:
            self._watcher.cancel()

    def absorb(self) -> None:
        """The cancellation that this asked for has been dealt with; the task is as if never cancelled."""
        assert self.noticed and self._task is not None
        self._task.uncancel()

    def _begin(self) -> None:
        self._watcher = asyncio.get_running_loop().create_task(self._look())

    async def _look(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.noticed = True
        if self._caller is not None:
            self._caller.disconnected = True
        assert self._task is not None
        self._task.cancel()


async def while_there(receive: Receive, work: Awaitable[_Result], caller: AsgiCaller | None = None) -> _Result:
    """The result of the work. Raises ClientLeftError when the client leaves first, with the work cancelled.

    receive: of a request whose body was read whole. caller: is marked as disconnected before the work is cancelled.
    """
    departure = Departure(receive, caller)
    try:
        return await work
    except asyncio.CancelledError:
        if not departure.noticed:
            raise
        departure.absorb()
        raise ClientLeftError from None
    finally:
        departure.stop()
