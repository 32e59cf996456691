"""Compresses bodies of large answers in a process beside the replica, while their first pieces leave.

Implements: decisions, "Content types and codings"; threats 13 and 36. A shell over side_process.py; the process is
compressing_worker.py. In a thread of the replica the same work held Python's lock and copied at once, so that other
clients waited up to ten times as long.

A body that finds no place, or no process, is sent as it is, at once; the first one starts the process. A place is held
while the body is compressed, which does not wait for its client: the pieces wait in memory, and the body is dropped
when the last one is made. So a client that reads slowly holds a third of the memory, and no place. The pieces that wait
are bounded, of an owner and in all: beyond that an answer is sent as it is, and its body counts in the budget of large
answers (upstream/memory_budget.py) until it is read. When the process is lost, or lets a piece wait for
PIECE_SECONDS_MAX, the rest of the body is sent uncompressed, in blocks of the same format (uncompressed_rest.py): the
client gets a whole answer all the same.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from typing import TypeAlias

from actors.background import Background
from actors.gateway.calls.compressing_worker import CompressPiece, ForgetBody
from actors.gateway.calls.uncompressed_rest import rest_of
from actors.side_process import IDLE_SECONDS, ProcessConnection, ProcessLost, RequestFailed, SideProcess

logger = logging.getLogger(__name__)

PLACES = 4  # Places of one replica, whose process compresses one piece at a time.
PLACES_OF_OWNER = 2
# Of pieces that are made and wait for their clients. Those of bodies that have a place already may come on top.
WAITING_BYTES_MAX = 128 << 20
WAITING_BYTES_OF_OWNER_MAX = 16 << 20
# 10 MB take 4 ms of the replica's processor time in pieces of this size, and 7 ms in pieces of half the size.
PIECE_BYTES = 512 << 10
PIECE_SECONDS_MAX = 0.5  # 4 ms of gzip for this body and for three others; the rest is the machine's other work.
_ANSWER_SECONDS_MAX = 10.0  # After this time the process is killed; also applies to its start.
_START_AGAIN_SECONDS = 10.0  # Pause after a failed start or a killed process.
_SENT_BYTES = 64 << 10
_MODULE = "actors.gateway.calls.compressing_worker"

Parts: TypeAlias = Sequence[bytes | memoryview]
Owner: TypeAlias = bytes | str


class LargeBodies:
    """The compressing process of one replica, and the places in it. Used by one event loop."""

    def __init__(self, idle_seconds: float = IDLE_SECONDS) -> None:
        self._side = SideProcess(_MODULE, "compresses large answers", _ANSWER_SECONDS_MAX, idle_seconds)
        self._background = Background(logger, "a large answer could not be compressed")
        self._places: Counter[Owner] = Counter()
        self._waiting: Counter[Owner] = Counter()
        self._waiting_bytes = 0
        self._starting: asyncio.Task[None] | None = None
        self._start_after = 0.0  # In event loop time.
        self._last_body = 0

    @property
    def pid(self) -> int | None:
        return self._side.pid

    @property
    def taken(self) -> int:
        return self._places.total()

    def take(self, coding: bytes, parts: Parts, kept: Sequence[object], owner: Owner) -> "CodedBody | None":
        """Begin to compress a body. None: there is no place or no process now, and it is sent as it is.

        kept: objects that must live as long as the parts. owner: an account or the address of a client.
        """
        if self._places.total() >= PLACES or self._places[owner] >= PLACES_OF_OWNER or self._is_full(owner):
            return None
        running = self._side.running
        if running is None or self._starting is not None:
            self._start()
            return None
        self._places[owner] += 1
        self._side.enter()
        self._last_body += 1
        body = CodedBody(coding, parts, kept, partial(self._count, owner))
        body.work = self._background.start(body.compress(running, self._last_body))
        body.work.add_done_callback(partial(self._compressed, running, self._last_body, body, owner))
        return body

    def _is_full(self, owner: Owner) -> bool:
        return self._waiting_bytes >= WAITING_BYTES_MAX or self._waiting[owner] >= WAITING_BYTES_OF_OWNER_MAX

    def _count(self, owner: Owner, more: int) -> None:
        self._waiting_bytes += more
        self._waiting[owner] += more
        if not self._waiting[owner]:
            del self._waiting[owner]

    def _start(self) -> None:
        if self._starting is None and asyncio.get_running_loop().time() >= self._start_after:
            self._side.enter()  # So that the process ends when no other answer follows.
            self._starting = self._background.start(self._started())

    async def _started(self) -> None:
        """Start the process, and wait until it answers."""
        try:
            running, _ = await self._side.started()
            await running.ask(ForgetBody(0))
        except (ProcessLost, RequestFailed) as error:
            logger.warning("large answers are sent as they are: %s", error)
            self._start_after = asyncio.get_running_loop().time() + _START_AGAIN_SECONDS
        finally:
            self._starting = None
            self._side.leave()

    def _compressed(
        self, running: ProcessConnection, number: int, body: "CodedBody", owner: Owner, _: "asyncio.Task[None]"
    ) -> None:
        """Free the place, once the process has dropped the body. Also called when the task never began."""
        body.compressed()
        if body.has_begun and not body.is_whole and not running.is_lost:
            told = self._side.tell(running, ForgetBody(number))
            told.add_done_callback(lambda _: self._left(owner))
        else:
            self._left(owner)

    def _left(self, owner: Owner) -> None:
        self._places[owner] -= 1
        if not self._places[owner]:
            del self._places[owner]
        self._side.leave()

    async def close(self) -> None:
        if self._starting is not None:
            await asyncio.wait((self._starting,))
        await self._background.stop()
        await self._side.close()


class CodedBody:
    """One body, from its place on. size: its bytes before. work: the task that compresses it. count: hears by how much
    the bytes of the pieces that wait have changed."""

    work: "asyncio.Task[None] | None" = None

    def __init__(self, coding: bytes, parts: Parts, kept: Sequence[object], count: Callable[[int], None]) -> None:
        self.size = sum(map(len, parts))
        self._coding, self._parts, self._kept = coding, parts, kept
        self._made: deque[bytes] = deque()
        self._made_bytes, self._count = 0, count
        self._changed = asyncio.Event()
        self._done, self._checked = 0, 0  # Bytes compressed so far, and their CRC-32.
        self.has_begun = self.is_whole = self._is_over = self._is_closed = False

    @property
    def held_bytes(self) -> int:
        """Return the bytes of memory that the body holds."""
        return self._made_bytes + (self.size if self._parts else 0)

    async def compress(self, running: ProcessConnection, number: int) -> None:
        """Compress all pieces, or as many as possible."""
        coding = self._coding.decode()
        try:
            for pieces, size in _cut(self._parts, 0, PIECE_BYTES):
                is_last = self._done + size == self.size
                self.has_begun = True
                request = CompressPiece(number, coding, size, self.size, is_last)
                async with asyncio.timeout(PIECE_SECONDS_MAX):
                    self._checked, made = await running.ask(request, pieces)
                self._done += size
                self._made += made
                self._resize(sum(map(len, made)))
                self.is_whole = is_last
                self._changed.set()
        except (ProcessLost, RequestFailed, TimeoutError) as error:
            logger.warning("a large answer goes on uncompressed: %s", type(error).__name__)

    def compressed(self) -> None:
        """Record that no further piece will be compressed."""
        self._is_over = True
        if self.is_whole:
            self._parts = self._kept = ()
        self._changed.set()

    async def pieces(self) -> AsyncIterator[tuple[bytes, bool]]:
        """Yield the pieces for the client, and whether a piece is the last. Ends early after close()."""
        while not self._is_closed:
            if self._made:
                made = self._made.popleft()
                self._resize(-len(made))
                yield made, self.is_whole and not self._made
            elif self.is_whole:
                return
            elif self._is_over:
                break
            else:
                self._changed.clear()
                await self._changed.wait()
        for piece in self._rest():
            if self._is_closed:
                return
            yield piece

    def _rest(self) -> Iterator[tuple[bytes, bool]]:
        at, rest = self._done, rest_of(self._coding, self._done, self._checked, self.size)
        for pieces, size in _cut(self._parts, at, PIECE_BYTES):
            at += size
            whole = memoryview(b"".join(pieces))
            yield rest.piece(whole, at == self.size), at == self.size

    def close(self) -> None:
        """Drop the pieces, which nobody needs any more, and free the place soon. Repeating it changes nothing."""
        self._is_closed = True
        if self.work is not None:
            self.work.cancel()
        self._parts = self._kept = ()
        self._made.clear()
        self._resize(-self._made_bytes)
        self._changed.set()

    def _resize(self, more: int) -> None:
        self._made_bytes += more
        self._count(more)


def _cut(parts: Parts, start: int, size: int) -> Iterator[tuple[list[memoryview], int]]:
    """Yield the bytes from `start` on, about `size` at once, as views of at most _SENT_BYTES, without copying."""
    found: list[memoryview] = []
    total = 0
    for part in parts:
        view = memoryview(part)
        skipped = min(start, len(view))
        start -= skipped
        view = view[skipped:]
        while view:
            piece = view[: min(_SENT_BYTES, size - total)]
            view = view[len(piece) :]
            found.append(piece)
            total += len(piece)
            if total == size:
                yield found, total
                found, total = [], 0
    if found:
        yield found, total
