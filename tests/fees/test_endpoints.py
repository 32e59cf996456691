"""Requests and replies: the call to the node, its failures, and the exact shapes."""

from typing import Any

import orjson
import pytest

from actors.fees.endpoints import FeeMethods
from actors.methods.entries import Question, encoded
from actors.methods.fees import EstimateQuestion, FeeQuestion
from actors.upstream import replies
from actors.upstream.replies import NodeAnswer
from tests.ported_node import PortedNode, node_error, node_result

KEY = "So11111111111111111111111111111111111111112"


def window(*fees: int) -> NodeAnswer:
    return node_result([{"slot": 100 + index, "prioritizationFee": fee} for index, fee in enumerate(fees)])


async def answered(question: Question, answer: NodeAnswer) -> tuple[NodeAnswer, PortedNode]:
    method = "suggestPriorityFee" if isinstance(question, FeeQuestion) else "getPriorityFeeEstimate"
    node = PortedNode(interfere=lambda *_: answer)
    return await FeeMethods(node).handlers()[method](encoded(question), 15_000), node


async def result(question: Question, answer: NodeAnswer) -> Any:
    given, _ = await answered(question, answer)
    return orjson.loads(given.value())


async def test_a_suggestion_has_the_interfaces_shape():
    """Interface, "suggestPriorityFee result"."""
    assert await result(FeeQuestion("critical", (KEY,)), window(0, 9, 0, 5, 7, 1)) == {
        "suggested_fee_microlamports": 9,
        "urgency": "critical",
        "all_levels": {
            "low": 1,
            "medium": 5,
            "high": 7,
            "veryHigh": 9,
            "sample_count": 6,
            "paid_slot_count": 4,
            "basis": "paid_slots",
        },
        "scoped_to_accounts": True,
    }


async def test_without_accounts_all_slots_count():
    """The paid-slot rule is for accounts only; over all slots a fee of zero is correct."""
    body = await result(FeeQuestion("medium", ()), window(0, 0, 0, 0, 5, 6, 7))
    assert body["suggested_fee_microlamports"] == 0
    assert (body["all_levels"]["basis"], body["scoped_to_accounts"]) == ("all_slots", False)


async def test_two_paid_slots_are_too_few():
    """Interface: otherwise all slots are used and the result may be zero."""
    body = await result(FeeQuestion("medium", (KEY,)), window(0, 0, 0, 5, 6))
    assert body["suggested_fee_microlamports"] == 0
    assert (body["all_levels"]["basis"], body["all_levels"]["paid_slot_count"]) == ("all_slots", 2)


async def test_the_node_is_asked_once_and_for_the_accounts():
    """The node has the whole time of the method."""
    _, node = await answered(FeeQuestion("low", (KEY,)), window(1))
    assert node.calls == [("getRecentPrioritizationFees", [[KEY]], 15_000)]
    _, node = await answered(FeeQuestion("low", ()), window(1))
    assert node.calls == [("getRecentPrioritizationFees", [], 15_000)]


@pytest.mark.parametrize("failure", [replies.TIMED_OUT, replies.UNREACHABLE, node_error(-32005, "Node is unhealthy")])
@pytest.mark.parametrize("question", [FeeQuestion("low", ()), EstimateQuestion((), 50, True, False, 150)])
async def test_a_failed_query_is_the_answer_and_never_zero(failure, question):
    """Interface: an upstream query failure returns an error, not zero."""
    given, _ = await answered(question, failure)
    assert given is failure


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (node_result([]), replies.UNREACHABLE),
        (node_result(None), replies.GARBAGE),
        (node_result([{"slot": 1}]), replies.GARBAGE),
        (node_result([{"slot": 1, "prioritizationFee": -1}]), replies.GARBAGE),
        (node_result([{"slot": 1, "prioritizationFee": 1.5}]), replies.GARBAGE),
        (node_result([{"slot": 1, "prioritizationFee": 1 << 64}]), replies.GARBAGE),
    ],
)
async def test_a_window_that_is_none_is_no_fee(answer, kind):
    """A node without slots has just started; a malformed answer is garbage."""
    given, _ = await answered(FeeQuestion("low", ()), answer)
    assert given is kind


async def test_an_estimate_has_the_shape_that_wallets_read():
    """The reply has levels only on request."""
    fees = window(*range(1, 101))
    assert await result(EstimateQuestion((), 75, False, False, 150), fees) == {"priorityFeeEstimate": 75}
    assert await result(EstimateQuestion((), 50, True, False, 150), fees) == {
        "priorityFeeEstimate": 50,
        "priorityFeeLevels": {"min": 1, "low": 25, "medium": 50, "high": 75, "veryHigh": 95, "unsafeMax": 100},
    }


async def test_an_estimate_looks_back_as_far_as_asked_and_may_count_empty_slots():
    """lookbackSlots and evaluateEmptySlotAsZero."""
    fees = window(9, 9, 9, 0, 0, 0, 0, 1)
    assert await result(EstimateQuestion((), 100, False, False, 4), fees) == {"priorityFeeEstimate": 1}
    assert await result(EstimateQuestion((KEY,), 25, False, False, 150), fees) == {"priorityFeeEstimate": 1}
    assert await result(EstimateQuestion((KEY,), 25, False, True, 150), fees) == {"priorityFeeEstimate": 0}


async def test_the_node_that_was_asked_is_named():
    """The X-Node header names it."""
    answer = replies.made(b'[{"slot":1,"prioritizationFee":2}]', "somebody")
    for question in (FeeQuestion("low", ()), EstimateQuestion((), 50, True, False, 150)):
        given, _ = await answered(question, answer)
        assert given.node == "somebody"
