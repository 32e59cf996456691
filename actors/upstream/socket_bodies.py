"""Reads the rest of a large body of known length from its socket itself, when the HTTP parser has read its beginning.

Implements: large answers (10 MB blocks pass through unparsed). A shell. Not here: what a body means (replies.py).

A parser has nothing to find in these bytes, but each of them was copied twice on its way through the event loop's
transport and the parser, after the kernel's own copy: that was 2 ms of processor time for 10 MB. Here the kernel writes
each part where it stays. Nobody else reads the connection meanwhile, and not a byte beyond the body is read.
"""

import asyncio
import os
from collections.abc import Callable

import aiohttp

# Read at once, where so many are there. In parts of half the size, 10 MB take up to 1 ms more, for the turns of the
# loop in between; the last part is hashed when all is there, so larger ones cost time.
_PART_BYTES = 512 << 10
_LOOKS_MAX = 2  # Parts that are read at once; what is done with 1 MB of them, hashing, takes 0.5 ms.


class SocketBody:
    """The body of one answer on a connection without TLS, to be read once.

    payload: as aiohttp has it. size: of the whole body.
    """

    def __init__(self, transport: asyncio.Transport, payload: aiohttp.StreamReader, size: int) -> None:
        self._transport, self._payload, self._left = transport, payload, size
        self._ended: asyncio.Future[None] | None = None  # While the socket is read.

    async def into(self, take: Callable[[bytes], None]) -> None:
        """Give all of it to `take`, part by part, as it arrives.

        Raises aiohttp.ClientError or OSError where it ends before, and whatever `take` raises.
        """
        # What the parser has read comes first. From there to the pause nothing is awaited, so nothing comes between.
        begun = self._payload.read_nowait()
        self._transport.pause_reading()
        self._left -= len(begun)
        take(begun)
        if self._left:
            await self._rest_into(take)
            self._payload.feed_eof()  # The answer is complete, so its connection may be kept.
        self._transport.resume_reading()

    def fail(self, error: BaseException) -> None:
        """The connection is being closed."""
        if self._ended is not None and not self._ended.done():
            self._ended.set_exception(error)

    async def _rest_into(self, take: Callable[[bytes], None]) -> None:
        loop = asyncio.get_running_loop()
        self._ended = ended = loop.create_future()
        descriptor = self._transport.get_extra_info("socket").fileno()
        # Of a fast node 1 MB has come by now: to watch the socket takes nine system calls and a turn of the loop.
        for _ in range(_LOOKS_MAX):
            is_full = self._read(descriptor, take)
            if ended.done():
                ended.result()  # Raises what ended it too early.
                return
            if not is_full:
                break
        # The loop lets nobody watch the descriptor of a transport; a second one is of the same connection.
        watched = os.dup(descriptor)
        try:
            loop.add_reader(watched, self._read, watched, take)
            await ended
        finally:
            loop.remove_reader(watched)
            os.close(watched)

    def _read(self, descriptor: int, take: Callable[[bytes], None]) -> bool:
        """Read what is there, _PART_BYTES at most, so that the loop has other turns in between. Whether more may be."""
        ended = self._ended
        assert ended is not None
        if ended.done():
            return False
        try:
            part = os.read(descriptor, min(self._left, _PART_BYTES))
            if not part:
                raise aiohttp.ClientPayloadError("the connection ended in the middle of a body")
            self._left -= len(part)
            take(part)
        except BlockingIOError:
            return False
        except Exception as error:  # noqa: BLE001 - the one who reads the body gets it, whatever it is.
            ended.set_exception(error)
            return False
        if not self._left:
            ended.set_result(None)
        return len(part) == _PART_BYTES
