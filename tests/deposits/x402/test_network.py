"""What the node's answers mean for a payment; silence is a value of its own."""

import orjson
import pytest

from actors.deposits.x402.network import PaymentNetwork, Sent, Trial
from actors.deposits.x402.states import Heights
from actors.upstream import replies
from actors.upstream.replies import NodeAnswer
from actors.upstream.signature_status import SignatureStatus
from actors.x402_types import BlockhashHint

NOTHING = (replies.TIMED_OUT, replies.UNREACHABLE, replies.GARBAGE, replies.OVERSIZED)


class Node:
    """Answers every method with one and the same."""

    def __init__(self, *answers: NodeAnswer) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, list]] = []

    async def call(self, method: str, params: bytes, timeout_ms: int) -> NodeAnswer:
        assert 0 < timeout_ms <= 2_000
        self.asked.append((method, orjson.loads(params)))
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def result(value) -> NodeAnswer:
    return replies.judge(orjson.dumps({"jsonrpc": "2.0", "result": value, "id": 1}))


def error(code: int) -> NodeAnswer:
    return replies.judge(orjson.dumps({"jsonrpc": "2.0", "error": {"code": code, "message": "m"}, "id": 1}))


def simulated(err) -> NodeAnswer:
    return result({"context": {"slot": 1}, "value": {"err": err, "logs": []}})


@pytest.mark.parametrize(
    ("answer", "trial"),
    [
        (simulated(None), Trial.GOOD),
        (simulated("AlreadyProcessed"), Trial.ALREADY_LANDED),
        (simulated("BlockhashNotFound"), Trial.NO_BLOCKHASH),
        (simulated("AccountNotFound"), Trial.NO_FEE_MONEY),
        (simulated("InsufficientFundsForFee"), Trial.NO_FEE_MONEY),
        (simulated({"InsufficientFundsForRent": {"account_index": 0}}), Trial.NO_FEE_MONEY),
        (simulated({"InstructionError": [2, {"Custom": 1}]}), Trial.NO_FUNDS),
        (simulated({"InstructionError": [2, {"Custom": 17}]}), Trial.BAD),
        (simulated({"InstructionError": "odd"}), Trial.BAD),
        (error(-32602), Trial.BAD),
        (result("odd"), Trial.NO_ANSWER),
        *((answer, Trial.NO_ANSWER) for answer in NOTHING),
    ],
)
async def test_simulations(answer, trial):
    """Signatures are not looked at, as the sponsor's is missing; the blockhash is."""
    node = Node(answer)
    assert (await PaymentNetwork(node).simulate(b"tx")).trial is trial
    ((method, params),) = node.asked
    assert method == "simulateTransaction"
    assert params[1] == {"encoding": "base64", "sigVerify": False, "commitment": "processed"}


@pytest.mark.parametrize(
    ("answer", "sent"),
    [
        (result("signature"), Sent.TAKEN),
        (error(-32003), Sent.REFUSED),
        (error(-32002), Sent.REFUSED),
        (error(-32005), Sent.UNKNOWN),
        (error(-32603), Sent.UNKNOWN),
        *((answer, Sent.UNKNOWN) for answer in NOTHING),
    ],
)
async def test_sends(answer, sent):
    """Threat 25: only a node that says that it looked and refused has not passed it on."""
    assert await PaymentNetwork(Node(answer)).send(b"tx") is sent


@pytest.mark.parametrize("answer", [*NOTHING, error(-32603), result({"value": []}), result(3)])
async def test_a_silent_node_says_nothing_about_a_payment(answer):
    """None is not "unknown signature": nothing may follow from it."""
    network = PaymentNetwork(Node(answer))
    assert await network.statuses([b"s" * 64], history=False) is None
    assert await network.latest_blockhash() is None
    assert await network.lamports("x") is None


UNSEEN, SEEN = result({"value": [None]}), result({"value": [{"slot": 5, "confirmations": 3, "err": None}]})
FINAL = result({"value": [{"slot": 5, "confirmations": None, "err": None}]})


async def test_a_search_needs_all_answers_of_one_node():
    """Its height, then the signature, then its oldest slot; one alone proves nothing."""
    node = Node(result(9), UNSEEN, result(2))
    assert await PaymentNetwork(node).search([b"s" * 64]) == ([None], [Heights(9, 2)])
    assert [method for method, _ in node.asked] == ["getBlockHeight", "getSignatureStatuses", "getFirstAvailableBlock"]
    for answers in ((result(9), UNSEEN, replies.TIMED_OUT), (replies.TIMED_OUT, UNSEEN), (result(9), replies.GARBAGE)):
        assert await PaymentNetwork(Node(*answers)).search([b"s" * 64]) == ([None], [])


async def test_a_search_never_mixes_nodes():
    """Each is asked by itself, past the pool; what one knows outweighs the silence of others."""
    pool = Node(replies.UNREACHABLE)
    ahead, lagging, silent = (
        Node(result(9), UNSEEN, result(7)),
        Node(result(3), UNSEEN, result(0)),
        Node(replies.TIMED_OUT),
    )
    network = PaymentNetwork(pool, [ahead, lagging, silent])
    assert await network.search([b"s" * 64]) == ([None], [Heights(9, 7), Heights(3, 0)])
    assert pool.asked == []
    knowing = [Node(result(9), known, result(0)) for known in (SEEN, FINAL, UNSEEN)]
    found, _ = await PaymentNetwork(pool, knowing).search([b"s" * 64])
    assert found == [SignatureStatus(5, None, confirmed=True, finalized=True)]


async def test_the_newest_blockhash_and_a_balance():
    """As nodes wrap them."""
    value = {"blockhash": "b", "lastValidBlockHeight": 7}
    assert await PaymentNetwork(Node(result({"value": value}))).latest_blockhash() == BlockhashHint("b", 7)
    assert await PaymentNetwork(Node(result({"value": 12}))).lamports("x") == 12
