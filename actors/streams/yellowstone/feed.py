"""One subscription at the node, shared by all clients here whose subscriptions are equal.

Implements: upstream loss: the feed subscribes again from the first slot that may have updates which were not seen, and
leaves out what was delivered. What the node cannot give again ends the streams with DATA_LOSS and the slots.
An update is given to all readers before the next one is read, a part of them in each pass of the loop
(yellowstone/pace.py). Each reader has the number of its newest update, and one that takes another's place goes on at
that one's number: so nothing is lost or doubled for a client that replaces its filters while an update is being given.
A shell: yellowstone/progress.py knows what was seen. Not here: which clients share a feed (yellowstone/feeds.py), their
filters' names and queues (yellowstone/reader.py).
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from typing import Protocol

import grpc
from google.protobuf.message import DecodeError

from actors.clock import Clock
from actors.geyser_proto import geyser_pb2
from actors.grpc_http2.client_call import CallFailed, ClientCall
from actors.streams.yellowstone import ends as geyser_ends
from actors.streams.yellowstone.ends import StreamEnd
from actors.streams.yellowstone.pace import GeyserPace, units_to_give, units_to_read
from actors.streams.yellowstone.progress import Progress
from actors.streams.yellowstone.requests import WATCH, WantedStream
from actors.streams.yellowstone.updates import SeenUpdate, identify, split

logger = logging.getLogger(__name__)

_SILENCE_SECONDS = 12.0  # The node pings every 10 s, and sends every slot's status.
_RETRY_SECONDS, _RETRY_SECONDS_MAX = 0.1, 2.0
_LOOK_SECONDS = 1.0
_UNITS_TO_OPEN, _UNITS_TO_JUDGE = 300, 50  # Of yellowstone/pace.py: a loss of the node is one of 2,000 feeds at once.
# Codes with which a node refuses a subscription; retrying changes nothing.
_FINAL = frozenset(
    (
        *(grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED),
        *(grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.NOT_FOUND, grpc.StatusCode.OUT_OF_RANGE),
        grpc.StatusCode.RESOURCE_EXHAUSTED,
    )
)
_NO_REPLAY = "from_slot is not supported"  # Yellowstone's text for INTERNAL.
_LAST_AVAILABLE = re.compile(r"last available: (\d{1,20})")
_PING = geyser_pb2.SubscribeRequest(ping=geyser_pb2.SubscribeRequestPing(id=1)).SerializeToString()

OpenStream = Callable[[], Awaitable[ClientCall]]  # A new call of Subscribe.


class FeedReader(Protocol):
    def take(self, names: tuple[str, ...], body: bytes, update: SeenUpdate | None) -> None:
        """Take an update, with our names of the filters that match it; never waits."""

    def feed_ended(self, end: StreamEnd) -> None:
        """The feed has ended, and sends nothing more."""


class _GapFound(Exception):
    """The node left out a slot, which the text names."""


class GeyserFeed:
    """Runs from start() until it ends or is stopped. live: set when the node has read it or has ended it."""

    def __init__(
        self,
        wanted: WantedStream,
        open_stream: OpenStream,
        clock: Clock,
        resume_seconds: float,
        connect_seconds: float,
        first_kept: int | None = None,
        pace: GeyserPace | None = None,
    ) -> None:
        """first_kept: the first slot that can be replayed without the node, for the error when the node cannot.

        pace: of all feeds of the replica; None: it is alone.
        """
        self._pace = pace or GeyserPace()
        self._first_kept = first_kept
        self._wanted, self._open, self._clock = wanted, open_stream, clock
        self._asked_names = frozenset((*wanted.names, WATCH))
        self._resume_seconds, self._connect_seconds = resume_seconds, connect_seconds
        self._progress = Progress(wanted.level)
        self._readers: dict[FeedReader, int] = {}  # With the number of the newest update given to each.
        self._names: tuple[str, ...] = ()  # Names of the newest update.
        self._began_at = self._asked_at = self._heard_at = clock.monotonic()
        self._updates = 0  # Number of the node's updates that were new and readable.
        self._call: ClientCall | None = None
        self._resumed = False
        self._searched: set[int] = set()  # Missing slots for which the feed has subscribed again.
        self._task: asyncio.Task[None] | None = None
        self.live = asyncio.Event()
        self.end: StreamEnd | None = None
        self.resumes = 0

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())
        self._task.add_done_callback(self._done)

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def join(self, reader: FeedReader, instead_of: FeedReader | None = None) -> None:
        """Add a reader from the next update on; instead_of: from the first update that this reader was not given."""
        assert self.end is None, "a feed that has ended takes no readers"
        given = self._updates if instead_of is None else self._readers.get(instead_of, self._updates)
        self._readers[reader] = given

    def leave(self, reader: FeedReader) -> bool:
        """Remove a reader. True: it was the last one."""
        self._readers.pop(reader, None)
        return not self._readers

    # --- the subscription at the node

    @property
    def resume_slot(self) -> int | None:
        """The first slot of which a reader may not have had all; None: no update came yet, or too much is forgotten."""
        return self._progress.resume_slot if self._progress.began else None

    async def _run(self) -> None:
        watching = asyncio.create_task(self._watch())
        try:
            lost_at: float | None = self._clock.monotonic()
            delay = _RETRY_SECONDS
            while True:
                updates = self._updates
                await self._pace.step(_UNITS_TO_OPEN)
                end = await self._follow()
                if end is not None:
                    self._finish(end)
                    return
                now = self._clock.monotonic()
                if self._updates != updates:
                    lost_at, delay = now, _RETRY_SECONDS
                assert lost_at is not None
                if now - lost_at > (self._resume_seconds if self._progress.began else self._connect_seconds):
                    self._finish(self._not_reached())
                    return
                await asyncio.sleep(delay)
                delay = min(delay * 2, _RETRY_SECONDS_MAX)
        finally:
            watching.cancel()

    async def _follow(self) -> StreamEnd | None:
        """Subscribe, and take updates until the stream breaks. A StreamEnd: retrying is useless."""
        is_resuming = self._progress.began
        from_slot = self._progress.resume_slot if is_resuming else self._wanted.from_slot
        if is_resuming and from_slot is None:
            first = self._progress.last_whole_slot
            return geyser_ends.lost(first, "they are too many to be asked for again without repetitions")
        self._asked_at, call = self._clock.monotonic(), None
        try:
            async with asyncio.timeout(_SILENCE_SECONDS):  # Other calls may wait for the connection as well.
                self._call = call = await self._open()
            self._asked_at = self._clock.monotonic()
            call.write(self._wanted.request(from_slot))
            call.write(_PING)  # Its answer shows that the node has read the request before it.
            if is_resuming:
                self._resumed = True
                self.resumes += 1
            while True:
                for payload in await call.read():
                    self._heard_at = self._clock.monotonic()
                    units = units_to_read(len(payload))
                    if not self._pace.has_room(units):
                        await self._pace.step(units)
                    await self._take(payload)
        except CallFailed as error:
            code, text = error.code, error.text
        except TimeoutError:
            code, text = grpc.StatusCode.UNAVAILABLE, "no connection for too long"
        except _GapFound as gap:
            code, text = grpc.StatusCode.UNAVAILABLE, str(gap)
            if self._was_searched(gap):
                return geyser_ends.lost(int(str(gap)), "the node left out this slot, also from its replay")
        except (DecodeError, ValueError) as error:
            logger.warning("the stream source sent an update that cannot be read: %s", type(error).__name__)
            code, text = grpc.StatusCode.UNAVAILABLE, "unreadable"
        finally:
            self._call = None
            if call is not None:
                call.close()
        await self._pace.step(_UNITS_TO_JUDGE)
        return self._judge(code, text, is_resuming, from_slot)

    def _judge(self, code: grpc.StatusCode, text: str, is_resuming: bool, from_slot: int | None) -> StreamEnd | None:
        """Interpret the end of the node's stream. None: subscribe again."""
        if is_resuming and (code is grpc.StatusCode.OUT_OF_RANGE or _NO_REPLAY in text):
            return geyser_ends.lost(from_slot, f"the stream source was away, and says: {text}")
        is_replay_refused = code is grpc.StatusCode.INTERNAL and from_slot is not None and not self._progress.began
        is_too_old = code is grpc.StatusCode.OUT_OF_RANGE or _NO_REPLAY in text
        if is_too_old and self._first_kept is not None and from_slot is not None and from_slot < self._first_kept:
            told = _LAST_AVAILABLE.search(text)
            first = self._first_kept if told is None else min(int(told.group(1)), self._first_kept)
            return geyser_ends.too_old(from_slot, first)
        if code in _FINAL or is_replay_refused:
            return passed_on(code, text)
        logger.info("the stream source broke off, and is asked again: %s %s", code.name, text[:200])
        return None

    async def _take(self, payload: bytes) -> None:
        names, body = split(payload)
        if names == self._names:
            names = self._names  # One object for all updates of the same filters: readers look it up faster.
        self._names = names
        if not names:
            if not self.live.is_set() and geyser_pb2.SubscribeUpdate.FromString(body).HasField("pong"):
                self.live.set()
            return  # A ping or pong of the node; clients get ours.
        if not self._asked_names.issuperset(names):
            raise ValueError("an update of a filter that was not asked for")
        update = identify(names, body)
        progress = self._progress
        if update is not None:
            if not progress.take(update, self._resumed):
                return
            lost = progress.lost_slot(update)
            if lost is not None:
                raise _GapFound(str(lost))
        self._updates += 1
        if not self.live.is_set():
            self.live.set()
        await self._give(names, body, update)

    async def _give(self, names: tuple[str, ...], body: bytes, update: SeenUpdate | None) -> None:
        number, units = self._updates, units_to_give(len(names))
        # Again for readers that meanwhile replaced one that had not been given this update.
        while waiting := [reader for reader, given in self._readers.items() if given < number]:
            for reader in waiting:
                if not self._pace.has_room(units):
                    await self._pace.step(units)
                if self._readers.get(reader, number) < number:  # It may have left.
                    self._readers[reader] = number
                    reader.take(names, body, update)

    def _was_searched(self, gap: _GapFound) -> bool:
        slot = int(str(gap))
        if slot in self._searched:
            return True
        self._searched.add(slot)
        return False

    async def _watch(self) -> None:
        """Cut a silent call, and end a feed that the node never accepts."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            if not self.live.is_set() and self._clock.monotonic() - self._began_at > self._connect_seconds:
                self._finish(geyser_ends.NOT_REACHED)
                self.stop()
                return
            quiet_since = max(self._asked_at, self._heard_at)
            if self._call is not None and self._clock.monotonic() - quiet_since > _SILENCE_SECONDS:
                self._call.fail("nothing came for too long")

    def _not_reached(self) -> StreamEnd:
        if not self._progress.began:
            return geyser_ends.NOT_REACHED
        slot = self._progress.resume_slot
        return StreamEnd(
            geyser_ends.UNAVAILABLE, f"the stream source is away; subscribe again with from_slot {slot} when it is back"
        )

    def _finish(self, end: StreamEnd) -> None:
        if self.end is None:
            self.end = end
            self.live.set()
            for reader in tuple(self._readers):
                reader.feed_ended(end)

    def _done(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            self._finish(geyser_ends.SHUTTING_DOWN)
        elif task.exception() is not None:
            logger.error("a feed of the stream source broke", exc_info=task.exception())
            self._finish(geyser_ends.BROKEN)


def passed_on(code: grpc.StatusCode, text: str) -> StreamEnd:
    """Convert the node's status for the client, who must not see a fault between us and the node as its own."""
    if code in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED):
        logger.error("the stream source refuses this gateway: %s %s", code.name, text[:200])
        return geyser_ends.NOT_REACHED
    return StreamEnd(int(code.value[0]), text)
