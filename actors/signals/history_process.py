"""Starts the process that encodes the rows of a replica's exports, sends it rows, and ends it.

Implements: decisions, "history of signals". A shell; what the process does is history_worker.py's. In threads of the
replica the same work held Python's lock so often that calls of other clients took up to thirty times as long.

The first export starts it. It ends IDLE_SECONDS after the last one, with the replica, and when the replica is killed,
as its connection ends then. When it is killed, or does not answer in time, the exports that it had are lost, and the
next export starts another process. One request at a time is on its way; the others wait, three of each export at most.
The event loop copies about _SENT_BYTES at once, and does other work between two such copies.
"""

import asyncio
import contextlib
import logging
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec
import orjson

from actors.background import Background
from actors.signals.history_worker import (
    LENGTH_BYTES,
    Answer,
    CloseExport,
    EndExport,
    OpenExport,
    PrepareSlice,
    Request,
    WriteSlice,
)

logger = logging.getLogger(__name__)

IDLE_SECONDS = 60.0
ANSWER_SECONDS_MAX = 20.0  # A slice takes some hundredths. Also for a start, whose imports take a second.
_END_SECONDS_MAX = 2.0
_SENT_BYTES = 128 << 10
_MODULE = "actors.signals.history_worker"
_PROJECT = str(Path(__file__).parents[2])  # Libraries are found by the interpreter's own place.
# Nothing else of this process's environment, which has secrets. Large blocks that are free go back to the system.
_ENVIRONMENT = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1", "OMP_NUM_THREADS": "1"}


class ProcessLost(Exception):
    """The process ended, or was ended, and with it the exports that it had."""


class NotEncoded(Exception):
    """The rows could not be read or encoded; the process goes on."""


class HistoryEncoder(Protocol):
    """One export. All raise ProcessLost and NotEncoded."""

    head: bytes

    async def prepare(self, reading: int, number: int, lines: Sequence[bytes], corrections: Sequence[bytes]) -> int:
        """Make of rows what `write` takes; return how many signals they are. See history_worker.PrepareSlice."""
        ...

    async def write(self, number: int) -> list[bytes]: ...

    async def end(self, told: Mapping[str, Any]) -> bytes: ...

    def close(self) -> None:
        """Forget the export. A second call changes nothing."""
        ...


class HistoryEncoding(Protocol):
    async def open(self, format_name: str) -> HistoryEncoder:
        """Begin an export. Raises ProcessLost and NotEncoded."""
        ...

    async def close(self) -> None: ...


class HistoryProcess:
    """Belongs to one event loop. Has no process while there was no export for a while."""

    def __init__(self, idle_seconds: float = IDLE_SECONDS) -> None:
        self._idle_seconds = idle_seconds
        self._background = Background(logger, "the process that encodes exports could not be ended")
        self._starting = asyncio.Lock()
        self._running: _Process | None = None
        self._exports: set[int] = set()
        self._last_export = 0
        self._idle: asyncio.TimerHandle | None = None

    @property
    def pid(self) -> int | None:
        return None if self._running is None else self._running.pid

    async def open(self, format_name: str) -> HistoryEncoder:
        self._last_export += 1
        number = self._last_export
        self._exports.add(number)
        try:
            running, head = await self._begun(OpenExport(number, format_name))
        except BaseException:
            self._left(number)
            raise
        return _ProcessEncoder(running, number, head, lambda: self._close(running, number))

    async def _begun(self, request: OpenExport) -> "tuple[_Process, bytes]":
        """Return the process that has the export now, and what comes before all rows."""
        while True:
            async with self._starting:
                is_new = self._running is None or self._running.is_lost
                running = await self._start() if self._running is None or is_new else self._running
                self._running = running
            try:
                _, pieces = await running.ask(request)
            except ProcessLost:
                if is_new:
                    raise
                continue  # It was killed while it had nothing to do, which shows only now.
            return running, b"".join(pieces)

    async def _start(self) -> "_Process":
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with theirs:
            try:
                child = await asyncio.to_thread(_spawn, theirs)  # Waits until the program is loaded.
            except OSError as error:
                ours.close()
                raise ProcessLost(f"it cannot be started: {error.strerror}") from error
        return _Process(child, ours, lambda lost: self._background.start(lost.end()))

    def _close(self, running: "_Process", number: int) -> None:
        if not running.is_lost:
            self._background.start(_closed(running, number))
        self._left(number)

    def _left(self, number: int) -> None:
        self._exports.discard(number)
        if not self._exports:
            if self._idle is not None:
                self._idle.cancel()
            self._idle = asyncio.get_running_loop().call_later(self._idle_seconds, self._end_idle)

    def _end_idle(self) -> None:
        if not self._exports and self._running is not None:
            running, self._running = self._running, None
            self._background.start(running.end())

    async def close(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        await self._background.finish()
        if self._running is not None:
            await self._running.end()


async def _closed(running: "_Process", number: int) -> None:
    with contextlib.suppress(ProcessLost, NotEncoded):
        await running.ask(CloseExport(number))


class _ProcessEncoder:
    def __init__(self, running: "_Process", export: int, head: bytes, on_close: Callable[[], None]) -> None:
        self.head = head
        self._running, self._export = running, export
        self._on_close: Callable[[], None] | None = on_close

    async def prepare(self, reading: int, number: int, lines: Sequence[bytes], corrections: Sequence[bytes]) -> int:
        sizes = sum(map(len, lines)), sum(map(len, corrections))
        events, _ = await self._running.ask(PrepareSlice(self._export, reading, number, *sizes), (*lines, *corrections))
        return events

    async def write(self, number: int) -> list[bytes]:
        return (await self._running.ask(WriteSlice(self._export, number)))[1]

    async def end(self, told: Mapping[str, Any]) -> bytes:
        return b"".join((await self._running.ask(EndExport(self._export, orjson.dumps(told))))[1])

    def close(self) -> None:
        on_close, self._on_close = self._on_close, None
        if on_close is not None:
            on_close()


def _spawn(connection: socket.socket) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(  # noqa: S603 - this interpreter and a module of this project.
        [sys.executable, "-m", _MODULE],
        stdin=connection.fileno(),
        stdout=subprocess.DEVNULL,
        env={**_ENVIRONMENT, "PYTHONPATH": _PROJECT},
    )


class _Process:
    def __init__(
        self, child: "subprocess.Popen[bytes]", connection: socket.socket, on_lost: Callable[["_Process"], object]
    ) -> None:
        self._child, self._connection, self._on_lost = child, connection, on_lost
        self._turn = asyncio.Lock()
        self._encoder, self._decoder = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(Answer)
        self.is_lost = False

    @property
    def pid(self) -> int:
        return self._child.pid

    async def ask(self, request: Request, data: Iterable[bytes] = ()) -> tuple[int, list[bytes]]:
        """Return the events and pieces of the answer. A request that has begun goes on when its caller is cancelled."""
        await self._turn.acquire()
        exchange = asyncio.get_running_loop().create_task(self._exchange(request, data))
        exchange.add_done_callback(self._exchanged)
        return await asyncio.shield(exchange)

    def _exchanged(self, exchange: "asyncio.Task[Any]") -> None:
        self._turn.release()
        if not exchange.cancelled():
            exchange.exception()  # Its caller may have gone.

    async def _exchange(self, request: Request, data: Iterable[bytes]) -> tuple[int, list[bytes]]:
        if self.is_lost:
            raise ProcessLost
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                await self._send(request, data)
                answer = self._decoder.decode(await self._received(await self._length()))
                pieces = [await self._received(size) for size in answer.pieces]
        except (OSError, TimeoutError) as error:
            logger.warning("the process that encodes exports is lost: %s", type(error).__name__)
            self._lose()
            raise ProcessLost from error
        except BaseException:
            self._lose()  # In the middle of a message.
            raise
        if answer.failure:
            raise NotEncoded(answer.failure)
        return answer.events, pieces

    async def _send(self, request: Request, data: Iterable[bytes]) -> None:
        header = self._encoder.encode(request)
        waiting, size = [len(header).to_bytes(LENGTH_BYTES, "big"), header], 0
        for piece in data:
            waiting.append(piece)
            size += len(piece)
            if size >= _SENT_BYTES:
                await self._send_all(waiting)
                waiting, size = [], 0
        await self._send_all(waiting)

    async def _send_all(self, pieces: Sequence[bytes]) -> None:
        await asyncio.get_running_loop().sock_sendall(self._connection, b"".join(pieces))
        await asyncio.sleep(0)  # A socket that takes everything at once lets nobody else go on.

    async def _length(self) -> int:
        return int.from_bytes(await self._received(LENGTH_BYTES), "big")

    async def _received(self, size: int) -> bytes:
        loop, found, at = asyncio.get_running_loop(), bytearray(size), 0
        view = memoryview(found)
        while at < size:
            count = await loop.sock_recv_into(self._connection, view[at:])
            if not count:
                raise ConnectionResetError
            at += count
        await asyncio.sleep(0)
        return bytes(found)

    def _lose(self) -> None:
        """End it at once."""
        if not self.is_lost:
            self.is_lost = True
            self._child.kill()
            self._on_lost(self)

    async def end(self) -> None:
        """Let it end, and see that it does. What is on its way fails."""
        self.is_lost = True
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        async with self._turn:  # Nobody waits for the socket any more when it is closed.
            self._connection.close()
        await asyncio.to_thread(self._reap)

    def _reap(self) -> None:
        try:
            self._child.wait(_END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
