"""The unpaid time of ended gRPC streams, which counts on for the next stream of the same payer.

Implements: decisions, "Seconds of gRPC streams": streams of 56, 56 and 56 s cost what one of 168 s costs, over all
replicas. Each ended stream leaves its unpaid time, less than a minute. A new stream takes the longest of these times
and continues from there; so consecutive streams pay as one stream, and two concurrent ones pay as two. It takes the
longest, because otherwise a client could open a very short stream before each long one, and its long times would be
forgotten.

The payer is the account, or a named key of it. Only a named key's own streams take its time: its budgets bound its
spending, and neither the account nor another key pays for its use.

Kept only in memory. A restarted owner forgets the times, in the customer's favour, and the streams of a killed replica
leave none. When full: an account and its keys leave at most LEFT_MAX times; beyond that, the payer with most times
loses its shortest, so that no key can displace the times of others.
Pure: steady seconds are arguments. Not here: what a minute costs, and when it is due (metering/minutes.py).
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from actors.accounts.expiring_map import ExpiringMap
from actors.calls import StreamTime, StreamTimeReply
from actors.methods.prices import STREAMS

KEPT_SECONDS = STREAMS["grpc"]["unpaid_seconds_kept"]
_TOLD_SECONDS = 60  # A replica sends a request again for 15 s.
LEFT_MAX = 256  # Of one account; more streams than it can have in two replicas.
_NOTHING = StreamTimeReply(0)


class LeftTime(NamedTuple):
    """A time that one owner hands to another. operation: of the stream. seconds: until it is forgotten."""

    pubkey: bytes
    key: int
    operation: bytes
    left_ms: int
    seconds: int


class _Kept(NamedTuple):
    """due: when the time is forgotten."""

    due: int
    pubkey: bytes
    key: int
    operation: bytes


class StreamTimes:
    """Belongs to one owner."""

    def __init__(self) -> None:
        # Account -> number of the key -> operation of the stream -> milliseconds.
        self._left: dict[bytes, dict[int, dict[bytes, int]]] = {}
        self._order: deque[_Kept] = deque()  # Ordered by due time.
        # Replies for resent requests, by the operation with the letter of the request.
        self._told: ExpiringMap[bytes, StreamTimeReply] = ExpiringMap(_TOLD_SECONDS)

    def tell(self, request: StreamTime, now: int) -> StreamTimeReply:
        """Carry out a request once; a repeated request gets the same reply."""
        name = request.operation + (b"t" if request.left_ms is None else b"l")
        told = self._told.get(name)
        if told is None:
            self.forget(now)
            told = self._take(request) if request.left_ms is None else self._leave(request, request.left_ms, now)
            self._told.put(name, told, now)
        return told

    def forget(self, now: int) -> None:
        """Drop times that were left more than KEPT_SECONDS ago."""
        while self._order and self._order[0].due <= now:
            self._drop(self._order.popleft())

    def leave(self, is_leaving: Callable[[bytes], bool], now: int) -> list[LeftTime]:
        """Remove and return the times of leaving accounts."""
        self.forget(now)
        left: list[LeftTime] = []
        for kept in self._order:
            left_ms = self._drop(kept) if is_leaving(kept.pubkey) else None
            if left_ms is not None:
                left.append(LeftTime(kept.pubkey, kept.key, kept.operation, left_ms, kept.due - now))
        return left

    def come(self, left: Iterable[LeftTime], now: int) -> None:
        """Add times that another owner's `leave` returned."""
        for pubkey, key, operation, left_ms, seconds in left:
            self._left.setdefault(pubkey, {}).setdefault(key, {})[operation] = left_ms
            self._order.append(_Kept(now + seconds, pubkey, key, operation))
        self._order = deque(sorted(self._order))

    def _take(self, request: StreamTime) -> StreamTimeReply:
        left = self._left.get(request.pubkey, {}).get(request.key)
        if not left:
            return _NOTHING
        longest = max(left, key=left.__getitem__)
        reply = StreamTimeReply(left[longest])
        self._drop(_Kept(0, request.pubkey, request.key, longest))
        return reply

    def _leave(self, request: StreamTime, left_ms: int, now: int) -> StreamTimeReply:
        if left_ms <= 0:
            return _NOTHING
        pubkey, key, operation = request.pubkey, request.key, request.operation
        of_account = self._left.setdefault(pubkey, {})
        of_account.setdefault(key, {})[operation] = left_ms
        self._order.append(_Kept(now + KEPT_SECONDS, pubkey, key, operation))
        if sum(map(len, of_account.values())) > LEFT_MAX:
            most = max(of_account, key=lambda each: len(of_account[each]))
            self._drop(_Kept(0, pubkey, most, min(of_account[most], key=of_account[most].__getitem__)))
        return _NOTHING

    def _drop(self, kept: _Kept) -> int | None:
        """Remove a time; return its milliseconds. None: it was taken or dropped before."""
        of_account = self._left.get(kept.pubkey, {})
        left = of_account.get(kept.key, {})
        left_ms = left.pop(kept.operation, None)
        if not left:
            of_account.pop(kept.key, None)
        if not of_account:
            self._left.pop(kept.pubkey, None)
        return left_ms

    def __len__(self) -> int:
        return sum(len(left) for of_account in self._left.values() for left in of_account.values())
