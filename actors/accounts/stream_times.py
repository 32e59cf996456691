"""The unpaid time of ended gRPC streams, which counts on for the next stream of the same payer.

Implements: decisions, "Seconds of gRPC streams": streams of 56, 56 and 56 s cost what one of 168 s costs, over all
replicas. Each ended stream leaves its time by itself, less than a minute. A new stream takes one of them, the longest,
and goes on from there; so streams that follow each other pay as one stream, and two at the same time pay as two. The
longest: otherwise a client would leave a very short stream before each long one, and its long times would be forgotten.

The payer is the account, or a named key of it. A named key's time is taken by its own streams alone: its budgets bound
what it may spend, and neither the account nor another key pays for what it has used.

In memory alone. An owner that restarts forgets, in the customer's favour, and so does a replica that is killed: its
streams leave nothing. When full: an account and its keys leave at most LEFT_MAX times; beyond that the shortest is
dropped of the payer who has left most, so that no key makes the times of others be forgotten.
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
LEFT_MAX = 256  # Of one account; more than it can have streams in two replicas.
_NOTHING = StreamTimeReply(0)


class LeftTime(NamedTuple):
    """As one owner hands it to another. operation: of the stream. seconds: until it is forgotten."""

    pubkey: bytes
    key: int
    operation: bytes
    left_ms: int
    seconds: int


class _Kept(NamedTuple):
    """due: when it is forgotten."""

    due: int
    pubkey: bytes
    key: int
    operation: bytes


class StreamTimes:
    """Belongs to one owner."""

    def __init__(self) -> None:
        # Milliseconds by the operation of the stream, by the number of the key, by account.
        self._left: dict[bytes, dict[int, dict[bytes, int]]] = {}
        self._order: deque[_Kept] = deque()  # The earliest due first.
        # Replies, for requests that are sent again: the operation, with the letter of the request.
        self._told: ExpiringMap[bytes, StreamTimeReply] = ExpiringMap(_TOLD_SECONDS)

    def tell(self, request: StreamTime, now: int) -> StreamTimeReply:
        """Carry out a request once; asked again, it gets the same reply."""
        name = request.operation + (b"t" if request.left_ms is None else b"l")
        told = self._told.get(name)
        if told is None:
            self.forget(now)
            told = self._take(request) if request.left_ms is None else self._leave(request, request.left_ms, now)
            self._told.put(name, told, now)
        return told

    def forget(self, now: int) -> None:
        """Drop what was left KEPT_SECONDS ago."""
        while self._order and self._order[0].due <= now:
            self._drop(self._order.popleft())

    def leave(self, is_leaving: Callable[[bytes], bool], now: int) -> list[LeftTime]:
        """Take out what the accounts that leave have left."""
        self.forget(now)
        left: list[LeftTime] = []
        for kept in self._order:
            left_ms = self._drop(kept) if is_leaving(kept.pubkey) else None
            if left_ms is not None:
                left.append(LeftTime(kept.pubkey, kept.key, kept.operation, left_ms, kept.due - now))
        return left

    def come(self, left: Iterable[LeftTime], now: int) -> None:
        """Take in what `leave` has taken out elsewhere."""
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
        """The milliseconds; None: they were taken or dropped before."""
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
