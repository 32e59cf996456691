"""How a held call ended: what it costs, and what the client is told when the node gave it nothing to pass on.

Implements: decisions, money rule 1 and "pricing" (`outcomes`); interface rule 3 (a purged block is refunded);
hostile inputs 14 and 15.
Pure. This is the whole rule of charging for methods that the node answers:

| The node                                          | Charged | The client gets        |
|---------------------------------------------------|---------|------------------------|
| answers with a result                             | yes     | the result             |
| answers with a JSON-RPC error                     | yes     | the node's error       |
| says of a getBlock that the block is cleaned up   | no      | the node's error       |
| does not answer within the class's time           | no      | TIMEOUT                |
| cannot be reached, or its connection breaks       | no      | BACKEND_UNAVAILABLE    |
| answers with something that is no answer, or huge | no      | BACKEND_UNAVAILABLE    |
"""

from types import MappingProxyType

import msgspec

from actors.calls import Outcome
from actors.errors import Err, Refusal
from actors.upstream.replies import AnswerKind, NodeAnswer, is_purged_block

# The same table in the words of GET /pricing: outcome to whether the method's credits are charged.
PUBLISHED: MappingProxyType[str, bool] = MappingProxyType(
    {
        "result": True,
        "upstream_error": True,
        "purged_block": False,
        "timeout": False,
        "upstream_unreachable": False,
        "upstream_invalid_answer": False,
        "refused_before_admission": False,
        "client_left_before_answer": False,
        "client_left_after_answer": True,
    }
)


class Ending(msgspec.Struct, frozen=True):
    """charged: credits to post, 0 to release. refusal: in place of the node's answer; None: pass that on."""

    charged: int
    outcome: int  # An Outcome, as it travels.
    refusal: Refusal | None = None


_RELEASED = Ending(0, int(Outcome.RELEASED))
_NO_ANSWER = MappingProxyType(
    {
        AnswerKind.TIMED_OUT: Refusal(Err.TIMEOUT),
        AnswerKind.UNREACHABLE: Refusal(Err.BACKEND_UNAVAILABLE),
        AnswerKind.GARBAGE: Refusal(Err.BACKEND_UNAVAILABLE, "the node's answer could not be understood"),
        AnswerKind.OVERSIZED: Refusal(Err.BACKEND_UNAVAILABLE, "the node's answer is larger than this service takes"),
    }
)


def judge(method: str, ceiling: int, answer: NodeAnswer) -> Ending:
    """ceiling: the price pinned when the call was held; a fixed-price method costs all of it or nothing."""
    if answer.kind is AnswerKind.RESULT:
        return Ending(ceiling, int(Outcome.ANSWERED))
    if answer.kind is AnswerKind.ERROR:
        if method == "getBlock" and is_purged_block(answer.error_code, answer.error_message):
            return _RELEASED
        return Ending(ceiling, int(Outcome.UPSTREAM_ERROR))
    return Ending(0, int(Outcome.RELEASED), _NO_ANSWER[answer.kind])
