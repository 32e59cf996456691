"""One WebSocket connection of a server: frames, pings, limits, closing. A shell around websockets' sans-I/O protocol.

Implements: interface, "WebSocket /ws" (ping every 25 s); threats 30 and 59. The handshake is over when this
begins (server.py). Not here: what messages mean.

- Frames are counted while they are parsed. A piece of 256 KiB can hold 43,000 empty pongs: 0.2 s of parsing. So
  it is parsed in slices of SLICE_BYTES. At the limit of frames the connection is closed with 4003, and the rest is
  dropped unparsed. After FRAMES_AT_ONCE frames or SLICES_AT_ONCE slices the loop gets its turn; nothing more is read of
  the client until everything that has come is parsed.
- Frames of every kind count, those of a client that has been told of the end too.

- A message above the limit is closed with 1009, a frame without a mask with 1002, text that is not UTF-8 with 1007.
- A client that answers no ping is closed after the second one.
- After a close frame the connection is still read for LINGER_SECONDS: unread bytes would turn the end of the connection
  into a reset, and the client would not see the close code. A client that has not taken what was written before that
  frame has TAKING_SECONDS_MAX for it.
- Writing never waits. A handler looks at `is_full` before it writes more, and keeps what it has in a bounded queue.
- While the connection is full no more is read of the client, whose pings would each add a pong. Its pongs are not read
  either, so it must take BUFFERED_BYTES_MAX between two pings, or it is closed like one that answers none. After a
  close frame pings get no pong.
- One connection may be given more than that at once, a large answer or several. `Backlog` bounds the bytes of all.
- A message that arrives slowly takes room of `UnfinishedMessages`; where there is none, the connection is closed with
  1013, and nothing more that comes over it is kept.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Protocol, cast

from websockets.frames import Frame, Opcode
from websockets.protocol import OPEN
from websockets.server import ServerProtocol

from actors.http_server.backlog import Backlog
from actors.http_server.unfinished_messages import SMALL_BYTES

logger = logging.getLogger(__name__)
_frames_logger = logging.getLogger(f"{__name__}.frames")  # websockets logs each connection at INFO.
_frames_logger.setLevel(logging.WARNING)

PING_SECONDS = 25.0
LINGER_SECONDS = 2.0
TAKING_SECONDS_MAX = 10.0
BUFFERED_BYTES_MAX = 64 << 10  # Bytes written but not read by the client; above it the connection is full.
SLICE_BYTES = 512  # At most 85 frames, which take half a millisecond to parse.
FRAMES_AT_ONCE, SLICES_AT_ONCE = 32, 256  # Of one connection in one turn of the loop: 1 to 2 ms of work.
# Bytes read and discarded after a client broke a rule, so that it sees the close code instead of a reset.
DROPPED_BYTES_MAX = 1 << 20
SERVICE_RESTART, INVALID_TEXT, TOO_SLOW, NO_PONG = 1012, 1007, 1013, 1011
RESTART_REASON = "service_restart: connect again and subscribe again; signals go on after `since`"
RATE_LIMITED = 4003  # Defined by the interface.
_UNANSWERED_PINGS_MAX = 2
_DATA = (Opcode.TEXT, Opcode.BINARY, Opcode.CONT)


class SocketHandler(Protocol):
    """Works on the messages of one connection. Nothing is called after `closed`."""

    def opened(self, socket: "WebSocket") -> None: ...

    def message(self, text: bytes) -> None:
        """Take one whole message, in UTF-8."""

    @property
    def is_busy(self) -> bool:
        """Return whether a message is being answered."""
        ...

    def writable(self) -> None:
        """Called when the connection is no longer full."""

    def closed(self) -> None:
        """Called once, when either side begins to close the connection."""


def text_frame(*parts: bytes) -> bytes:
    """Encode one text message made of these parts. A server's frames have no mask."""
    size = sum(map(len, parts))
    if size < 126:
        head = b"\x81" + size.to_bytes(1, "big")
    elif size < 1 << 16:
        head = b"\x81\x7e" + size.to_bytes(2, "big")
    else:
        head = b"\x81\x7f" + size.to_bytes(8, "big")
    return b"".join((head, *parts))


class WebSocket(asyncio.Protocol):
    """connections: of the server, which calls `shutdown` of each when it ends. per_second_max: frames of a client.

    resize: UnfinishedMessages.resize for the owner of this connection.
    """

    __slots__ = (
        *("_backlog", "_connections", "_discards", "_dropped", "_fragments", "_gives_up_at", "_handler", "_is_held"),
        "_leaves",
        *("_is_taken", "_loop", "_per_second_max", "_protocol", "_resize", "_room", "_seen", "_second"),
        *("_taken_before", "_timer", "_transport", "_turn", "_unanswered_pings", "_unread", "_written"),
        *("has_broken_a_rule", "is_full", "is_given_up", "is_open"),
    )

    def __init__(
        self,
        handler: SocketHandler,
        message_bytes_max: int,
        per_second_max: int,
        connections: set[Any] | None,
        backlog: Backlog,
        resize: Callable[[int, int], bool],
    ) -> None:
        self._handler, self._per_second_max, self._connections = handler, per_second_max, connections
        self._backlog, self._resize = backlog, resize
        self._protocol = ServerProtocol(state=OPEN, max_size=message_bytes_max, logger=_frames_logger)
        self._fragments = bytearray()  # One object: a list would cost more than its bytes when they arrive one by one.
        self._room = 0  # Bytes counted for this connection in UnfinishedMessages.
        self._unread = memoryview(b"")  # Bytes that wait to be parsed.
        self._turn: asyncio.Handle | None = None  # Turn of the event loop that continues parsing.
        self._discards = False  # True: nothing more is parsed.
        self._dropped = 0
        self._is_held = False  # True: the handler wants no more messages for now.
        self._leaves: tuple[int, str] | None = None  # The close that follows once the handler is not busy.
        self._unanswered_pings = self._seen = self._second = self._written = self._taken_before = 0
        self.is_open = True  # True until the handler is told of the end.
        self.has_broken_a_rule = False  # True: the client broke a rule, and the connection ends for that.
        self.is_given_up = False  # True: this side ended it, and the client had broken no rule.
        self.is_full = False
        self._timer: asyncio.TimerHandle | None = None

    # --- for the handler

    @property
    def taken_bytes(self) -> int:
        """Return how many bytes of the messages the client, or a buffer on the way, has taken."""
        return self._written - self._transport.get_write_buffer_size()

    def send_text(self, *parts: bytes) -> None:
        if self.is_open:
            frame = text_frame(*parts)
            self._written += len(frame)
            self._transport.write(frame)
            if self.is_full:
                self._backlog.holds(self, self._transport.get_write_buffer_size())

    def close(self, code: int, reason: str) -> None:
        """Begin to close, for a reason of this side. Repeating it changes nothing."""
        self.is_given_up = self.is_given_up or (self.is_open and not self._transport.is_closing())
        self._close(code, reason)

    def _close(self, code: int, reason: str) -> None:
        if self._protocol.state is OPEN and not self._transport.is_closing():
            self._protocol.send_close(code, reason)
            self._write_protocols()
        self._end()

    def leave(self, code: int, reason: str) -> None:
        """Close once all accepted messages are answered; no more are accepted. Repeating it changes nothing.

        Messages not accepted were not carried out, so the client may send them again elsewhere.
        """
        if self._leaves is None and self.is_open:
            self._leaves = (code, reason)
            self._look_at_reading()
            self.idle()

    def idle(self) -> None:
        """Called by the handler when it is no longer busy."""
        if self._leaves is not None and self.is_open and not self._handler.is_busy:
            self.close(*self._leaves)

    def drop(self) -> None:
        """End without a close frame, because a client that reads nothing would not get it."""
        self._transport.abort()
        self._end()

    def pause_reading(self) -> None:
        """Stop passing messages for now. Those of the slice being parsed still arrive."""
        self._is_held = True
        self._look_at_reading()

    def resume_reading(self) -> None:
        self._is_held = False
        self._look_at_reading()

    # --- for the server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._loop = asyncio.get_running_loop()
        self._transport.set_write_buffer_limits(high=BUFFERED_BYTES_MAX)
        if self._connections is not None:
            self._connections.add(self)
        self._timer = self._loop.call_later(PING_SECONDS, self._ping)
        self._handler.opened(self)

    def data_received(self, data: bytes) -> None:
        if self._protocol.eof_sent:
            return
        if self._discards:
            self._drop_unparsed(len(data))
            return
        self._unread = memoryview(bytes(self._unread) + data if self._unread else data)
        if self._turn is None:
            self._parse_some()

    def _parse_some(self) -> None:
        """Parse received bytes, until all is parsed, others need the event loop, or no more messages are accepted."""
        frames = slices = 0
        while self._unread and not self._waits:
            if frames >= FRAMES_AT_ONCE or slices >= SLICES_AT_ONCE:
                self._turn = self._loop.call_soon(self._go_on)
                break
            piece, self._unread = self._unread[:SLICE_BYTES], self._unread[SLICE_BYTES:]
            frames += self._parse(piece)
            slices += 1
        unfinished = len(self._protocol.reader.buffer) + len(self._fragments) + len(self._unread)
        if unfinished > SMALL_BYTES or self._room:
            self._find_room(unfinished)
        self._look_at_reading()

    def _go_on(self) -> None:
        self._turn = None
        self._parse_some()

    def _parse(self, piece: memoryview) -> int:
        """Accept the frames completed by this piece. Returns their number."""
        has_said_all = not self.is_open  # The close frame was written.
        self._protocol.receive_data(bytes(piece))
        frames = self._protocol.events_received()
        for frame in frames:
            if self._discards:
                break
            self._take(frame)  # type: ignore[arg-type]
        self._write_protocols(only_end=has_said_all)
        if self._protocol.state is not OPEN:
            self.has_broken_a_rule = self.has_broken_a_rule or self._protocol.parser_exc is not None
            self._end()
        return len(frames)

    @property
    def _waits(self) -> bool:
        """Return whether nothing of the client may be accepted now. An end is always accepted."""
        return self.is_open and (self.is_full or self._is_held or self._leaves is not None)

    def _look_at_reading(self) -> None:
        """Read from the client only when everything that it sent is parsed."""
        if self._transport.is_closing():
            return
        if self._unread and not self._waits and self._turn is None:
            self._turn = self._loop.call_soon(self._go_on)
        if self._unread or self._waits or self._dropped > DROPPED_BYTES_MAX:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _drop_unparsed(self, size: int) -> None:
        self._dropped += size
        self._look_at_reading()

    def eof_received(self) -> None:
        """The transport closes itself afterwards."""
        self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()
        self._backlog.let_go(self)
        self._discard()
        if self._turn is not None:
            self._turn.cancel()
        if self._timer is not None:
            self._timer.cancel()
        if self._connections is not None:
            self._connections.discard(self)
        # Cycles, which a flood of handshakes would leave to the garbage collector: 61 objects a connection, whose
        # collection holds the loop. A protocol and its generator hold each other, as do a handler and its socket.
        self._protocol.parser.close()
        del self._handler  # It is told nothing after the end.

    def pause_writing(self) -> None:
        self.is_full = True
        self._look_at_reading()

    def resume_writing(self) -> None:
        self.is_full = False
        self._backlog.let_go(self)
        if self.is_open:
            self._look_at_reading()
            self._handler.writable()

    def shutdown(self) -> None:
        """Close because the server ends."""
        self.close(SERVICE_RESTART, RESTART_REASON)

    # --- inside

    def _take(self, frame: Frame) -> None:
        second = int(self._loop.time())
        if second != self._second:
            self._second, self._seen = second, 0
        self._seen += 1
        if self._seen > self._per_second_max:
            self.breach(RATE_LIMITED, f"rate_limited: more than {self._per_second_max} messages in a second")
        elif not self.is_open:
            return
        elif frame.opcode in _DATA:
            if frame.fin:
                text = bytes(self._fragments + frame.data if self._fragments else frame.data)
                self._fragments.clear()
                if _is_utf8(text):
                    self._handler.message(text)
                else:
                    self.breach(INVALID_TEXT, "the message is not valid UTF-8")
            else:
                self._fragments += frame.data
        elif frame.opcode is Opcode.PONG:
            self._unanswered_pings = 0

    def breach(self, code: int, reason: str) -> None:
        """Close because the client broke a rule; nothing more of it is parsed."""
        self.has_broken_a_rule = self.has_broken_a_rule or self.is_open
        self._close(code, reason)
        self._discard()

    def _find_room(self, unfinished: int) -> None:
        wanted = unfinished if unfinished > SMALL_BYTES else 0
        if self._resize(self._room, wanted):
            self._room = wanted
            return
        self.close(TOO_SLOW, "too many messages are incomplete at the moment; connect again and send messages whole")
        self._discard()

    def _discard(self) -> None:
        """Discard the unfinished message, and everything after it."""
        self._discards = True
        self._dropped += len(self._unread)
        self._unread = memoryview(b"")
        self._protocol.reader.buffer.clear()
        self._fragments.clear()
        self._resize(self._room, 0)
        self._room = 0

    def _write_protocols(self, only_end: bool = False) -> None:
        for data in self._protocol.data_to_send():
            if self._transport.is_closing():
                return
            if data:
                if not only_end:
                    self._transport.write(data)
            elif self._transport.can_write_eof():
                self._transport.write_eof()

    def _ping(self) -> None:
        taken = self.taken_bytes
        if self.is_full and taken - self._taken_before >= BUFFERED_BYTES_MAX:
            self._unanswered_pings = 0
        self._taken_before = taken
        if self._unanswered_pings >= _UNANSWERED_PINGS_MAX:
            self._close(NO_PONG, "no pong came for two pings")
            return
        self._unanswered_pings += 1
        self._protocol.send_ping(b"")
        self._write_protocols()
        self._timer = self._loop.call_later(PING_SECONDS, self._ping)

    def _end(self) -> None:
        if not self.is_open:
            return
        self.is_open = False
        if self._timer is not None:
            self._timer.cancel()
        self._look_at_reading()  # The client's close frame must still arrive.
        self._gives_up_at = self._loop.time() + TAKING_SECONDS_MAX
        self._is_taken = not self._transport.get_write_buffer_size()
        self._timer = self._loop.call_later(LINGER_SECONDS, self._linger)
        self._handler.closed()

    def _linger(self) -> None:
        """End the connection LINGER_SECONDS after the client has read everything, or when that takes too long."""
        if self._is_taken or self._loop.time() >= self._gives_up_at:
            self._transport.abort()
            return
        self._is_taken = not self._transport.get_write_buffer_size()
        self._timer = self._loop.call_later(LINGER_SECONDS, self._linger)


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
