"""The unpaid time of an account's ended gRPC streams, which counts on for the next stream.

Implements: decisions, "Seconds of gRPC streams": streams of 56, 56 and 56 s cost what one of 168 s costs, over all
replicas. Each ended stream leaves its time by itself, less than a minute. A new stream takes one of them, the longest,
and goes on from there; so streams that follow each other pay as one stream, and two at the same time pay as two. The
longest: otherwise a client would leave a very short stream before each long one, and its long times would be forgotten.

In memory alone. An owner that restarts forgets, in the customer's favour, and so does a replica that is killed: its
streams leave nothing. When full: an account leaves at most LEFT_MAX times; beyond that the shortest is dropped.
Pure: steady seconds are arguments. Not here: what a minute costs, and when it is due (metering/minutes.py).
"""

from collections import deque
from collections.abc import Callable, Iterable

from actors.accounts.expiring_map import ExpiringMap
from actors.calls import StreamTime, StreamTimeReply
from actors.methods.prices import STREAMS

KEPT_SECONDS = STREAMS["grpc"]["unpaid_seconds_kept"]
_TOLD_SECONDS = 60  # A replica sends a request again for 15 s.
LEFT_MAX = 256  # Of one account; more than it can have streams in two replicas.
_NOTHING = StreamTimeReply(0)


class StreamTimes:
    """Belongs to one owner."""

    def __init__(self) -> None:
        self._left: dict[bytes, dict[bytes, int]] = {}  # By account, by the operation of the stream.
        self._order: deque[tuple[int, bytes, bytes]] = deque()  # When each is forgotten, the earliest first.
        # Replies, for requests that are sent again: the operation, with the letter of the request.
        self._told: ExpiringMap[bytes, StreamTimeReply] = ExpiringMap(_TOLD_SECONDS)

    def tell(self, request: StreamTime, now: int) -> StreamTimeReply:
        """Carry out a request once; asked again, it gets the same reply."""
        key = request.operation + (b"t" if request.left_ms is None else b"l")
        told = self._told.get(key)
        if told is None:
            self.forget(now)
            told = self._take(request.pubkey) if request.left_ms is None else self._leave(request, now)
            self._told.put(key, told, now)
        return told

    def forget(self, now: int) -> None:
        """Drop what was left KEPT_SECONDS ago."""
        while self._order and self._order[0][0] <= now:
            _, pubkey, operation = self._order.popleft()
            self._drop(pubkey, operation)

    def leave(self, is_leaving: Callable[[bytes], bool], now: int) -> list[tuple[bytes, bytes, int, int]]:
        """Take out what the accounts that leave have left: account, operation, milliseconds, seconds until it is
        forgotten."""
        self.forget(now)
        mine = [(due, pubkey, operation) for due, pubkey, operation in self._order if is_leaving(pubkey)]
        left = [
            (pubkey, operation, self._left[pubkey][operation], due - now)
            for due, pubkey, operation in mine
            if operation in self._left.get(pubkey, {})
        ]
        for pubkey, operation, _, _ in left:
            self._drop(pubkey, operation)
        return left

    def come(self, left: Iterable[tuple[bytes, bytes, int, int]], now: int) -> None:
        """Take in what `leave` has taken out elsewhere."""
        for pubkey, operation, left_ms, seconds in left:
            self._left.setdefault(pubkey, {})[operation] = left_ms
            self._order.append((now + seconds, pubkey, operation))
        self._order = deque(sorted(self._order))

    def _take(self, pubkey: bytes) -> StreamTimeReply:
        left = self._left.get(pubkey)
        if not left:
            return _NOTHING
        longest = max(left, key=left.__getitem__)
        reply = StreamTimeReply(left[longest])
        self._drop(pubkey, longest)
        return reply

    def _leave(self, request: StreamTime, now: int) -> StreamTimeReply:
        assert request.left_ms is not None
        if request.left_ms <= 0:
            return _NOTHING
        left = self._left.setdefault(request.pubkey, {})
        left[request.operation] = request.left_ms
        self._order.append((now + KEPT_SECONDS, request.pubkey, request.operation))
        if len(left) > LEFT_MAX:
            self._drop(request.pubkey, min(left, key=left.__getitem__))
        return _NOTHING

    def _drop(self, pubkey: bytes, operation: bytes) -> None:
        left = self._left.get(pubkey, {})
        left.pop(operation, None)
        if not left:
            self._left.pop(pubkey, None)

    def __len__(self) -> int:
        return sum(map(len, self._left.values()))
