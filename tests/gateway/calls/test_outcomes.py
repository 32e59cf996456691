import orjson
import pytest

from actors.calls import Figures, HoldReply, Outcome
from actors.errors import Err, Refusal
from actors.gateway.calls import outcomes
from actors.gateway.calls.admission import PLANS, AdmittedCall
from actors.gateway.calls.outcomes import Replies, Reply, ended, release_of, whole
from actors.methods.catalog import METHODS
from actors.methods.prices import Availability
from actors.upstream import replies


def error(code: int, message: str) -> replies.NodeAnswer:
    return replies.judge(orjson.dumps({"jsonrpc": "2.0", "error": {"code": code, "message": message}, "id": 1}))


RESULT = replies.judge(b'{"jsonrpc":"2.0","result":null,"id":1}')
PURGED = "Block 5 cleaned up, does not exist on node. First available block: 9"
UNAVAILABLE = "Block not available for slot 5"


def test_a_result_costs_the_price():
    """Even an empty one: null for old data is an answer (interface rule 3)."""
    assert outcomes.judge("getTransaction", 5, RESULT) == outcomes.Judgement(5, Outcome.ANSWERED)


@pytest.mark.parametrize("code", [-32602, -32002, -32005, -32007, -32015])
@pytest.mark.threat(14)
def test_an_upstream_error_costs_the_price_and_passes_through(code):
    """Threat 14: billed per the published table, not by HTTP status."""
    assert outcomes.judge("getBlock", 25, error(code, "x")) == outcomes.Judgement(25, Outcome.UPSTREAM_ERROR)


@pytest.mark.parametrize(("code", "message"), [(-32001, PURGED), (-32004, PURGED), (-32004, UNAVAILABLE)])
def test_a_block_that_the_node_has_not_is_refunded_and_its_error_passes_through(code, message):
    """Interface rule 3, for both codes (decisions, "Errors of the node"). The interface names -32004 with 'Block', 'not
    available' and 'cleaned up' in one breath: a purged slot."""
    assert outcomes.judge("getBlock", 25, error(code, message)) == outcomes.Judgement(0, Outcome.RELEASED)


def test_a_refusal_of_our_own_methods_is_free_and_named():
    judged = outcomes.judge("sendAndConfirm", 50, replies.refused(Refusal(Err.CONCURRENCY_LIMITED, "too many")))
    assert judged == outcomes.Judgement(0, Outcome.RELEASED, Refusal(Err.CONCURRENCY_LIMITED, "too many"))


def test_the_refund_is_of_get_block_alone():
    """The same words from getBlockTime, or another error of getBlock, cost the price."""
    assert outcomes.judge("getBlockTime", 1, error(-32001, PURGED)).charged == 1
    assert outcomes.judge("getBlockTime", 1, error(-32004, UNAVAILABLE)).charged == 1
    assert outcomes.judge("getBlock", 25, error(-32009, "Slot 5 was skipped")).charged == 25


def test_a_method_that_the_node_does_not_have_costs_nothing():
    """simulateBundle at a node without bundles: sold by this service, answered by nobody."""
    answer = error(-32601, "Method not found")
    assert outcomes.judge("simulateBundle", 25, answer) == outcomes.Judgement(0, Outcome.RELEASED)


def test_an_error_in_the_middle_of_a_composed_method_costs_nothing():
    """Interface, suggestPriorityFee: an upstream query failure returns an error; nobody pays for it."""
    failed = error(-32005, "Node is unhealthy")
    composed = [row.name for row in METHODS.values() if row.availability is Availability.COMPOSED]
    for method in composed:
        assert outcomes.judge(method, 25, failed) == outcomes.Judgement(0, Outcome.RELEASED)
    assert outcomes.judge("getSlot", 1, failed).charged == 1


@pytest.mark.parametrize(("done", "charged", "outcome"), [(3, 15, Outcome.ANSWERED), (0, 0, Outcome.RELEASED)])
def test_work_by_the_piece_costs_the_pieces_that_ended_well(done, charged, outcome):
    """Interface, "Bulk endpoints": backend lookup errors are refunded per failed item."""
    answer = replies.made_of_pieces(b"{}", 4, done)
    assert outcomes.judge("bulk/getTransactions", 20, answer) == outcomes.Judgement(charged, outcome)


@pytest.mark.parametrize(
    ("answer", "err"),
    [
        (replies.TIMED_OUT, Err.TIMEOUT),
        (replies.UNREACHABLE, Err.BACKEND_UNAVAILABLE),
        (replies.GARBAGE, Err.BACKEND_UNAVAILABLE),
        (replies.OVERSIZED, Err.BACKEND_UNAVAILABLE),
        (replies.overloaded(3), Err.SERVICE_TEMPORARILY_UNAVAILABLE),
    ],
)
@pytest.mark.threat(15)
def test_no_answer_costs_nothing(answer, err):
    """Threat 15: what the node did not answer is released, and the client is told why."""
    ending = outcomes.judge("getSlot", 1, answer)
    assert (ending.charged, ending.outcome, ending.refusal.err) == (0, Outcome.RELEASED, err)


def test_a_refusal_after_the_hold_costs_nothing_and_is_told():
    """Whoever carries a call out may know what the door could not, as the tip accounts of the block engine."""
    refusal = Refusal(Err.INVALID_PARAMS, "no tip")
    ending = outcomes.judge("sendBundle", 10, replies.refused(refusal))
    assert ending == outcomes.Judgement(0, Outcome.RELEASED, refusal)


def test_every_kind_of_answer_has_an_ending():
    """A kind without a rule would break the call after the node had answered."""
    for kind in replies.AnswerKind:
        outcomes.judge("getSlot", 1, replies.NodeAnswer(kind))


def test_what_is_published_is_what_is_done():
    """GET /pricing states each way a call can end; the statements agree with judge()."""
    done = {
        "result": RESULT,
        "upstream_error": error(-32602, "x"),
        "purged_block": error(-32001, PURGED),
        "block_not_available": error(-32004, UNAVAILABLE),
        "method_unknown_to_node": error(-32601, "Method not found"),
        "bulk_item_completed": replies.made_of_pieces(b"{}", 1, 1),
        "bulk_item_failed": replies.made_of_pieces(b"{}", 1, 0),
        "timeout": replies.TIMED_OUT,
        "upstream_unreachable": replies.UNREACHABLE,
        "upstream_invalid_answer": replies.GARBAGE,
        "upstream_overloaded": replies.overloaded(None),
    }
    for name, answer in done.items():
        assert outcomes.PUBLISHED[name] is (outcomes.judge("getBlock", 25, answer).charged == 25)


def test_the_refusals_of_a_request_are_its_own_or_those_of_its_calls() -> None:
    """They are counted against the caller, so none may be missed."""
    refusal = Refusal(Err.INVALID_PARAMS)
    calls = [ended(b"1", refusal), ended(b"2", RESULT), Reply(b"3", None, refusal)]
    assert Replies(calls, None, None).errs() == [Err.INVALID_PARAMS] * 2
    assert Replies(calls, Refusal(Err.AUTH_FAILED), None).errs() == [Err.AUTH_FAILED]


def test_an_owners_refusal_carries_its_figures() -> None:
    """A suspended account reads why; where the owner told no figures there are none."""
    told = HoldReply(b"p", 1, "METHOD_NOT_ALLOWED", (), Figures(7, 1, 1, 1))
    done = whole(told)
    assert done.refusal is not None and "suspended" in done.refusal.detail and done.credits_remaining == 7
    assert whole(HoldReply(b"", 0, "AUTH_FAILED", (), None)).figures is None


def test_a_release_names_the_whole_hold() -> None:
    """A new owner accepts it without having granted the hold."""
    held = HoldReply(b"p", 4, None, (None,), Figures(7, 1, 1, 1))
    release = release_of(AdmittedCall(b"1", PLANS["getSlot"], b"[]"), b"op", held, 9)
    assert (release.pubkey, release.epoch, release.ceiling, release.charged) == (b"p", 4, 1, 0)
    assert (release.method, release.held_at, release.outcome) == ("getSlot", 9, int(Outcome.RELEASED))
