"""The replica's side of the hot link: sends waiting calls to an owner as one frame, and reconnects after a break.

Implements: design, "Measured facts" (coalesced frames, few in flight of each kind; after a break the link connects
again, and sends unanswered requests again). Every request must be idempotent by its own operation id, because it is
sent again after a break, and when the owner did not know the outcome. owner.py is the other end.

Calls of one turn of the event loop wait for one flush at its end, which writes the frames of all kinds at once. The
last of some calls that were asked ahead flushes at once.

When full: while the transport's buffer is full, or two frames of a kind with at least FEW_CALLS calls are
in flight, calls wait on their lane; from UNANSWERED_MAX on, new work is refused.
"""

import asyncio
import logging
import math
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from actors.clock import Clock, SystemClock
from actors.hotlink.frames import FAILED, OF_THE_REPLICA, START_OVER, UNKNOWN, FrameConnection, MessageKind, message
from actors.hotlink.handshake import NONCE_BYTES, OWNER_PROOF_BYTES, PEER_BYTES, Transcript
from actors.hotlink.owner import GONE_SECONDS

logger = logging.getLogger(__name__)

FRAMES_IN_FLIGHT_MAX = 2  # Of one kind: one at work, one on the wire. More frames would only be smaller.
# While fewer calls of a kind are in flight, the next frame leaves whatever the number of frames. A frame of settles is
# answered when its group is durable, and the group waits for calls in flight (accounts/commits.py): calls that waited
# here would miss the group.
FEW_CALLS = 16
FRAME_ITEMS_MAX = 1_024  # Keeps a frame well under FRAME_BYTES_MAX, and the owner's turn short.
UNANSWERED_MAX = 20_000  # Per link. More calls are refused at once (LinkFull), and the gateway answers 503.
_SWEEP_SECONDS = 0.25
_CONNECT_SECONDS = 2.0
_RECONNECT_SECONDS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.0)  # On a local network an owner is back within seconds, or never.
_AGAIN_SECONDS = (0.1, 0.2, 0.4, 0.8, 1.0)
# An owner gives a replica up GONE_SECONDS after it lost the last connection of the replica. An answered frame reached
# the owner on a standing connection, and not before it was sent. The last second is left for the replica to act.
_HEARD_SECONDS = GONE_SECONDS - 1.0


class LinkFull(Exception):
    """Raised for new work while too many calls on this link are unanswered."""


class LinkTimeout(Exception):
    """No answer within the caller's timeout. The request may have been carried out."""


class LinkGivenUp(Exception):
    """The owner has given up the replica of this request, and did nothing."""


class _Call(msgspec.Struct, eq=False):  # A struct, as it is made twice for each call of a client.
    lane: "_Lane"
    sequence: int
    item: Any
    future: "asyncio.Future[Any]"
    deadline: float
    # A call is in one of three states: it waits on its lane, is in flight, or pauses before it is sent again.
    waits: bool = True
    pauses: bool = False
    again: int = 0


class _Lane:
    """One kind of request: the calls that wait, and the frames in flight."""

    __slots__ = ("decoder", "frames", "in_flight", "number", "waiting")

    def __init__(self, kind: MessageKind) -> None:
        self.number, self.decoder = kind.number, kind.answer_decoder()
        self.waiting: list[_Call] = []
        self.frames: dict[
            int, tuple[float, int]
        ] = {}  # Frames in flight: the time of sending, and the number of calls.
        self.in_flight = 0  # Calls in these frames.

    def may_send(self) -> bool:
        return len(self.frames) < FRAMES_IN_FLIGHT_MAX or self.in_flight < FEW_CALLS

    def sent(self, frame: int, now: float, calls: int) -> None:
        self.frames[frame] = now, calls
        self.in_flight += calls

    def acknowledged(self, frame: int) -> float:
        """Return when this frame was sent; -inf for a frame of an earlier connection."""
        sent_at, calls = self.frames.pop(frame, (-math.inf, 0))
        self.in_flight -= calls
        return sent_at


class Link:
    """One replica's connection to one owner. `resolve` returns the owner's (host, port) after each break."""

    def __init__(
        self,
        secret: bytes,
        kinds: tuple[MessageKind, ...],
        resolve: Callable[[], Awaitable[tuple[str, int]]],
        peer: bytes = bytes(PEER_BYTES),
        clock: Clock | None = None,
    ) -> None:
        self.secret, self.peer, self._resolve = secret, peer, resolve
        self._monotonic = (clock or SystemClock()).monotonic
        self.heard_until = 0.0  # Monotonic time. Until then the owner cannot have given this replica up.
        self.on_given_up: Callable[[], None] | None = None  # Must call start_over at once.
        # Called when a new connection is ready, perhaps to another owner.
        self.on_standing: Callable[[], None] | None = None
        self.on_unknown: Callable[[], None] | None = None  # The owner asks to be asked again.
        self._trusted_from = -math.inf  # Answers to earlier frames do not extend `heard_until`.
        self._lanes = {kind.number: _Lane(kind) for kind in kinds}
        self._calls: dict[int, _Call] = {}  # Unanswered, oldest first.
        self._asked = asyncio.Event()  # A call came since the latest sweep.
        self._sequence = self._frame = 0
        self._connection: _Connection | None = None  # None: not connected.
        self._flush_is_due = False
        self._loop: asyncio.AbstractEventLoop | None = None  # Kept because asyncio finds it by a system call.
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

    def unanswered_of(self, kind: MessageKind) -> list[Any]:
        """Requests of this kind that have no answer yet. Looks at all unanswered ones: not for the path of a call."""
        return [call.item for call in self._calls.values() if call.lane.number == kind.number]

    def start_over(self, peer: bytes) -> None:
        """Continue under another name, on a new connection; unanswered requests are sent again."""
        self.peer, self.heard_until = peer, 0.0
        if self._connection is not None:
            self._connection.drop("this replica starts over under another name")

    def distrust(self) -> None:
        """Restart `heard_until` with the next frame: the owner has just received requests of others."""
        self._trusted_from, self.heard_until = self._monotonic(), 0.0

    def take_out(self, is_elsewhere: Callable[[Any], bool]) -> "list[_Call]":
        """Remove unanswered calls whose requests another owner must answer; a late answer from this one is ignored."""
        found = [call for call in self._calls.values() if is_elsewhere(call.item)]
        for call in found:
            del self._calls[call.sequence]
        for lane in {call.lane for call in found if call.waits}:
            lane.waiting = [call for call in lane.waiting if call.sequence in self._calls]
        return found

    def take_in(self, call: "_Call") -> None:
        """Send a call that another link had removed, with its caller and its deadline."""
        loop = self._loop or self._running_loop()
        lane = self._lanes[call.lane.number]
        self._sequence += 1
        mine = self._calls[self._sequence] = _Call(lane, self._sequence, call.item, call.future, call.deadline)
        self._asked.set()
        lane.waiting.append(mine)
        if not self._flush_is_due and lane.may_send():
            self._flush_is_due = True
            loop.call_soon(self.flush)

    def call(
        self, kind: MessageKind, item: Any, wait_ms: int, new_work: bool = False, is_last: bool = False
    ) -> "asyncio.Future[Any]":
        """Send with the next frame. The future gives the reply, LinkTimeout after wait_ms, or LinkGivenUp.

        new_work: raises LinkFull when too many calls are unanswered. Calls that end admitted work (settles, voids) are
        never refused; the admitted work bounds their number. is_last: no call is expected to join its frame, which
        leaves now, and not at the end of this turn.
        """
        if new_work and len(self._calls) >= UNANSWERED_MAX:
            raise LinkFull
        loop = self._loop or self._running_loop()
        lane = self._lanes[kind.number]
        future: asyncio.Future[Any] = loop.create_future()
        self._sequence += 1
        call = self._calls[self._sequence] = _Call(lane, self._sequence, item, future, loop.time() + wait_ms / 1000)
        self._asked.set()
        lane.waiting.append(call)
        if is_last:
            self.flush()
        elif not self._flush_is_due and lane.may_send():
            self._flush_is_due = True
            loop.call_soon(self.flush)
        return future

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return self._loop

    # --- frames and answers ---------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write all frames that may be in flight now."""
        self._flush_is_due = False
        connection = self._connection
        if connection is None or connection.full or not connection.standing:
            return  # `stands` and `resume_writing` flush again.
        frames: list[bytes] = []
        try:
            for lane in self._lanes.values():
                while lane.waiting and lane.may_send():
                    frames.append(self._next_frame(lane))
        except Exception:  # A bug. The next connection carries all unanswered requests again.
            logger.exception("hot link: a frame cannot be made")
            connection.drop("a frame cannot be made")
        if frames:
            connection.write(frames)

    def _next_frame(self, lane: _Lane) -> bytes:
        taken = lane.waiting
        lane.waiting = taken[FRAME_ITEMS_MAX:]
        del taken[FRAME_ITEMS_MAX:]
        items = []
        for call in taken:
            call.waits = False
            items.append((call.sequence, call.item))
        self._frame += 1
        lane.sent(self._frame, self._monotonic(), len(items))
        return message(lane.number, (self._frame, items))

    def take_answer(self, answer: bytes) -> None:
        lane = self._lanes[answer[0]]
        frame, replies = lane.decoder.decode(answer[1:])
        if frame:
            sent_at = lane.acknowledged(frame)
            if sent_at >= self._trusted_from:
                self.heard_until = max(self.heard_until, sent_at + _HEARD_SECONDS)
            if lane.waiting and not self._flush_is_due:
                self._flush_is_due = True
                self._running_loop().call_soon(self.flush)
        for sequence, reply in replies:
            call = self._calls.get(sequence)
            if call is None:
                if sequence == OF_THE_REPLICA and self.on_given_up is not None:
                    self.on_given_up()
                continue
            if reply is UNKNOWN:
                self._ask_again(call)
                continue
            del self._calls[sequence]
            if call.future.done():
                continue
            if reply is START_OVER:
                call.future.set_exception(LinkGivenUp("the owner has given this replica up"))
            elif reply is FAILED:
                call.future.set_exception(LinkTimeout("the owner failed on this request"))
            else:
                call.future.set_result(reply)

    def _ask_again(self, call: _Call) -> None:
        """Send the same request again after a pause: the owner did not know the outcome, as its commit failed."""
        pause_seconds = _AGAIN_SECONDS[min(call.again, len(_AGAIN_SECONDS) - 1)]
        call.again += 1
        call.pauses = True
        if self.on_unknown is not None:
            self.on_unknown()
        self._running_loop().call_later(pause_seconds, self._queue_again, call)

    def _queue_again(self, call: _Call) -> None:
        """End the pause, unless a break has ended it and the call was sent on the next connection.

        Do not send a request a second time while its first copy is unanswered: the second copy could leave after the
        answer to the first was delivered, and the owner would record that answer as undelivered.
        """
        if call.sequence in self._calls and call.pauses:
            call.waits, call.pauses = True, False
            call.lane.waiting.append(call)
            self.flush()

    # --- the connection -------------------------------------------------------------------------------------------

    def stands(self, connection: "_Connection") -> None:
        self._connection = connection
        if self.on_standing is not None:
            self.on_standing()
        self.flush()

    def lost(self, connection: "_Connection") -> None:
        """Queue all unanswered calls again after a break, oldest first."""
        if connection is not self._connection:
            return
        self._connection = None
        for lane in self._lanes.values():
            lane.waiting, lane.frames, lane.in_flight = [], {}, 0
        for call in self._calls.values():
            call.waits, call.pauses = True, False
            call.lane.waiting.append(call)

    async def _keep_connected(self) -> None:
        attempt = 0
        while True:
            try:
                if await self._connect_once():
                    attempt = 0
            except (OSError, TimeoutError) as error:
                logger.info("hot link down: %s", error)
            except Exception:  # A bug. Try again, because every call depends on the connection.
                logger.exception("hot link down")
            await asyncio.sleep(_RECONNECT_SECONDS[min(attempt, len(_RECONNECT_SECONDS) - 1)])
            attempt += 1

    async def _connect_once(self) -> bool:
        """Connect, and wait until the connection ends. Returns whether its greeting succeeded."""
        host, port = await self._resolve()
        loop = self._running_loop()
        async with asyncio.timeout(_CONNECT_SECONDS):  # wait_for may swallow the cancelling by stop().
            _, connection = await loop.create_connection(lambda: _Connection(self, loop), host, port)
        try:
            await connection.ended.wait()
        except asyncio.CancelledError:
            connection.abandon()
            await connection.ended.wait()
            raise
        logger.info("hot link down: the connection to %s:%d ended", host, port)
        return connection.stood

    async def _sweep(self) -> None:
        loop = self._running_loop()
        while True:
            self._asked.clear()
            if not self._calls:
                await self._asked.wait()  # A link that nobody uses wakes nobody.
            await asyncio.sleep(_SWEEP_SECONDS)
            now = loop.time()
            late = [call for call in self._calls.values() if call.deadline < now or call.future.done()]
            for call in late:
                del self._calls[call.sequence]
                if not call.future.done():
                    call.future.set_exception(LinkTimeout("the owner did not answer in time"))
            for lane in {call.lane for call in late if call.waits}:
                lane.waiting = [call for call in lane.waiting if call.sequence in self._calls]


class _Connection(FrameConnection):
    def __init__(self, link: Link, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop, max(NONCE_BYTES, OWNER_PROOF_BYTES))
        self._link = link
        self._transcript: Transcript | None = None  # Set when the owner has sent its nonce.
        self.stood = False

    def greeted(self, frame: bytes) -> None:
        if self._transcript is None:
            if len(frame) != NONCE_BYTES:
                self.drop("its first frame is not the nonce of an owner")
                return
            self._transcript = Transcript(self._link.secret, frame, secrets.token_bytes(NONCE_BYTES), self._link.peer)
            self.greet(self._transcript.replica_proof())
        elif self._transcript.is_owner_proof(frame):
            self.stood = True
            self.stand(self._transcript.replica_key(), self._transcript.owner_key())
            self._link.stands(self)
        else:
            self.drop("the owner does not know the secret of the cluster")

    def taken(self, frame: bytes) -> None:
        self._link.take_answer(frame)

    def read(self) -> None:
        """Do nothing: futures wake the callers, and take_answer has scheduled the flush."""

    def lost(self) -> None:
        self._link.lost(self)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._link.flush()
