"""The streams of one connection, each with one transaction.

Implements: a transaction comes in pieces and ends with its stream. It has at most 4,096 bytes, and a stream that
pauses for more than two seconds is dropped.
Pure: times are arguments. Not here: QUIC (connection.py), executing transactions (chain/chain.py).
"""

from dataclasses import dataclass, field

STREAM_BYTES_MAX = 4_096
PAUSE_SECONDS_MAX = 2.0


class StreamTooLong(Exception):
    """The stream has more bytes than a transaction can have."""


@dataclass(slots=True)
class _Partial:
    data: bytearray
    at_seconds: float


@dataclass(slots=True)
class Streams:
    _open: dict[int, _Partial] = field(default_factory=dict)
    _dropped: set[int] = field(default_factory=set)

    @property
    def has_open(self) -> bool:
        return bool(self._open)

    def receive(self, stream: int, data: bytes, ends: bool, now_seconds: float) -> bytes | None:
        """Add a piece; returns the whole transaction when its stream has ended. Raises StreamTooLong."""
        if stream in self._dropped:
            if ends:
                self._dropped.discard(stream)
            return None
        partial = self._open.get(stream)
        size = len(data) + (0 if partial is None else len(partial.data))
        if size > STREAM_BYTES_MAX:
            raise StreamTooLong
        if ends:
            if partial is None:
                return data
            del self._open[stream]
            return bytes(partial.data) + data
        if partial is None:
            self._open[stream] = _Partial(bytearray(data), now_seconds)
        else:
            partial.data += data
            partial.at_seconds = now_seconds
        return None

    def forget(self, stream: int) -> bool:
        """Forget a stream that the peer has reset; False if it was not open."""
        self._dropped.discard(stream)
        return self._open.pop(stream, None) is not None

    def drop_stalled(self, now_seconds: float) -> list[int]:
        """Drop streams that have paused too long; their further pieces are ignored."""
        stalled = [
            stream for stream, partial in self._open.items() if now_seconds - partial.at_seconds > PAUSE_SECONDS_MAX
        ]
        for stream in stalled:
            del self._open[stream]
            self._dropped.add(stream)
        return stalled
