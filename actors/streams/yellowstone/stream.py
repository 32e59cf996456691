"""One client's Subscribe: its requests, its pings, its queue, and the feed that it reads.

Implements: Yellowstone's Subscribe: each request replaces the one before, of several that wait only the newest counts,
a ping is answered by a pong and changes nothing else, a client that closes its side still gets updates, the server
pings at once and every 10 s. A shell. Not here: who may subscribe, and what it costs (yellowstone/service.py).
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol

import grpc
from google.protobuf.message import DecodeError
from google.protobuf.timestamp_pb2 import Timestamp

from actors.clock import Clock
from actors.geyser_proto import geyser_pb2
from actors.stream_config import GeyserConfig
from actors.streams.yellowstone import ends as geyser_ends
from actors.streams.yellowstone.ends import StreamEnd
from actors.streams.yellowstone.feed import GeyserFeed
from actors.streams.yellowstone.feeds import GeyserFeeds
from actors.streams.yellowstone.limits import BadSubscription
from actors.streams.yellowstone.outbox import GeyserOutbox, StreamEnded
from actors.streams.yellowstone.queues import GeyserQueues
from actors.streams.yellowstone.reader import GeyserReader
from actors.streams.yellowstone.replays import GeyserReplays, Replay
from actors.streams.yellowstone.requests import SMALL_BYTES, WantedStream, ping_of, read_bytes
from actors.streams.yellowstone.work import GeyserWork, Turn

logger = logging.getLogger(__name__)

PING_SECONDS = 10.0

_REQUEST_BYTES = 64 * 1024  # Each of this many bytes counts as one more request.
_REPLACE_SECONDS = 0.001  # Event loop time of another subscription at the node, beside reading its request.

Establish = Callable[[], Awaitable[StreamEnd | None]]  # Charges for the stream, once; otherwise returns how it ends.
Write = Callable[[bytes], Awaitable[None]]


class StreamPayer(Protocol):
    """Charges the stream. Both methods return how the stream ends if it cannot be charged."""

    async def establish(self) -> StreamEnd | None:
        """Charge for the stream, once."""

    async def again(self) -> StreamEnd | None:
        """Charge for a further subscription of the stream that begins in the past."""


class GeyserStream:
    """Use: run(), which returns how to close. end() may be called at any time. replays: None: the node replays.

    queues, work: of all streams of the replica. account: whose stream it is.
    """

    def __init__(
        self,
        feeds: GeyserFeeds,
        settings: GeyserConfig,
        clock: Clock,
        charges: StreamPayer,
        queues: GeyserQueues,
        account: bytes,
        work: GeyserWork,
        replays: GeyserReplays | None = None,
    ) -> None:
        self._feeds, self._settings, self._clock, self._charges = feeds, settings, clock, charges
        self._work, self._turn = work, Turn(work, account)
        self._replays = replays
        self._replaying: asyncio.Task[None] | None = None
        self._outbox = GeyserOutbox(
            settings.queue_updates_max, settings.queue_bytes_max, queues, account, feeds.writing_pace
        )
        self._reader: GeyserReader | None = None
        self._feed: GeyserFeed | None = None
        self._from_slot: int | None = None  # from_slot of the newest request.
        self._newest: bytes | None = None  # A request not read yet.
        self._changed = asyncio.Event()
        self._is_established = False
        # The answer to a ping says that the requests before it are in place; until they are, it waits.
        self._is_settled = True
        self._pongs: list[int] = []
        self._second, self._requests_in_second = -1, 0
        self.refused: tuple[int, int] | None = None  # Bytes and filters of the bad request that ended the stream.

    def end(self, end: StreamEnd, at_once: bool = False) -> None:
        """End the stream after what is queued; at_once: without it."""
        self._outbox.end(end, at_once)

    def leave(self) -> None:
        """End after what is queued, with the slot from which the next stream misses nothing."""
        self._outbox.end(geyser_ends.leaving(self._resume_slot()))

    def _resume_slot(self) -> int | None:
        if self._replaying is not None and not self._replaying.done():
            slot = None if self._reader is None else self._reader.replays_on_from
            return self._from_slot if slot is None else slot
        return self._from_slot if self._feed is None else self._feed.resume_slot

    async def run(self, requests: AsyncIterator[bytes], write: Write) -> StreamEnd:
        """Serve the stream until it ends. Raises CancelledError when the client is gone."""
        writing = asyncio.current_task()
        assert writing is not None
        loop = asyncio.get_running_loop()
        timers: list[asyncio.TimerHandle] = []
        cut: list[StreamEnd] = []

        def stop_writing(end: StreamEnd) -> None:
            cut.append(end)
            writing.cancel()

        def hurry(end: StreamEnd, is_hurried: bool) -> None:
            # A client that reads nothing never lets the last write end; the status then follows what was written.
            if is_hurried:
                if self._reader is not None:
                    self._reader.stop()  # So that it keeps nothing either.
                timers.append(loop.call_later(self._settings.end_seconds, stop_writing, end))

        self._outbox.on_end = hurry
        tasks = [asyncio.create_task(work) for work in (self._read(requests), self._ping(), self._apply())]
        for task in tasks:
            task.add_done_callback(self._task_done)
        try:
            while True:
                await write(await self._outbox.next())
        except StreamEnded as ended:
            return ended.end
        except asyncio.CancelledError:
            if not cut:
                raise
            writing.uncancel()
            return cut[0]
        finally:
            for timer in timers:
                timer.cancel()
            self._stop_replay()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._leave(self._feed, self._reader)
            self._outbox.close()

    def _task_done(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            logger.error("a Yellowstone stream broke", exc_info=error)
            self._outbox.end(geyser_ends.BROKEN)

    # --- requests

    async def _read(self, requests: AsyncIterator[bytes]) -> None:
        """Read requests until the client closes its side; the stream goes on after that."""
        try:
            async for raw in requests:
                if self._outbox.is_ended:
                    return
                self._take(raw)
        except grpc.aio.AbortError:
            return  # gRPC ended the call: the request was too large, or the client has left.

    def _take(self, raw: bytes) -> None:
        if self._is_flooded(len(raw)):
            self._outbox.end(geyser_ends.too_many_requests(self._settings.requests_per_second), at_once=True)
            return
        try:
            ping = ping_of(raw) if len(raw) <= SMALL_BYTES else None
        except DecodeError as error:
            self._refuse(error, raw)
            return
        if ping is not None:
            self._pongs.append(ping)
            if self._is_settled:
                self._answer_pings()
            return
        self._newest = raw  # Read in its turn; only the newest of several waiting requests counts.
        self._is_settled = False
        self._changed.set()

    def _refuse(self, error: DecodeError | BadSubscription, raw: bytes) -> None:
        if isinstance(error, BadSubscription):
            self.refused, end = (len(raw), error.filters), geyser_ends.bad_filter(str(error))
        else:
            self.refused, end = (len(raw), 0), geyser_ends.undecodable(str(error))
        self._outbox.end(end)

    def _answer_pings(self) -> None:
        for number in self._pongs:
            self._put_own(geyser_pb2.SubscribeUpdate(pong=geyser_pb2.SubscribeUpdatePong(id=number)))
        self._pongs.clear()

    def _is_flooded(self, size: int) -> bool:
        second = int(self._clock.monotonic())
        if second != self._second:
            self._second, self._requests_in_second = second, 0
        self._requests_in_second += 1 + size // _REQUEST_BYTES
        return self._requests_in_second > self._settings.requests_per_second

    async def _ping(self) -> None:
        while not self._outbox.is_ended:
            self._put_own(geyser_pb2.SubscribeUpdate(ping=geyser_pb2.SubscribeUpdatePing()))
            await asyncio.sleep(PING_SECONDS)

    def _put_own(self, update: geyser_pb2.SubscribeUpdate) -> None:
        now_ms = self._clock.now_ms()
        update.created_at.CopyFrom(Timestamp(seconds=now_ms // 1000, nanos=now_ms % 1000 * 1_000_000))
        self._outbox.put(None, b"", update.SerializeToString())

    # --- subscriptions

    async def _apply(self) -> None:
        """Apply the newest requests, one after the other."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            raw, self._newest = self._newest, None
            if raw is not None:
                await self._read_one(raw)
            if self._newest is None:
                self._is_settled = True
                self._answer_pings()

    async def _read_one(self, raw: bytes) -> None:
        """Read a request in a turn of the account: a small one here, a larger one beside the event loop."""
        await self._turn.begin()
        try:
            if len(raw) <= SMALL_BYTES:
                found = read_bytes(raw, self._settings.filters_max, self._settings.keys_max)
            else:
                found = await self._feeds.read_large(raw)
        except (DecodeError, BadSubscription) as error:
            self._refuse(error, raw)
            return
        finally:
            self._turn.end(_REPLACE_SECONDS)
        if isinstance(found, int):
            self._pongs.append(found)
        elif self._newest is None:  # Otherwise a newer request has come.
            await self._replace(found)

    async def _replace(self, wanted: WantedStream) -> None:
        old, old_feed = self._reader, self._feed
        if wanted.key is None:
            self._reader = self._feed = None
            self._stop_replay()
            self._leave(old_feed, old)
            await self._charge()
            return
        first_kept, replay, from_slot = None, None, wanted.from_slot
        self._from_slot = from_slot
        if from_slot is not None and self._is_established:
            end = await self._charges.again()
            if end is not None:
                self._outbox.end(end)
                return
        if from_slot is not None and self._replays is not None:
            first_kept, replay = await self._replays.find(from_slot)
            if replay is not None:
                wanted = wanted.live()
        most = self._settings.queue_bytes_max
        reader = GeyserReader(wanted, self._outbox, most, None if replay is None else from_slot)
        settled = asyncio.Event()
        reader.on_settled = settled.set
        feed = self._feeds.join(wanted, reader, first_kept, old)
        self._reader, self._feed = reader, feed
        self._stop_replay()
        try:
            if not self._is_established:
                await feed.live.wait()
                if feed.end is None and await self._charge():
                    self._begin(reader, replay)
            elif old is None or from_slot is not None or feed is old_feed:
                # A replay begins in the past, so nothing of the old subscription is needed.
                if old is not None:
                    old.stop()
                self._begin(reader, replay)
            else:
                reader.follow(old)
                await settled.wait()
        finally:
            self._leave(old_feed, old)

    def _begin(self, reader: GeyserReader, replay: Replay | None) -> None:
        if replay is None:
            reader.release()
            return
        self._replaying = asyncio.create_task(replay.run(reader.wanted, reader, self._outbox, self._work))
        self._replaying.add_done_callback(self._task_done)

    def _stop_replay(self) -> None:
        if self._replaying is not None:
            self._replaying.cancel()
            self._replaying = None

    def _leave(self, feed: GeyserFeed | None, reader: GeyserReader | None) -> None:
        if reader is not None:
            reader.stop()
        if feed is not None and reader is not None:
            self._feeds.leave(feed, reader)

    async def _charge(self) -> bool:
        if not self._is_established:
            end = await self._charges.establish()
            if end is not None:
                self._outbox.end(end)
                return False
            self._is_established = True
        return True


def status_of(end: StreamEnd) -> Any:
    """The code of grpc of a StreamEnd."""
    return next(code for code in grpc.StatusCode if code.value[0] == end.code)
