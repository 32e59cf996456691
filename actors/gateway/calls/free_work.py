"""Limits the work of nodes that one account may cause for nothing, by methods that take many calls to a node.

Implements: decisions, "Free work of nodes"; money rule 1 (a call that fails is released, whatever it took); threat 75.
FreeWork is pure: times are arguments. Reads is the shell by which pipeline.py asks for what is composed.

Each call to a node that nobody pays for takes its part of a minute, which `per_minute` of them fill. An account that
has used up its minute waits until the part that is above it has gone by. So what an account causes in the long run is
bounded, however much it had under way at once. Each replica counts for itself, as it does for refused calls.

What happens when full: accounts beyond ACCOUNTS_MAX that have used a part of their minute are not counted.
"""

import math
from collections.abc import Coroutine
from typing import Any

from actors.clock import Clock
from actors.errors import Err, Refusal
from actors.gateway.calls.admission import Plan
from actors.methods import prices
from actors.methods.catalog import METHODS
from actors.methods.prices import Availability
from actors.upstream import replies
from actors.upstream.node_work import NodeWork, counting
from actors.upstream.replies import AbsentAnswer, AnswerKind, Node, NodeAnswer, PiecesAnswer

PER_MINUTE = 600
ACCOUNTS_MAX = 20_000
MINUTE_SECONDS = 60.0
DEBT_SECONDS_MAX = 600.0  # Longest wait of an account, however many calls it had in flight.
LIMITED = frozenset(
    (
        *(row.name for row in METHODS.values() if row.availability is Availability.COMPOSED),
        *(row.name for row in prices.BULK),
    )
)
_DETAIL = "look-ups of this account that failed, and cost nothing, have made nodes work too much; it has to wait"


def unpaid_calls(answer: NodeAnswer | None, calls: int) -> int:
    """Return how many node calls of this answer are not charged. None: the client left before it."""
    if answer is None:
        return calls
    if isinstance(answer, PiecesAnswer):
        return -(-calls * (answer.pieces - answer.done) // answer.pieces)
    if answer.kind is AnswerKind.RESULT or isinstance(answer, AbsentAnswer):
        return 0
    # A node that cannot be reached is not the account's fault, and neither is what was asked before for nothing.
    return 0 if answer.kind is AnswerKind.UNREACHABLE else max(1, calls)


class FreeWork:
    """Free work at one replica. per_minute: node calls that an account may cause for nothing."""

    def __init__(self, per_minute: int = PER_MINUTE) -> None:
        self._call_seconds = MINUTE_SECONDS / per_minute
        self._clear_at: dict[bytes, float] = {}  # For each account, when its used part of the minute is over.

    def refusal(self, pubkey: bytes, now: float) -> Refusal | None:
        """Return a refusal for this account, with the seconds to wait, or None. now: monotonic."""
        clear_at = self._clear_at.get(pubkey)
        if clear_at is None:
            return None
        wait_seconds = math.ceil(clear_at - now - MINUTE_SECONDS)
        return Refusal(Err.RATE_LIMITED, _DETAIL, retry_seconds=wait_seconds) if wait_seconds > 0 else None

    def count(self, pubkey: bytes, calls: int, now: float) -> None:
        """Count node calls that this account caused and did not pay for."""
        if not calls:
            return
        if pubkey not in self._clear_at and len(self._clear_at) >= ACCOUNTS_MAX:
            self._clear_at = {name: at for name, at in self._clear_at.items() if at > now}
            if len(self._clear_at) >= ACCOUNTS_MAX:
                return
        clear_at = max(now, self._clear_at.get(pubkey, now)) + calls * self._call_seconds
        self._clear_at[pubkey] = min(clear_at, now + MINUTE_SECONDS + DEBT_SECONDS_MAX)


class Reads:
    """Asks the node for calls that are held; limits and counts composed methods."""

    def __init__(self, node: Node, clock: Clock, free_work: FreeWork | None = None) -> None:
        self._node, self._clock, self._free_work = node, clock, free_work or FreeWork()

    def call(self, plan: Plan, params: bytes, pubkey: bytes) -> Coroutine[Any, Any, NodeAnswer]:
        """Make this account's call. RATE_LIMITED: its failed calls caused too much free work of nodes."""
        if plan.method not in LIMITED:
            return self._node.call(plan.method, params, plan.timeout_ms)
        return self._limited(plan, params, pubkey)

    async def _limited(self, plan: Plan, params: bytes, pubkey: bytes) -> NodeAnswer:
        refusal = self._free_work.refusal(pubkey, self._clock.monotonic())
        if refusal is not None:
            return replies.refused(refusal)
        work, answer = NodeWork(), None
        try:
            answer = await counting(work, self._node.call, plan.method, params, plan.timeout_ms)
        finally:
            self._free_work.count(pubkey, unpaid_calls(answer, work.calls), self._clock.monotonic())
        return answer
