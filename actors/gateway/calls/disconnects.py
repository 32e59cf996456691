"""Cancels the work on a request whose client has disconnected.

Implements: threat 36. calls/cancelled_requests.py says what such a request costs.
A shell for the requests that come by way of ASGI. Waiting for the disconnection takes a task, so that task starts only
when a call takes longer than most do.
"""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from actors.gateway.calls.requests import AsgiClient, ClientLeftError

LOOK_AFTER_SECONDS = 0.1

_Result = TypeVar("_Result")


class DisconnectWatch:
    """Cancels the task that made it when the client disconnects; waits for that from LOOK_AFTER_SECONDS on.

    The request's body must have been read whole: the disconnection is then all that is left to receive.
    """

    def __init__(self, client: AsgiClient) -> None:
        self._client = client
        self._task = asyncio.current_task()
        self._timer = asyncio.get_running_loop().call_later(LOOK_AFTER_SECONDS, self._begin)
        self._watcher: asyncio.Task[None] | None = None

    def stop(self) -> None:
        """Stop watching. The task itself must call this before it answers."""
        self._timer.cancel()
        if self._watcher is not None:
            self._watcher.cancel()

    def absorb(self) -> None:
        """Clear the cancellation of the task, once the disconnect was handled."""
        assert self._client.disconnected and self._task is not None
        self._task.uncancel()

    def _begin(self) -> None:
        self._watcher = asyncio.get_running_loop().create_task(self._wait())

    async def _wait(self) -> None:
        assert self._client.receive is not None
        while (await self._client.receive())["type"] != "http.disconnect":
            pass
        self._client.disconnected = True
        assert self._task is not None
        self._task.cancel()


async def unless_disconnected(client: AsgiClient, work: Awaitable[_Result]) -> _Result:
    """Give the result of the work. Raises ClientLeftError when the client disconnects first; the work is cancelled."""
    watch = DisconnectWatch(client)
    try:
        return await work
    except asyncio.CancelledError:
        if not client.disconnected:
            raise
        watch.absorb()
        raise ClientLeftError from None
    finally:
        watch.stop()
