"""A stream that is passed through to the node one to one: SubscribeDeshred, whose messages nothing here must know.

Implements: the calls of `geyser.Geyser` that have no replay, so that a loss of the node, or its silence, ends the
stream. A shell.
Not here: Subscribe (yellowstone/stream.py), what it costs (yellowstone/service.py).
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc

from actors.streams.yellowstone import ends as geyser_ends
from actors.streams.yellowstone.ends import StreamEnd
from actors.streams.yellowstone.feed import passed_on
from actors.streams.yellowstone.stream import Establish, Write

SILENCE_SECONDS = 25.0  # The node pings every 10 s. Less than the time after which a stream is charged in any case.


class _Relay:
    """Has the shape of GeyserStream. Nothing is queued here: the node's flow control reaches the client."""

    def __init__(self, call: Any, establish: Establish, silence_seconds: float) -> None:
        self._call, self._establish = call, establish
        self._silence_seconds = silence_seconds  # Longest silence of the node after a request.
        self._was_asked = False
        self._reading: asyncio.Timeout | None = None  # Time limit of the running read.
        self._end: StreamEnd | None = None

    def end(self, end: StreamEnd, at_once: bool = False) -> None:
        if self._end is None:
            self._end = end
            self._call.cancel()

    async def run(self, requests: AsyncIterator[bytes], write: Write) -> StreamEnd:
        sending = asyncio.create_task(self._send(requests))
        try:
            while (payload := await self._read()) is not grpc.aio.EOF:
                refused = await self._establish()
                if refused is not None:
                    return refused
                await write(payload)
            return passed_on(await self._call.code(), await self._call.details() or "")
        except asyncio.CancelledError:
            if self._end is None:
                raise
            return self._end
        except TimeoutError:
            return geyser_ends.silent(self._silence_seconds)
        except grpc.aio.AioRpcError as error:
            return passed_on(error.code(), error.details() or "")
        finally:
            sending.cancel()
            self._call.cancel()

    async def _read(self) -> Any:
        """Return the node's next message. Only waiting for the node counts as its silence, and none before a
        request."""
        async with asyncio.timeout(self._silence_seconds if self._was_asked else None) as reading:
            self._reading = reading
            try:
                return await self._call.read()
            finally:
                self._reading = None

    async def _send(self, requests: AsyncIterator[bytes]) -> None:
        try:
            async for raw in requests:
                self._begin_to_wait()
                await self._call.write(raw)
            await self._call.done_writing()
        except (grpc.aio.AioRpcError, grpc.aio.AbortError, asyncio.InvalidStateError):
            return  # run() learns how the call ended.

    def _begin_to_wait(self) -> None:
        if self._was_asked:
            return
        self._was_asked = True
        if self._reading is not None:
            self._reading.reschedule(asyncio.get_running_loop().time() + self._silence_seconds)


def relay(call: Any, establish: Establish, silence_seconds: float = SILENCE_SECONDS) -> _Relay:
    return _Relay(call, establish, silence_seconds)
