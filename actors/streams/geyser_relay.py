"""A stream that is passed through to the node one to one: SubscribeDeshred, whose messages nothing here must know.

Implements: the calls of `geyser.Geyser` that have no replay, so that a loss of the node ends the stream. A shell.
Not here: Subscribe (geyser_stream.py), what it costs (geyser_service.py).
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc

from actors.config import GeyserConfig
from actors.streams.geyser_ends import StreamEnd
from actors.streams.geyser_feed import passed_on
from actors.streams.geyser_stream import Establish, Write


class _Relay:
    """Has the shape of GeyserStream. Nothing is queued here: the node's flow control reaches the client."""

    def __init__(self, call: Any, settings: GeyserConfig, establish: Establish) -> None:
        self._call, self._settings, self._establish = call, settings, establish
        self._end: StreamEnd | None = None

    def end(self, end: StreamEnd, at_once: bool = False) -> None:
        if self._end is None:
            self._end = end
            self._call.cancel()

    async def run(self, requests: AsyncIterator[bytes], write: Write) -> StreamEnd:
        sending = asyncio.create_task(self._send(requests))
        try:
            while (payload := await self._call.read()) is not grpc.aio.EOF:
                refused = await self._establish()
                if refused is not None:
                    return refused
                await write(payload)
            return passed_on(await self._call.code(), await self._call.details() or "")
        except asyncio.CancelledError:
            if self._end is None:
                raise
            return self._end
        except grpc.aio.AioRpcError as error:
            return passed_on(error.code(), error.details() or "")
        finally:
            sending.cancel()
            self._call.cancel()

    async def _send(self, requests: AsyncIterator[bytes]) -> None:
        try:
            async for raw in requests:
                await self._call.write(raw)
            await self._call.done_writing()
        except (grpc.aio.AioRpcError, grpc.aio.AbortError, asyncio.InvalidStateError):
            return  # run() learns how the call ended.


def relay(call: Any, settings: GeyserConfig, establish: Establish) -> _Relay:
    return _Relay(call, settings, establish)
