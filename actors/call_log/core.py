"""Collects the calls that ended in this process since the last `take`, with the fields that their account may see.

Implements: decisions, "Log of calls". Pure. On the path of every answer: one look-up of the account, and tuples which
hold no parameter, no answer and no object of the call. Not here: who is told to note (gateway), and
where the calls are kept (store.py).
"""

from typing import NamedTuple, TypeAlias

import msgspec

WAITING_MAX = 8_192  # Calls of all accounts that wait to be written: one second of a replica at full load.
WAITING_OF_ACCOUNT_MAX = (
    500  # With at most one batch more; So that the flood of one account leaves room for the others.
)
RESULT, NODE_ERROR = "result", "node_error"  # Outcomes of answered calls; those of others are names of the error table.
REFUSED = "refused"  # In a filter: every outcome from the error table.


class LoggedCall(msgspec.Struct, frozen=True, array_like=True):
    """at_ms: when it ended, Unix time. outcome: RESULT, NODE_ERROR or a constant of the error table. micros: from the
    whole request to the answer. credits: posted when it was answered. key: number of the named key that paid; 0: none.
    method: of the catalog; empty: the call named none that is in it."""

    at_ms: int
    method: str
    outcome: str
    micros: int
    credits: int
    request_id: str
    key: int = 0


class CallFilter(NamedTuple):
    """Which calls are wanted. None: any. key: 0: calls of no named key."""

    request_id: str | None = None
    method: str | None = None
    outcome: str | None = None
    key: int | None = None

    def has(self, call: LoggedCall) -> bool:
        return (
            (self.request_id is None or call.request_id == self.request_id)
            and (self.method is None or call.method == self.method)
            and (self.key is None or call.key == self.key)
            and (self.outcome is None or _is_outcome(call.outcome, self.outcome))
        )


ANY_CALL = CallFilter()


class CallsOfAccount(NamedTuple):
    """Calls to be written, oldest first. has_credits: whether the account had credits left, or paid one of them."""

    pubkey: bytes
    calls: tuple[LoggedCall, ...]
    has_credits: bool


# Of its request: key, seconds that it took, monotonic second of its end, request id, whether the account had credits
# left; then method, outcome and credits of the call. Plain tuples: of all forms they cost the least.
Noted: TypeAlias = tuple[tuple[int, float, float, str, bool], str, str, int]


class RecentCalls:
    """left_out: calls for which there was no room; its reader resets it."""

    def __init__(self) -> None:
        self._waiting: dict[bytes, list[Noted]] = {}
        self._room = WAITING_MAX
        self.left_out = 0

    def room_of(self, pubkey: bytes, count: int) -> list[Noted] | None:
        """Reserve room for this many calls of an account. Returns the list to append them to, or None."""
        waiting = self._waiting.get(pubkey)
        if waiting is None:
            waiting = self._waiting[pubkey] = []
        if self._room < count or len(waiting) >= WAITING_OF_ACCOUNT_MAX:
            self.left_out += count
            return None
        self._room -= count
        return waiting

    def take(self) -> list[tuple[bytes, list[Noted]]]:
        """Remove and return the collected calls by account; `of_account` converts them for storage."""
        taken, self._waiting, self._room = self._waiting, {}, WAITING_MAX
        return [(pubkey, noted) for pubkey, noted in taken.items() if noted]


def of_account(pubkey: bytes, noted: list[Noted], now: float, now_ms: int) -> CallsOfAccount:
    """now: monotonic seconds, of the same moment as now_ms."""
    calls = tuple(
        LoggedCall(
            now_ms - round((now - ended_at) * 1000), method, outcome, round(seconds * 1e6), credits, request, key
        )
        for (key, seconds, ended_at, request, _), method, outcome, credits in noted
    )
    return CallsOfAccount(pubkey, calls, any(shared[4] or credits > 0 for shared, _, _, credits in noted))


def _is_outcome(outcome: str, wanted: str) -> bool:
    return outcome not in (RESULT, NODE_ERROR) if wanted == REFUSED else outcome == wanted
