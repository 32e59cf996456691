"""Ends calls: judges the price of an answer, and makes the replies that the pipeline gives to every door.

Implements: design, "One billed call"; money rule 1 and "pricing" (`outcomes`); interface rule 3 (a purged block is
refunded); threats 14 and 15.
Pure. This is the whole rule of charging for methods that the node answers:

| The node                                             | Charged | The client gets        |
|------------------------------------------------------|---------|------------------------|
| answers with a result                                | yes     | the result             |
| is not asked: the cache has its result               | in part | the result             |
| answers with a JSON-RPC error                        | yes     | the node's error       |
| says of a getBlock that the block is cleaned up      | no      | the node's error       |
| says of a getBlock that the block is not available   | no      | the node's error       |
| says that it does not have the method                | no      | the node's error       |
| answers part of a composed method with an error      | no      | the node's error       |
| has not what a composed method was asked for         | yes     | an error that says so  |
| does not answer within the class's time              | no      | TIMEOUT                |
| cannot be reached, or its connection breaks          | no      | BACKEND_UNAVAILABLE    |
| answers with something that is no answer, or huge    | no      | BACKEND_UNAVAILABLE    |
| takes no more calls (HTTP 429)                       | no      | 503                    |

The block engine's answers to bundles are judged as a node's. A call that is refused after its hold costs nothing.
A list that is priced by the item (`/bulk/*`) costs its items that succeeded; the rest of its hold is released.
"""

from collections.abc import Sequence
from types import MappingProxyType

import msgspec

from actors.calls import OTHER_PRICES, Figures, HoldReply, Outcome, ProvenProof, SettleReply, SettleRequest
from actors.errors import Err, Refusal
from actors.gateway.calls.admission import AdmittedCall, Plan
from actors.gateway.calls.known_accounts import KnownAccount
from actors.methods.catalog import METHODS
from actors.methods.prices import Availability
from actors.upstream.account_view import AccountView
from actors.upstream.replies import (
    CACHE_HIT,
    AbsentAnswer,
    AnswerKind,
    NodeAnswer,
    PiecesAnswer,
    RefusedAnswer,
    is_purged_block,
    is_unavailable_block,
)

# The same table for GET /pricing: for each outcome, whether the method's credits are charged.
PUBLISHED: MappingProxyType[str, bool] = MappingProxyType(
    {
        "result": True,
        "cached_result": True,
        "upstream_error": True,
        "purged_block": False,
        "block_not_available": False,
        "method_unknown_to_node": False,
        "composed_method_upstream_error": False,
        "composed_method_nothing_found": True,
        "bulk_item_completed": True,
        "bulk_item_failed": False,
        "timeout": False,
        "upstream_unreachable": False,
        "upstream_invalid_answer": False,
        "upstream_overloaded": False,
        "refused_before_admission": False,
        "client_left_before_answer": False,
        "client_left_after_answer": True,
    }
)
_HOLD_DETAILS = {
    Err.AUTH_FAILED: "the credential is unknown, replaced, expired or frozen, or not for this origin or address",
    Err.METHOD_NOT_ALLOWED: "this account is suspended",
}


PRICES_CHANGED = Refusal(
    Err.SERVICE_TEMPORARILY_UNAVAILABLE, "the prices of this account changed while the call was priced; ask again"
)
_NOT_FOR_KEY = Refusal(Err.METHOD_NOT_ALLOWED, "this API key is not allowed to call it")
_ANSWERED = int(Outcome.ANSWERED)


class Judgement(msgspec.Struct, frozen=True):
    """charged: credits to post; 0: release the hold. refusal: for the client, in place of the node's answer."""

    charged: int
    outcome: int  # An Outcome.
    refusal: Refusal | None = None


_RELEASED = Judgement(0, int(Outcome.RELEASED))
_NO_ANSWER = MappingProxyType(
    {
        AnswerKind.TIMED_OUT: Refusal(Err.TIMEOUT),
        AnswerKind.UNREACHABLE: Refusal(Err.BACKEND_UNAVAILABLE),
        AnswerKind.GARBAGE: Refusal(Err.BACKEND_UNAVAILABLE, "the node's answer could not be understood"),
        AnswerKind.OVERSIZED: Refusal(Err.BACKEND_UNAVAILABLE, "the node's answer is larger than this service takes"),
    }
)
_NOT_RECORDED = Refusal(
    Err.SERVICE_TEMPORARILY_UNAVAILABLE, "the charge could not be recorded; nothing is charged for this call"
)
_METHOD_NOT_FOUND_CODE = -32601
# These take several questions to the node; an error to one of them is no answer to the call.
_COMPOSED = frozenset(row.name for row in METHODS.values() if row.availability is Availability.COMPOSED)


def refusal_of(answer: NodeAnswer) -> Refusal | None:
    """Return the refusal for the client if the node gave no answer; else None."""
    if isinstance(answer, RefusedAnswer):
        return answer.refusal
    return None if answer.answered else _NO_ANSWER[answer.kind]


def judge(method: str, ceiling: int, answer: NodeAnswer, cached_ceiling: int = 0) -> Judgement:
    """Judge a node's answer. ceiling: the price fixed by the hold; a fixed-price call costs all of it or nothing, and
    cached_ceiling where the answer comes from the cache; 0: there is no such price."""
    if answer.kind is AnswerKind.RESULT:
        if isinstance(answer, PiecesAnswer):
            return _by_the_piece(ceiling, answer)
        if cached_ceiling and answer.cache == CACHE_HIT:
            return Judgement(min(cached_ceiling, ceiling), _ANSWERED)
        return Judgement(ceiling, _ANSWERED)
    if isinstance(answer, AbsentAnswer):
        return Judgement(ceiling, _ANSWERED)
    if answer.kind is AnswerKind.ERROR:
        return _RELEASED if _is_free(method, answer) else Judgement(ceiling, int(Outcome.UPSTREAM_ERROR))
    if isinstance(answer, RefusedAnswer):
        return Judgement(0, int(Outcome.RELEASED), answer.refusal)
    return Judgement(0, int(Outcome.RELEASED), _NO_ANSWER[answer.kind])


def _is_free(method: str, error: NodeAnswer) -> bool:
    if method in _COMPOSED or error.error_code == _METHOD_NOT_FOUND_CODE:
        return True
    said = error.error_code, error.error_message
    return method == "getBlock" and (is_purged_block(*said) or is_unavailable_block(*said))


def _by_the_piece(ceiling: int, answer: PiecesAnswer) -> Judgement:
    assert ceiling % answer.pieces == 0, (ceiling, answer.pieces)
    charged = ceiling // answer.pieces * answer.done
    return Judgement(charged, int(Outcome.ANSWERED)) if charged else _RELEASED


# --- replies ----------------------------------------------------------------------------------------------------------


class Reply(msgspec.Struct):
    """The reply to one call: the node's answer, or a refusal. credits_remaining: as in Replies.

    charge: posted for the answer. told: the number of the owner's message that gave credits_remaining; messages with
    higher numbers are newer. posted: credits that others than this replica's charge have posted for the answer.
    operation: the one by which they did.
    """

    id: bytes
    answer: NodeAnswer | None
    refusal: Refusal | None
    credits_remaining: int | None = None
    charge: SettleRequest | None = None
    told: int = 0
    posted: int = 0
    operation: bytes = b""


class Replies(msgspec.Struct):
    """The replies to one request. refusal: of the whole request, which then has no items. figures: None when not known.

    credits_remaining: the newest figure; None where none is known, of an unknown account or because its owner could not
    tell what became of a charge. It is then told to nobody: a client that reads 0 deposits.
    """

    items: Sequence[Reply]
    refusal: Refusal | None
    figures: Figures | None
    credits_remaining: int | None = None
    payer: ProvenProof | None = None  # The confirmed account or named key, where its owner told it.
    repeated: bool = False  # The answer was stored by an earlier request (calls/idempotent.py).

    def first_refusal(self) -> Refusal:
        """Return the refusal of the first reply, which is one."""
        refusal = self.items[0].refusal
        assert refusal is not None
        return refusal

    def errs(self) -> list[Err]:
        """Return the refusal of the whole request, or those of its calls."""
        if self.refusal is not None:
            return [self.refusal.err]
        return [item.refusal.err for item in self.items if item.refusal is not None]


def whole(held: HoldReply) -> Replies:
    assert held.refusal is not None
    remaining = None if held.figures is None else held.figures.credits_remaining
    if held.refusal == OTHER_PRICES:
        refusal = PRICES_CHANGED
    else:
        err = Err[held.refusal]
        refusal = Refusal(err, _HOLD_DETAILS.get(err, ""))
    return Replies((), refusal, held.figures, remaining, payer_of(held))


def payer_of(held: HoldReply) -> ProvenProof | None:
    """Return the payer, if the owner confirmed the credential; otherwise the reply has no figures."""
    return None if held.figures is None else held.payer


def not_held(verdict: str, ceiling: int, credits_remaining: int) -> Refusal:
    """The refusal of one call by its verdict. ceiling: its price. credits_remaining: of the same reply of the owner."""
    err = Err[verdict]
    if err is Err.METHOD_NOT_ALLOWED:
        return _NOT_FOR_KEY
    return Refusal(err, credits=(ceiling, credits_remaining) if err is Err.INSUFFICIENT_CREDITS else None)


def one_not_held(admitted: AdmittedCall, held: HoldReply) -> Replies:
    """Make the reply to a single call that its owner refused to hold."""
    assert held.figures is not None
    verdict, remaining = held.verdicts[0], held.figures.credits_remaining
    assert verdict is not None
    reply = Reply(admitted.id, None, not_held(verdict, admitted.plan.ceiling, remaining))
    return Replies((reply,), None, held.figures, remaining, held.payer)


def settle_of(
    plan: Plan,
    operation: bytes,
    held: HoldReply | KnownAccount,
    ending: Judgement,
    held_at: int,
    evidence: str = "",
    view: AccountView | None = None,
) -> SettleRequest:
    """The end of a call's hold by the judgement of its answer. view: of the account, where the read is monotonic."""
    charged = ending.charged
    return SettleRequest(
        operation,
        held.pubkey,
        held.epoch,
        plan.method,
        plan.ceiling,
        charged,
        ending.outcome,
        held_at,
        evidence if charged else "",
        held.key,
        None if view is None else view.shown(),
    )


def release_of(admitted: AdmittedCall, operation: bytes, held: HoldReply | KnownAccount, held_at: int) -> SettleRequest:
    plan = admitted.plan
    return SettleRequest(
        *(operation, held.pubkey, held.epoch, plan.method, plan.ceiling, 0, _RELEASED.outcome, held_at), key=held.key
    )


def settled_reply(
    raw_id: bytes,
    answer: NodeAnswer,
    ending: Judgement,
    settle: SettleRequest,
    settled: SettleReply | None,
    held: HoldReply,
    told: int = 0,
) -> Reply:
    """The reply to a call whose end its owner was asked for: the answer leaves with its charge, or not at all.

    settled None: what became of the charge is not known. What costs nothing may leave even if its release failed; the
    hold then expires. told: as in Reply.
    """
    is_ok = settled is not None and settled.ok
    if settle.charged:
        remaining = None if settled is None else settled.credits_remaining
        if is_ok:
            return Reply(raw_id, answer, None, remaining, settle, told)
        return not_recorded(raw_id, remaining, told)
    assert held.figures is not None
    given = answer if ending.refusal is None else None
    reply = Reply(raw_id, given, ending.refusal, held.figures.credits_remaining)
    if settled is not None and settled.ok:
        reply.credits_remaining, reply.told = settled.credits_remaining, told
    return reply


def not_recorded(raw_id: bytes, credits_remaining: int | None = None, told: int = 0) -> Reply:
    """Make the reply to an answered call whose charge is not known to be in the ledger."""
    return Reply(raw_id, None, _NOT_RECORDED, credits_remaining, told=told)


def must_be_voided(settle: SettleRequest, settled: SettleReply | None) -> bool:
    """Return whether an operation must be voided, because its answer does not leave or its end is unknown."""
    return settled is None or (settle.charged > 0 and not settled.ok)


def ended(raw_id: bytes, end: NodeAnswer | Refusal) -> Reply:
    """Make the reply to a call that ended for free, before any hold."""
    return Reply(raw_id, None, end) if isinstance(end, Refusal) else Reply(raw_id, end, None)
