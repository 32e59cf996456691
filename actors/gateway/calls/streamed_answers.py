"""Sends answers whose body is an async generator, such as server-sent events.

Implements: threats 35 (clients that take nothing) and 36 (clients that leave). A shell.
A piece is asked for after the one before it was taken: the server waits while the client's socket is full, and closes
the connection of a client that takes nothing for 30 seconds.
"""

import asyncio
import logging
from collections.abc import Awaitable

from actors.gateway.calls.disconnects import unless_disconnected
from actors.gateway.calls.replies import Response
from actors.gateway.calls.requests import AsgiClient, ClientLeftError, Send

logger = logging.getLogger(__name__)

STREAMS_MAX = 2_000  # Streams of one replica: each holds a socket and a task, and must leave room for calls.


class StreamedAnswers:
    """The running streamed answers of this process."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._told: set[asyncio.Task[None]] = set()  # Streams that end because this process leaves.
        self._closing = False

    @property
    def is_full(self) -> bool:
        return self._closing or len(self._tasks) >= STREAMS_MAX

    async def send(self, send: Send, client: AsgiClient, response: Response, is_head: bool) -> None:
        """Send the head and then each piece. Returns when the generator ends, the client leaves, or on close()."""
        stream, task = response.stream, asyncio.current_task()
        assert stream is not None and task is not None
        self._tasks.add(task)
        try:
            await send({"type": "http.response.start", "status": response.status, "headers": response.headers})
            if not is_head:
                await self._until_told(task, unless_disconnected(client, _pieces(send, response)))
            await send({"type": "http.response.body", "body": b""})
        except ClientLeftError:
            pass
        except asyncio.CancelledError:
            if not self._closing:
                raise
            task.uncancel()
        except Exception:  # The answer has begun, so the only remedy is to break it off.
            logger.exception("request %s: its answer is broken off", response.id)
        finally:
            self._tasks.discard(task)
            self._told.discard(task)
            await stream.aclose()

    async def _until_told(self, task: asyncio.Task[None], pieces: Awaitable[None]) -> None:
        """Send the pieces, or stop between two: the answer then ends as if the generator had ended."""
        try:
            await pieces
        except asyncio.CancelledError:
            if self._closing or task not in self._told:
                raise
            task.uncancel()

    # --- when this process leaves (LeavingStreams)

    @property
    def left(self) -> int:
        return len(self._tasks) - len(self._told)

    def stop_taking(self) -> None:
        """New ones are taken on, and end with the others: whether an answer streams is known after its charge."""

    def end_some(self, count: int) -> None:
        for task in [task for task in self._tasks if task not in self._told][:count]:
            self._told.add(task)
            task.cancel()

    async def close(self) -> None:
        """Break every stream off. Their tasks end soon afterwards."""
        self._closing = True
        for task in tuple(self._tasks):
            task.cancel()


async def _pieces(send: Send, response: Response) -> None:
    assert response.stream is not None
    async for piece in response.stream:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
