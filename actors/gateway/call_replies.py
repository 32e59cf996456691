"""The replies to calls, as the pipeline gives them to every door; the end of a hold before it is known.

Implements: design, section 4. Pure vocabulary. Not here: deciding how a call ends (outcomes.py), HTTP (replies.py).
"""

from collections.abc import Sequence

import msgspec

from actors.calls import Figures, HoldReply, Outcome, SettleRequest
from actors.errors import Err, Refusal
from actors.gateway.admission import AdmittedCall
from actors.upstream.replies import NodeAnswer

_RELEASED = int(Outcome.RELEASED)
_HOLD_DETAILS = {
    Err.AUTH_FAILED: "the credential is unknown, replaced or expired",
    Err.METHOD_NOT_ALLOWED: "this account is suspended",
}


class Reply(msgspec.Struct):
    """The reply to one call: the node's answer, or a refusal. credits_remaining: the newest figure that is known.

    charge: posted for the answer. told: the number of the owner's message that gave credits_remaining; messages with
    higher numbers are newer. posted: credits that others than this replica's charge have posted for the answer.
    """

    id: bytes
    answer: NodeAnswer | None
    refusal: Refusal | None
    credits_remaining: int = 0
    charge: SettleRequest | None = None
    told: int = 0
    posted: int = 0


class Replies(msgspec.Struct):
    """The replies to one request. refusal: of the whole request, which then has no items. figures: None when not known.

    credits_remaining: None where the account is not known, and the figures tell only a rate.
    """

    items: Sequence[Reply]
    refusal: Refusal | None
    figures: Figures | None
    credits_remaining: int | None = 0
    pubkey: bytes = b""  # Of the account, where calls of a batch were granted.
    repeated: bool = False  # The answer was kept from an earlier request (idempotent_calls.py).

    def errs(self) -> list[Err]:
        """The refusal of the whole request, or those of its calls."""
        if self.refusal is not None:
            return [self.refusal.err]
        return [item.refusal.err for item in self.items if item.refusal is not None]


def whole(held: HoldReply) -> Replies:
    assert held.refusal is not None
    err = Err[held.refusal]
    remaining = 0 if held.figures is None else held.figures.credits_remaining
    return Replies((), Refusal(err, _HOLD_DETAILS.get(err, "")), held.figures, remaining)


def release_of(admitted: AdmittedCall, operation: bytes, held: HoldReply, held_at: int) -> SettleRequest:
    plan = admitted.plan
    return SettleRequest(operation, held.pubkey, held.epoch, plan.method, plan.ceiling, 0, _RELEASED, held_at)


def ended(raw_id: bytes, end: NodeAnswer | Refusal) -> Reply:
    """The reply to a call that ended for free, before anything was held."""
    return Reply(raw_id, None, end) if isinstance(end, Refusal) else Reply(raw_id, end, None)
