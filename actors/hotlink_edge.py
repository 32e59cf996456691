"""The edge's side of the hot link: coalesces, keeps at most two frames of a kind in flight, finds the owner again.

Implements: design, section 2. What travels, and the owner's side, is hotlink.py. Every request must be idempotent by
its own operation id: after a break, or when the owner could not say, it is sent again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from actors.hotlink import FAILED, FRAME_BYTES_MAX, PEER_BYTES, UNKNOWN, Kind, prove

logger = logging.getLogger(__name__)

FRAMES_IN_FLIGHT_MAX = 2  # Of one kind: one being worked on, one on the wire; more only spreads the same work thinner.
FRAME_ITEMS_MAX = 1_024  # Keeps a frame well under FRAME_BYTES_MAX and an owner's turn short.
UNANSWERED_MAX = 20_000  # Per link. Beyond it calls are refused at once (LinkFull), which the door turns into 503.
_SWEEP_SECONDS = 0.25
_RECONNECT_SECONDS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.0)  # Local network: an owner is back within seconds or not at all.


class LinkFull(Exception):
    """Too much is unanswered on this link already."""


class LinkTimeout(Exception):
    """No answer within the caller's time; whether the request was carried out is not known."""


@dataclass(slots=True)
class _Call:
    kind: int
    item: Any
    future: "asyncio.Future[Any]"
    deadline: float
    again: int = 0


@dataclass(slots=True)
class _Lane:
    """What waits and what flies of one kind."""

    decoder: Any
    waiting: list[int] = field(default_factory=list)
    frames: set[int] = field(default_factory=set)


class Link:
    """One edge's connection to one owner. `resolve` gives the owner's current (host, port); it is asked again after
    every break, so that a restarted owner is found wherever it now lives."""

    def __init__(
        self,
        secret: bytes,
        kinds: tuple[Kind, ...],
        resolve: Callable[[], Awaitable[tuple[str, int]]],
        peer: bytes = bytes(PEER_BYTES),
    ) -> None:
        self._secret, self._resolve, self._peer = secret, resolve, peer
        self._lanes = {kind.number: _Lane(msgspec.msgpack.Decoder(kind.reply_type | bool | None)) for kind in kinds}
        self._answer_decoder = msgspec.msgpack.Decoder(tuple[int, int, list[tuple[int, msgspec.Raw]]])
        self._encoder = msgspec.msgpack.Encoder()
        self._calls: dict[int, _Call] = {}
        self._sequence = self._frame = 0
        self._connection: ClientConnection | None = None
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._keep_connected()), asyncio.create_task(self._sweep())]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for call in self._calls.values():
            if not call.future.done():
                call.future.set_exception(LinkTimeout("the link was closed"))
        self._calls.clear()

    @property
    def connected(self) -> bool:
        return self._connection is not None

    @property
    def unanswered(self) -> int:
        return len(self._calls)

    def call(self, kind: Kind, item: Any, wait_ms: int, new_work: bool = False) -> "asyncio.Future[Any]":
        """Send with the next frame. The future gives the reply, or LinkTimeout after wait_ms.

        new_work: refused with LinkFull when too much is unanswered. What ends work that was admitted never is: there
        is no more of it than was admitted.
        """
        if new_work and len(self._calls) >= UNANSWERED_MAX:
            raise LinkFull
        loop = asyncio.get_running_loop()
        self._sequence += 1
        future: asyncio.Future[Any] = loop.create_future()
        self._calls[self._sequence] = _Call(kind.number, item, future, loop.time() + wait_ms / 1000)
        self._lanes[kind.number].waiting.append(self._sequence)
        self._wake.set()
        return future

    async def _keep_connected(self) -> None:
        attempt = 0
        while True:
            try:
                host, port = await self._resolve()
                async with connect(
                    f"ws://{host}:{port}",
                    compression=None,
                    max_size=FRAME_BYTES_MAX,
                    open_timeout=2,
                    proxy=None,
                    ping_interval=5,
                    ping_timeout=20,
                    close_timeout=1,
                ) as connection:
                    async with asyncio.timeout(5):  # wait_for may swallow the cancelling by stop().
                        nonce = await connection.recv()
                    assert isinstance(nonce, bytes), "hot link: the owner speaks first, in binary"
                    await connection.send(prove(self._secret, nonce, self._peer))
                    attempt = 0
                    await self._serve_connection(connection)
            except (OSError, TimeoutError, WebSocketException) as error:
                logger.info("hot link down: %s", error)
            except Exception:  # A bug, or an owner of another version: tried again, as every call depends on it.
                logger.exception("hot link down")
            finally:
                self._connection = None
                self._requeue()
            await asyncio.sleep(_RECONNECT_SECONDS[min(attempt, len(_RECONNECT_SECONDS) - 1)])
            attempt += 1

    async def _serve_connection(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._wake.set()
        async with asyncio.TaskGroup() as group:  # When either side fails, both end, and the connection is made anew.
            writer = group.create_task(self._write(connection))
            try:
                async for message in connection:
                    assert isinstance(message, bytes), "hot link frames are binary"
                    self._take_answer(message)
            finally:
                writer.cancel()

    async def _write(self, connection: ClientConnection) -> None:
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                for number, lane in self._lanes.items():
                    while lane.waiting and len(lane.frames) < FRAMES_IN_FLIGHT_MAX:
                        await connection.send(self._next_frame(number, lane))
        except ConnectionClosed:
            return

    def _next_frame(self, number: int, lane: _Lane) -> bytes:
        taken, lane.waiting = lane.waiting[:FRAME_ITEMS_MAX], lane.waiting[FRAME_ITEMS_MAX:]
        items = [(sequence, self._calls[sequence].item) for sequence in taken if sequence in self._calls]
        self._frame += 1
        lane.frames.add(self._frame)
        buffer = bytearray((number,))
        self._encoder.encode_into((self._frame, items), buffer, 1)
        return bytes(buffer)

    def _take_answer(self, message: bytes) -> None:
        frame, number, replies = self._answer_decoder.decode(message)
        lane = self._lanes[number]
        if frame:
            lane.frames.discard(frame)
            if lane.waiting:
                self._wake.set()
        for sequence, raw in replies:
            call = self._calls.get(sequence)
            if call is None:
                continue
            reply = lane.decoder.decode(raw)
            if reply is UNKNOWN:
                self._ask_again(sequence, call)
                continue
            del self._calls[sequence]
            if call.future.done():
                continue
            if reply is FAILED:
                call.future.set_exception(LinkTimeout("the owner failed on this request"))
            else:
                call.future.set_result(reply)

    def _ask_again(self, sequence: int, call: _Call) -> None:
        """The owner could not say (its commit failed): the same request again, a little later each time."""
        call.again += 1
        pause = min(0.05 * 2**call.again, 1.0)
        asyncio.get_running_loop().call_later(pause, self._queue_again, sequence)

    def _queue_again(self, sequence: int) -> None:
        call = self._calls.get(sequence)
        if call is not None and sequence not in self._lanes[call.kind].waiting:
            self._lanes[call.kind].waiting.append(sequence)
            self._wake.set()

    def _requeue(self) -> None:
        """After a break everything unanswered goes again, oldest first."""
        for lane in self._lanes.values():
            lane.waiting, lane.frames = [], set()
        for sequence in sorted(self._calls):
            self._lanes[self._calls[sequence].kind].waiting.append(sequence)

    async def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            now = loop.time()
            late = [sequence for sequence, call in self._calls.items() if call.deadline < now or call.future.done()]
            for sequence in late:
                call = self._calls.pop(sequence)
                if not call.future.done():
                    call.future.set_exception(LinkTimeout("the owner did not answer in time"))
