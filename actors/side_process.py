"""Starts a program of this project as a separate process, sends it requests, and ends it.

For work that would hold Python's lock, and so block the event loop, in a thread of this process. A shell; the program's
side is side_program.py. It gets no secret: its environment is a few settings of libraries and the path of the code.

A user of the process calls `enter` before and `leave` after its work; the first user's request starts the process, and
it ends some seconds after the last `leave`. It also ends with this process, and when this process is killed, as its
connection ends then. When it is killed, or does not answer in time, the work that it had is lost, and the next
`started` starts another one. One request at a time is on its way; the others wait in the order in which they came. The
event loop copies about _SENT_BYTES at once, and does other work between two such copies.
"""

import asyncio
import contextlib
import logging
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from actors.background import Background
from actors.side_program import LENGTH_BYTES, Answer

IDLE_SECONDS = 60.0
_END_SECONDS_MAX = 2.0
_SENT_BYTES = 128 << 10
_PROJECT = str(Path(__file__).parents[1])  # The interpreter finds libraries by its own location.
# Nothing else of this process's environment, which has secrets. Large blocks that are free go back to the system.
_ENVIRONMENT = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1", "OMP_NUM_THREADS": "1"}


class ProcessLost(Exception):
    """The process ended, or was ended, and its work is lost."""


class RequestFailed(Exception):
    """The program failed at this request; the process continues. The text is the name of its error."""


class SideProcess:
    """Belongs to one event loop. Has no process while there was no work for a while.

    module: of the program. work: for the log, such as "encodes exports". answer_seconds_max: for one request; a process
    that takes longer is killed. Also for its start, as the first request waits for its imports.
    """

    def __init__(self, module: str, work: str, answer_seconds_max: float, idle_seconds: float = IDLE_SECONDS) -> None:
        self._module, self._work, self._answer_seconds_max = module, work, answer_seconds_max
        self._idle_seconds = idle_seconds
        self._logger = logging.getLogger(module)
        self._background = Background(self._logger, f"the process that {work} could not be ended")
        self._starting = asyncio.Lock()
        self._running: ProcessConnection | None = None
        self._users = 0
        self._idle: asyncio.TimerHandle | None = None

    @property
    def pid(self) -> int | None:
        return None if self._running is None else self._running.pid

    @property
    def running(self) -> "ProcessConnection | None":
        """The process that is there now, if it lives."""
        return None if self._running is None or self._running.has_ended() else self._running

    def enter(self) -> None:
        self._users += 1

    def leave(self) -> None:
        self._users -= 1
        if not self._users:
            if self._idle is not None:
                self._idle.cancel()
            self._idle = asyncio.get_running_loop().call_later(self._idle_seconds, self._end_idle)

    async def started(self) -> tuple["ProcessConnection", bool]:
        """Return the process, and whether it was started for this. Raises ProcessLost where it cannot be started."""
        async with self._starting:
            running = self.running
            if running is not None:
                return running, False
            if self._running is not None:
                self._running.lose()
            self._running = await self._start()
            return self._running, True

    async def _start(self) -> "ProcessConnection":
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with theirs:
            try:
                child = await asyncio.to_thread(self._spawn, theirs)  # Waits until the program has loaded.
            except OSError as error:
                ours.close()
                raise ProcessLost(f"it cannot be started: {error.strerror}") from error
        return ProcessConnection(child, ours, self._answer_seconds_max, self._lost)

    def _spawn(self, connection: socket.socket) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(  # noqa: S603 - this interpreter and a module of this project.
            [sys.executable, "-m", self._module],
            stdin=connection.fileno(),
            stdout=subprocess.DEVNULL,
            env={**_ENVIRONMENT, "PYTHONPATH": _PROJECT},
        )

    def tell(self, running: "ProcessConnection", request: msgspec.Struct) -> "asyncio.Task[None]":
        """Send a request whose answer nobody needs. The task ends when the process has answered, or is lost."""
        return self._background.start(_told(running, request))

    def _lost(self, lost: "ProcessConnection", error: str) -> None:
        self._logger.warning("the process that %s is lost: %s", self._work, error)
        self._background.start(lost.end())

    def _end_idle(self) -> None:
        if not self._users and self._running is not None:
            running, self._running = self._running, None
            self._background.start(running.end())

    async def close(self) -> None:
        await self._background.finish()
        if self._idle is not None:
            self._idle.cancel()
        running, self._running = self._running, None
        if running is not None:
            await running.end()


async def _told(running: "ProcessConnection", request: msgspec.Struct) -> None:
    with contextlib.suppress(ProcessLost, RequestFailed):
        await running.ask(request)


class ProcessConnection:
    """A process that runs. Its methods belong to the event loop of its SideProcess."""

    def __init__(
        self,
        child: "subprocess.Popen[bytes]",
        connection: socket.socket,
        answer_seconds_max: float,
        on_lost: Callable[["ProcessConnection", str], object],
    ) -> None:
        self._child, self._connection, self._on_lost = child, connection, on_lost
        self.answer_seconds_max = answer_seconds_max
        self._turn = asyncio.Lock()
        self._encoder, self._decoder = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(Answer)
        self.is_lost = False

    @property
    def pid(self) -> int:
        return self._child.pid

    def has_ended(self) -> bool:
        """Whether it is lost, also where nobody has noticed yet."""
        return self.is_lost or self._child.poll() is not None

    async def ask(self, request: msgspec.Struct, data: Iterable[bytes | memoryview] = ()) -> tuple[int, list[bytes]]:
        """Return the number and the pieces of the answer. Raises ProcessLost and RequestFailed.

        A started request continues when its caller is cancelled.
        """
        await self._turn.acquire()
        exchange = asyncio.get_running_loop().create_task(self._exchange(request, data))
        exchange.add_done_callback(self._exchanged)
        return await asyncio.shield(exchange)

    def _exchanged(self, exchange: "asyncio.Task[Any]") -> None:
        self._turn.release()
        if not exchange.cancelled():
            exchange.exception()  # Its caller may have left.

    async def _exchange(self, request: msgspec.Struct, data: Iterable[bytes | memoryview]) -> tuple[int, list[bytes]]:
        if self.is_lost:
            raise ProcessLost
        try:
            async with asyncio.timeout(self.answer_seconds_max):
                await self._send(request, data)
                answer = self._decoder.decode(await self._received(await self._length()))
                pieces = [await self._received(size) for size in answer.pieces]
        except (OSError, TimeoutError) as error:
            self.lose(type(error).__name__)
            raise ProcessLost from error
        except BaseException as error:
            self.lose(type(error).__name__)  # In the middle of a message.
            raise
        if answer.failure:
            raise RequestFailed(answer.failure)
        return answer.number, pieces

    async def _send(self, request: msgspec.Struct, data: Iterable[bytes | memoryview]) -> None:
        header = self._encoder.encode(request)
        waiting: list[bytes | memoryview] = [len(header).to_bytes(LENGTH_BYTES, "big"), header]
        size = 0
        for piece in data:
            waiting.append(piece)
            size += len(piece)
            if size >= _SENT_BYTES:
                await self._send_all(waiting)
                waiting, size = [], 0
        await self._send_all(waiting)

    async def _send_all(self, pieces: Sequence[bytes | memoryview]) -> None:
        await asyncio.get_running_loop().sock_sendall(self._connection, b"".join(pieces))
        await asyncio.sleep(0)  # A socket that accepts everything at once would block the event loop.

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

    def lose(self, error: str = "ended") -> None:
        """End it at once. error: why, for the log."""
        if not self.is_lost:
            self.is_lost = True
            self._child.kill()
            self._on_lost(self, error)

    async def end(self) -> None:
        """Let it end, and make sure that it does. Running requests fail."""
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
