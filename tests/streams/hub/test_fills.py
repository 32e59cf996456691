"""What can still be known about the time in which no node served a topic."""

from typing import Any

import orjson
import pytest

from actors.streams.hub.fills import Fill, digest, fill
from actors.streams.hub.native import TopicKey
from tests.streams.world import ACCOUNT, Answers, account_value

SIGNATURE = "5" * 87


def key(method: str, *params: Any) -> TopicKey:
    return TopicKey(method, orjson.dumps(list(params)))


async def test_an_account_is_delivered_when_it_changed() -> None:
    """The order of names in a node's answer is not a change; apiVersion is not in a notification."""
    answers, before = Answers(), account_value(5, 101)
    shuffled = {"value": dict(reversed(before["value"].items())), "context": {"apiVersion": "2", "slot": 110}}
    answers.results["getAccountInfo"] = shuffled
    account = key("accountSubscribe", ACCOUNT, {"encoding": "base64"})
    assert await fill(account, digest(before), 101, answers) == Fill(has_gap=False)
    assert answers.asked == [("getAccountInfo", [ACCOUNT, {"encoding": "base64", "minContextSlot": 101}])]
    answers.results["getAccountInfo"] = account_value(6, 110) | {"context": {"apiVersion": "2", "slot": 110}}
    found = await fill(account, digest(before), 101, answers)
    assert found.has_gap and found.result is not None and orjson.loads(found.result) == account_value(6, 110)


@pytest.mark.parametrize(
    ("commitment", "reached", "ends"),
    [("finalized", "confirmed", False), ("finalized", "finalized", True), ("processed", "processed", True)],
)
async def test_a_signature_is_delivered_at_its_commitment(commitment: str, reached: str, ends: bool) -> None:
    """Never earlier than asked for; and it is no gap, as nothing of it was missed."""
    answers = Answers()
    status = {
        "slot": 104,
        "confirmations": 1,
        "err": {"InstructionError": [0, "Custom"]},
        "confirmationStatus": reached,
    }
    answers.results["getSignatureStatuses"] = {"context": {"slot": 105}, "value": [status]}
    found = await fill(key("signatureSubscribe", SIGNATURE, {"commitment": commitment}), None, 0, answers)
    assert not found.has_gap and (found.result is not None) is ends
    if found.result is not None:
        assert orjson.loads(found.result) == {"context": {"slot": 104}, "value": {"err": status["err"]}}


@pytest.mark.parametrize(
    "topic", [key("logsSubscribe", "all"), key("slotSubscribe"), key("accountSubscribe", ACCOUNT), key("voteSubscribe")]
)
async def test_everything_else_is_a_gap(topic: TopicKey) -> None:
    """An account whose earlier contents are not known may have changed, or not."""
    answers = Answers()
    assert await fill(topic, None, 0, answers) == Fill() and answers.asked == []


async def test_a_node_that_does_not_answer_leaves_a_gap() -> None:
    """Doubt is told."""
    assert await fill(key("signatureSubscribe", SIGNATURE), None, 0, Answers()) == Fill()
    assert await fill(key("accountSubscribe", ACCOUNT), b"d" * 32, 7, Answers()) == Fill()
