"""Requests and replies: the call to the node, its failures, and the exact shapes."""

import base64
from typing import Any, cast

import orjson
import pytest
from solders.pubkey import Pubkey

from actors.errors import Err
from actors.fees.endpoints import FeeMethods
from actors.fees.landed import BlockFees, PaidPrice
from actors.fees.recent_blocks import RecentBlocks
from actors.methods.entries import Question, encoded
from actors.methods.fees import EstimateQuestion, FeeQuestion
from actors.upstream import replies
from actors.upstream.replies import NodeAnswer, RefusedAnswer
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


def of_slots(fee: int, slots: int, source: str = "all_slots") -> dict[str, Any]:
    return {"priorityFeeEstimate": fee, "basis": {"source": source, "slots": slots, "transactions": None}}


async def test_an_estimate_has_the_shape_that_wallets_read():
    """The reply has levels only on request. It always says what was looked at."""
    fees = window(*range(1, 101))
    assert await result(EstimateQuestion((), 75, False, False, 150), fees) == of_slots(75, 100)
    assert await result(EstimateQuestion((), 50, True, False, 150), fees) == of_slots(50, 100) | {
        "priorityFeeLevels": {"min": 1, "low": 25, "medium": 50, "high": 75, "veryHigh": 95, "unsafeMax": 100},
    }


async def test_an_estimate_looks_back_as_far_as_asked_and_may_count_empty_slots():
    """lookbackSlots and evaluateEmptySlotAsZero."""
    fees = window(9, 9, 9, 0, 0, 0, 0, 1)
    assert await result(EstimateQuestion((), 100, False, False, 4), fees) == of_slots(1, 4)
    assert await result(EstimateQuestion((KEY,), 25, False, False, 150), fees) == of_slots(1, 4, "paid_slots")
    assert await result(EstimateQuestion((KEY,), 25, False, True, 150), fees) == of_slots(0, 8)


async def test_what_is_recommended_has_a_floor_and_its_levels_have_none():
    """10,000 micro-lamports, as the service gives whose request this is."""
    asked = EstimateQuestion((), 50, True, False, 150, recommended=True)
    body = await result(asked, window(*[9_999] * 9))
    assert (body["priorityFeeEstimate"], body["priorityFeeLevels"]["medium"]) == (10_000, 9_999)
    assert (await result(asked, window(*[10_001] * 9)))["priorityFeeEstimate"] == 10_001


# --- more accounts than a node takes


KEYS = tuple(str(Pubkey.new_unique()) for _ in range(500))


async def test_many_accounts_are_asked_for_in_slices_whose_highest_fees_count():
    """As if a node took them all at once: its fee of a slot is the highest of the accounts."""
    fees = {KEYS[0]: [1, 0, 9], KEYS[128]: [5, 2, 2], KEYS[499]: [3, 3, 3]}

    def answer(_: str, params: list[Any]) -> NodeAnswer:
        return window(*map(max, zip([0, 0, 0], *(fees[key] for key in params[0] if key in fees), strict=True)))

    node = PortedNode(interfere=answer)
    given = await FeeMethods(node)._estimate(encoded(EstimateQuestion(KEYS, 100, True, True, 150)), 15_000)
    assert [len(params[0]) for params in node.asked("getRecentPrioritizationFees")] == [128, 128, 128, 116]
    levels = orjson.loads(given.value())["priorityFeeLevels"]
    assert (levels["min"], levels["medium"], levels["unsafeMax"]) == (3, 5, 9)


async def test_one_slice_that_fails_fails_the_call():
    """Half of the locks say nothing of a price."""

    def answer(_: str, params: list[Any]) -> NodeAnswer:
        return replies.TIMED_OUT if KEYS[300] in params[0] else window(1, 2, 3)

    node = PortedNode(interfere=answer)
    asked = encoded(EstimateQuestion(KEYS, 50, False, False, 150))
    assert await FeeMethods(node)._estimate(asked, 15_000) is replies.TIMED_OUT


# --- lookup tables

TABLE = str(Pubkey.new_unique())
TABLE_PROGRAM = "AddressLookupTab1e1111111111111111111111111"


def table(*keys: str, owner: str = TABLE_PROGRAM) -> dict[str, Any]:
    data = bytes(56) + b"".join(bytes(Pubkey.from_string(key)) for key in keys)
    return {"data": [base64.b64encode(data).decode(), "base64"], "owner": owner, "lamports": 1}


async def loaded(accounts: list[Any] | NodeAnswer, places: bytes = b"\1\2") -> tuple[NodeAnswer, PortedNode]:
    def answer(method: str, _: list[Any]) -> NodeAnswer:
        if method == "getRecentPrioritizationFees":
            return window(1, 2, 3)
        return accounts if isinstance(accounts, NodeAnswer) else node_result({"context": {}, "value": accounts})

    node = PortedNode(interfere=answer)
    asked = EstimateQuestion((KEY,), 50, False, False, 150, tables=((TABLE, places),))
    return await FeeMethods(node)._estimate(encoded(asked), 15_000), node


async def test_accounts_of_lookup_tables_count_among_those_that_are_written():
    """One read of all tables, whatever they hold."""
    _, node = await loaded([table(*KEYS[:4])])
    assert node.asked("getRecentPrioritizationFees") == [[[KEY, KEYS[1], KEYS[2]]]]
    ((tables, config),) = node.asked("getMultipleAccounts")
    assert tables == [TABLE] and config["dataSlice"]["length"] == 56 + 256 * 32


@pytest.mark.parametrize(
    ("account", "said"),
    [
        (None, "is no lookup table"),
        (table(*KEYS[:4], owner=KEY), "is no lookup table"),
        (table(*KEYS[:2]), "has 2 addresses, and the transaction names number 2"),
        ({"data": ["", "base64"], "owner": TABLE_PROGRAM}, "has 0 addresses"),
    ],
)
async def test_a_transaction_whose_table_lacks_its_accounts_is_refused(account, said):
    """It cannot land. The refusal costs nothing, and no fee is asked for."""
    given, node = await loaded([account])
    assert isinstance(given, RefusedAnswer) and given.refusal is not None
    assert given.refusal.err is Err.INVALID_PARAMS and said in given.refusal.detail
    assert not node.asked("getRecentPrioritizationFees")


@pytest.mark.parametrize("answer", [[], [{"data": 5}], [{"data": ["*", "base64"], "owner": TABLE_PROGRAM}]])
async def test_a_node_that_answers_no_accounts_is_not_believed(answer):
    """Nothing is charged for garbage."""
    given, _ = await loaded(answer)
    assert given is replies.GARBAGE
    assert (await loaded(replies.TIMED_OUT))[0] is replies.TIMED_OUT


# --- landed transactions


class Held:
    """Blocks that are at hand. paid: price and account of each transaction."""

    nodes = "reader"

    def __init__(self, *paid: tuple[int, str]) -> None:
        self._held = [BlockFees(slot) for slot in (100, 149)]
        for number, (price, key) in enumerate(paid):
            self._held[number % 2].add(PaidPrice(price, [bytes(Pubkey.from_string(key))]))

    async def blocks(self) -> list[BlockFees]:
        return self._held


async def estimated(held: Held, asked: EstimateQuestion) -> tuple[Any, PortedNode]:
    node = PortedNode(interfere=lambda *_: window(7, 7, 7))
    given = await FeeMethods(node, cast(RecentBlocks, held))._estimate(encoded(asked), 15_000)
    return orjson.loads(given.value()), node


async def test_levels_are_of_landed_transactions_and_no_node_is_asked():
    """The answer names how many blocks and transactions were looked at, and how many of them locked the accounts."""
    held = Held(*((price, KEY) for price in range(1, 41)), *((1_000, KEYS[0]) for _ in range(10)))
    body, node = await estimated(held, EstimateQuestion((KEYS[0], KEYS[1]), 50, True, False, 150))
    assert body["priorityFeeEstimate"] == 1_000
    assert body["priorityFeeLevels"]["min"] == 1_000
    assert body["basis"] == {
        "source": "landed_transactions",
        "slots": 2,
        "transactions": 50,
        "accountTransactions": 10,
    }
    assert not node.calls
    body, _ = await estimated(held, EstimateQuestion((), 50, False, False, 150))
    assert body == {
        "priorityFeeEstimate": 25,
        "basis": {"source": "landed_transactions", "slots": 2, "transactions": 50},
    }


async def test_an_account_that_nobody_fights_for_costs_what_room_in_a_block_costs():
    """Its own lock adds nothing."""
    held = Held(*((price, KEY) for price in range(1, 41)))
    body, _ = await estimated(held, EstimateQuestion((KEYS[1],), 50, False, False, 150))
    assert (body["priorityFeeEstimate"], body["basis"]["accountTransactions"]) == (20, 0)


async def test_of_too_few_transactions_the_figures_of_slots_are_taken():
    """They are told by the node for 150 slots."""
    body, node = await estimated(Held(*((9, KEY) for _ in range(19))), EstimateQuestion((KEY,), 50, False, False, 150))
    assert body == of_slots(7, 3, "paid_slots") and len(node.calls) == 1
    body, _ = await estimated(Held(*((9, KEY) for _ in range(20))), EstimateQuestion((KEY,), 50, False, False, 150))
    assert body["priorityFeeEstimate"] == 9
    body, _ = await estimated(Held(*((9, KEY) for _ in range(38))), EstimateQuestion((KEY,), 50, False, False, 1))
    assert body["basis"]["source"] == "all_slots"  # Only half of them are of the slots that were asked for.


async def test_the_node_that_was_asked_is_named():
    """The X-Node header names it."""
    answer = replies.made(b'[{"slot":1,"prioritizationFee":2}]', "somebody")
    for question in (FeeQuestion("low", ()), EstimateQuestion((), 50, True, False, 150)):
        given, _ = await answered(question, answer)
        assert given.node == "somebody"
