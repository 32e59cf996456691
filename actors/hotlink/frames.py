"""Frames over TCP for both ends of a hot link: messages, splitting, joining, tags, and detection of dead peers.

Implements: design, "Measured facts" (a bare framed link). A frame is its length in four bytes, big-endian, and that
many bytes: first a greeting (handshake.py), then messages that each end with a tag. A frame with only a tag is a
heartbeat. replica.py decides when to connect.

A message is one byte of kind and MessagePack `[frame, [[sequence, item], ...]]`. An answer has the same form with
replies for items, in the order in which they become ready; its `frame` acknowledges that frame, or is 0. No rule of any
context may live here.

A tag is a keyed BLAKE2b over all that this end has sent on this connection since the greeting. So a frame that was
changed, repeated, left out, moved, sent back to its sender or taken from another connection ends the connection before
it is decoded.

WebSocket was replaced: the masks, pings, queues and tasks of its library took more CPU than the calls. CPU per call
(hold, settle and notice of delivery; two processes of one machine, alternating runs, uvloop, which Ray's actors run on)
with the `websockets` library, and over bare frames:

| calls at once | replica, us | owner, us |
|---|---|---|
| 1 | 540, now 256 | 460, now 235 |
| 8 | 87, now 47 | 64, now 31 |
| 128 | 31, now 19 | 9.8, now 5.8 |

At one call at once, half of the rest is two writes to the socket on each side, and the wake-ups that they cause.

The CPU of tags, measured in the same way on a faster machine (best of twenty runs each, replica and owner together, us
a call): 67.9 without and 73.1 with them at one call at once, 15.3 and 17.5 at 8, 7.8 and 8.4 at 128. That is 0.7 us for
a frame at either end, and at most 1 % of a call's CPU in the whole product. AES-GCM, which would hide the contents too,
took 35 us a call at one call at once.

When full: the transport buffers bytes that the socket does not take. From OUTBOX_BYTES_MAX on, a connection is `full`,
and its user writes no new frames until it is not; frames that had to be written meanwhile are buffered too.
"""

import asyncio
import hashlib
import logging
import socket
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hmac import compare_digest
from typing import Any, cast

import msgspec

logger = logging.getLogger(__name__)

FRAME_BYTES_MAX = 16 << 20
OUTBOX_BYTES_MAX = 1 << 20
BEAT_SECONDS = 5.0  # Also the time limit of a connection's greeting.
SILENT_BEATS_MAX = 4  # A peer that sends nothing for so many beats counts as dead, after 20 to 25 seconds.
# A machine or a link that is lost is noticed by the system, which busy or stopped peers do not mislead: their system
# acknowledges for them. Seconds until probes begin, between two, and how many go unanswered; and milliseconds in which
# bytes that were sent must be acknowledged. macOS has no such limit, and only the beats.
_PROBES = (("TCP_KEEPIDLE", 1), ("TCP_KEEPINTVL", 1), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 4_000))
TAG_BYTES = 16

_LENGTH = struct.Struct(">I")
_HEARTBEAT = b""  # No message has this content.

_KINDS = tuple(bytes((number,)) for number in range(256))
_encode = msgspec.msgpack.Encoder().encode

# Marks on the wire in place of a reply. UNKNOWN: the owner does not know the outcome; ask again. FAILED: a bug of the
# owner; a second request would fail too, and would delay other requests of the replica. START_OVER: the owner has given
# up the replica, which must continue under another name. OF_THE_REPLICA is a sequence number that no request has; with
# it, START_OVER concerns the replica of the connection.
UNKNOWN, FAILED, START_OVER = None, False, True
OF_THE_REPLICA = 0


class AskAgain(Exception):
    """A handler cannot answer at the moment: the replica asks again, a little later each time."""


@dataclass(frozen=True, slots=True)
class MessageKind:
    """One kind of request. Its number is on the wire, and must never be reused for another meaning.

    is_notice: nobody waits for its answer, which may leave with the next one.
    """

    number: int
    request_type: Any
    reply_type: Any
    is_notice: bool = False

    def frame_decoder(self) -> Any:
        return _frame_decoder(self.request_type)

    def answer_decoder(self) -> Any:
        return _frame_decoder(self.reply_type | bool | None)


def message(kind: int, content: Any) -> bytes:
    """Encode a message. content: (frame, [(sequence, item), ...])."""
    return _KINDS[kind] + _encode(content)


def _frame_decoder(item: Any) -> Any:
    return msgspec.msgpack.Decoder(tuple.__class_getitem__((int, list[tuple[int, item]])))


class FrameTooLong(Exception):
    """The peer announces a longer frame than it may send now."""


class Splitter:
    """Splits a stream of bytes into frames, in time linear in its length, however the bytes arrive."""

    def __init__(self, frame_bytes_max: int) -> None:
        self.frame_bytes_max = frame_bytes_max  # May change between two frames.
        self._kept = bytearray()  # The beginning of a frame.
        self._wanted = _LENGTH.size  # Parse only when so many bytes are kept, so that a long frame is parsed once.

    def feed(self, data: bytes) -> Iterable[bytes]:
        """Return the frames that this data completes. The caller takes all of them, or stops using this splitter."""
        if not self._kept and len(data) >= _LENGTH.size:
            length = _LENGTH.unpack_from(data)[0]
            if len(data) == length + _LENGTH.size and length <= self.frame_bytes_max:
                return (data[_LENGTH.size :],)  # The usual case: exactly one frame.
        return self._cut(data)

    def _cut(self, data: bytes) -> Iterator[bytes]:
        if self._kept:
            self._kept += data
            if len(self._kept) < self._wanted:
                return
            data = bytes(self._kept)
            self._kept.clear()
        start, end = 0, len(data)
        self._wanted = _LENGTH.size
        while end - start >= _LENGTH.size:
            length = _LENGTH.unpack_from(data, start)[0]
            if length > self.frame_bytes_max:
                raise FrameTooLong(f"{length} bytes")
            stop = start + _LENGTH.size + length
            if stop > end:
                self._wanted = stop - start
                break
            yield data[start + _LENGTH.size : stop]
            start = stop
        if start < end:
            self._kept += data[start:]


def framed(content: bytes) -> bytes:
    return _LENGTH.pack(len(content)) + content


class FrameConnection(asyncio.Protocol, ABC):
    """One end of a connection. A subclass handles frames, and calls `stand` after the greeting."""

    def __init__(self, loop: asyncio.AbstractEventLoop, greeting_bytes_max: int) -> None:
        self.loop = loop
        self.standing = self.full = False
        self.ended = asyncio.Event()
        self._splitter = Splitter(greeting_bytes_max)
        self._silent_beats = 0
        self._dropped = False

    @abstractmethod
    def greeted(self, frame: bytes) -> None:
        """Take a frame of the greeting. An exception from here, or from `taken`, ends the connection."""

    @abstractmethod
    def taken(self, frame: bytes) -> None:
        """Take the content of a frame."""

    @abstractmethod
    def read(self) -> None:
        """Finish one read, after all of its frames were taken."""

    @abstractmethod
    def lost(self) -> None:
        """Clean up after the connection has ended."""

    def stand(self, sending_key: bytes, receiving_key: bytes) -> None:
        """End the greeting: from now on each frame of either end has a tag."""
        self._sent = hashlib.blake2b(key=sending_key, digest_size=TAG_BYTES)
        self._received = hashlib.blake2b(key=receiving_key, digest_size=TAG_BYTES)
        self.standing = True
        self._splitter.frame_bytes_max = FRAME_BYTES_MAX

    def greet(self, content: bytes) -> None:
        """Write a frame of the greeting, which has no tag."""
        if not self._dropped:
            self._transport.write(framed(content))

    def write(self, contents: list[bytes]) -> None:
        """Write a frame of each content, all at once. Does nothing when the connection has ended."""
        if self._dropped:
            return
        if len(contents) == 1:  # The usual case.
            frame = _LENGTH.pack(len(contents[0]) + TAG_BYTES) + contents[0]
            self._sent.update(frame)
            self._transport.write(frame + self._sent.digest())
            return
        parts: list[bytes] = []
        for content in contents:
            frame = _LENGTH.pack(len(content) + TAG_BYTES) + content
            self._sent.update(frame)
            parts += (frame, self._sent.digest())
        self._transport.write(b"".join(parts))

    def drop(self, reason: str) -> None:
        if not self._dropped:
            logger.warning("hot link to %s dropped: %s", self._transport.get_extra_info("peername"), reason)
            self.abandon()

    def abandon(self) -> None:
        """End the connection at once, and discard bytes not yet sent; `lost` is called in a later turn."""
        self._dropped, self.standing = True, False
        self._transport.abort()

    # --- what the loop calls --------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transports do not subclass asyncio's.
        self._transport.set_write_buffer_limits(high=OUTBOX_BYTES_MAX)
        if (connection := transport.get_extra_info("socket")) is not None:
            _probe(connection)
        self._timer = self.loop.call_later(BEAT_SECONDS, self._beat)

    def data_received(self, data: bytes) -> None:
        self._silent_beats = 0
        try:
            for frame in self._splitter.feed(data):
                if self.standing:
                    content = frame[:-TAG_BYTES]
                    self._received.update(_LENGTH.pack(len(frame)) + content)
                    if not compare_digest(self._received.digest(), frame[-TAG_BYTES:]):
                        self.drop("a frame is not the next one of the peer that proved itself")
                    elif content:  # An empty content is a heartbeat.
                        self.taken(content)
                else:
                    self.greeted(frame)
                if self._dropped:
                    return
            self.read()
        except FrameTooLong as error:
            self.drop(f"a frame is too long: {error}")
        except Exception:  # A bug, or a peer of another version: later frames on this connection cannot be trusted.
            logger.exception("hot link: a frame cannot be taken")
            self.drop("a frame cannot be taken")

    def pause_writing(self) -> None:
        self.full = True

    def resume_writing(self) -> None:
        self.full = False

    def connection_lost(self, error: Exception | None) -> None:
        self._dropped, self.standing = True, False
        self._timer.cancel()
        self.ended.set()
        self.lost()

    def _beat(self) -> None:
        """Send a heartbeat, and drop a peer that has been silent for too long.

        This counts beats, not seconds, so that a process that was stopped itself does not drop its peers. A peer that
        does not read its answers is not read from, so it counts as silent too.
        """
        if not self.standing:
            self.drop("no greeting in time")
        elif self._silent_beats == SILENT_BEATS_MAX:
            self.drop("the peer is silent")
        else:
            self._silent_beats += 1
            self._timer = self.loop.call_later(BEAT_SECONDS, self._beat)
            if not self.full:
                self.write([_HEARTBEAT])


def _probe(connection: Any) -> None:
    """Let the system end the connection about four seconds after the peer's machine is out of reach."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _PROBES:
        option = getattr(socket, name, None)
        if option is not None:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
