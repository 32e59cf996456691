import asyncio

import pytest

from actors.calls import KeyProof, Outcome
from actors.clock import ManualClock
from actors.errors import Err, Refusal
from actors.gateway.calls.jsonrpc import BadCall
from actors.gateway.calls.pipeline import Pipeline
from actors.gateway.calls.refusal_limits import RefusalLimits
from actors.gateway.calls.requests import AsgiClient
from actors.gateway.calls.unproven_calls import ADDRESS_WAITING_MAX
from actors.telemetry.metrics import Metrics
from actors.upstream import replies
from actors.upstream.replies import AnswerKind, NodeAnswer, OwnMethods
from tests.gateway.doubles import (
    PROOF,
    REPLICA,
    RESULT,
    OneAccount,
    ScriptedNode,
    a_call,
    counted,
    node_error,
    pipeline_of,
    unavailable,
)


def bad() -> BadCall:
    return BadCall(b"null", Refusal(Err.INVALID_REQUEST, "x"))


# --- a single call


async def test_each_admitted_call_is_counted_with_its_charge():
    """Figures for operators: a posted charge, an error that is billed, a charge that was not recorded, a batch; nothing
    for calls that were not admitted, whose method names are the caller's."""
    account, metrics = OneAccount(100), Metrics()
    answers = {"getVersion": node_error(-32602, "Invalid param"), "getHealth": NodeAnswer(AnswerKind.TIMED_OUT)}
    node = ScriptedNode(lambda method, _: answers.get(method, RESULT))
    pipeline = pipeline_of(account, node, metrics=metrics)
    await pipeline.single(PROOF, a_call("getBlock", 5))
    await pipeline.batch(PROOF, [a_call("getSlot"), a_call("getSlot"), a_call("getVersion"), a_call("invented"), bad()])
    await pipeline.single(PROOF, a_call("getHealth"))
    account.settle_says_no = True
    await pipeline.single(PROOF, a_call("getSlot"))
    assert counted(metrics, "calls") == {"getBlock": 1, "getSlot": 3, "getVersion": 1, "getHealth": 1}
    assert counted(metrics, "calls", "outcome") == {"answered": 3, "upstream_error": 1, "released": 2}
    assert counted(metrics, "credits_charged") == account.posted == {"getBlock": 25, "getSlot": 2, "getVersion": 1}


async def test_an_answered_call_is_held_then_posted_then_given():
    """Design, "One billed call": the answer leaves with its charge in the ledger, and with the figures after it."""
    account, node = OneAccount(30), ScriptedNode()
    done = await pipeline_of(account, node).single(PROOF, a_call("getBlock", 5))
    assert done.items[0].answer is RESULT
    assert node.calls == [("getBlock", b'[5,{"maxSupportedTransactionVersion":0}]', 30_000)]
    assert account.posted == {"getBlock": 25}
    assert (done.credits_remaining, account.available, account.held) == (5, 5, {})
    (end,) = account.ends.values()
    assert (end.outcome, end.ceiling, end.pubkey, end.epoch) == (Outcome.ANSWERED, 25, b"p" * 32, 1)


@pytest.mark.parametrize("method", ["noSuchMethod", "getSupply", "requestAirdrop", "sendBundle", "getBalance"])
async def test_free_refusals_hold_nothing_but_prove_the_credential(method):
    """Interface rule 8: no rate units and no credits; yet the answer carries figures, and a dead key is told."""
    account, node = OneAccount(30), ScriptedNode()
    pipeline = pipeline_of(account, node)
    done = await pipeline.single(PROOF, a_call(method))
    assert done.items[0].refusal is not None
    assert done.figures.credits_remaining == 30
    assert account.holds[0].items == ()
    assert (account.rate_left, node.calls) == (1_000, [])
    account.refusal = "AUTH_FAILED"
    done = await pipeline.single(PROOF, a_call(method))
    assert (done.refusal.err, done.items) == (Err.AUTH_FAILED, ())


async def test_a_free_refusal_needs_no_owner():
    """Telling somebody that a method does not exist serves nothing on trust."""
    account = OneAccount(30)
    pipeline = pipeline_of(account, ScriptedNode())
    account.refusal = "SERVICE_TEMPORARILY_UNAVAILABLE"
    assert (await pipeline.single(PROOF, a_call("x"))).items[0].refusal.err is Err.METHOD_NOT_FOUND
    account.before_hold = unavailable
    done = await pipeline.single(PROOF, a_call("x"))
    assert (done.items[0].refusal.err, done.figures) == (Err.METHOD_NOT_FOUND, None)


@pytest.mark.parametrize(
    "refusal",
    ["AUTH_FAILED", "NONCE_REUSED", "METHOD_NOT_ALLOWED", "PAYMENT_REQUIRED", "SERVICE_TEMPORARILY_UNAVAILABLE"],
)
async def test_the_owners_refusal_ends_the_request(refusal):
    """Nothing is asked of the node, nothing is settled."""
    account, node = OneAccount(30), ScriptedNode()
    account.refusal = refusal
    for done in (
        await pipeline_of(account, node).single(PROOF, a_call("getSlot")),
        await pipeline_of(account, node).batch(PROOF, [a_call("getSlot")]),
    ):
        assert done.refusal.err is Err[refusal]
        assert len(done.items) == 0
    assert (node.calls, account.ends) == ([], {})


@pytest.mark.parametrize("says_no", [True, False])
async def test_an_answer_without_its_charge_stays_here_and_the_charge_is_voided(says_no):
    """Money rule 2: no answered call is missing from the ledger, no unanswered one is in it."""
    account = OneAccount(30)
    account.settle_says_no = says_no
    account.before_settle = None if says_no else unavailable
    done = await pipeline_of(account, ScriptedNode()).single(PROOF, a_call("getSlot"))
    assert (done.items[0].answer, done.items[0].charge) == (None, None)
    assert done.items[0].refusal.err is Err.SERVICE_TEMPORARILY_UNAVAILABLE
    assert done.credits_remaining == (29 if says_no else None)  # What is not known is not told as 0.
    assert [void.operation for void in account.voided] == [account.holds[0].operation]


async def test_a_failure_stays_told_when_its_release_is_unknown():
    """A free error may leave: the hold ends by itself in any case."""
    account = OneAccount(30)
    account.before_settle = unavailable
    done = await pipeline_of(account, ScriptedNode(lambda *_: replies.TIMED_OUT)).single(PROOF, a_call("getSlot"))
    assert done.items[0].refusal.err is Err.TIMEOUT
    assert len(account.voided) == 1


async def test_every_operation_of_a_replica_is_its_own():
    """Ids start with the replica's own bytes and count on, batches by as many as they hold."""
    account = OneAccount(1_000)
    pipeline = pipeline_of(account, ScriptedNode())
    await pipeline.single(PROOF, a_call("getSlot"))
    await pipeline.batch(PROOF, [a_call("getSlot")] * 5)
    await pipeline.single(PROOF, a_call("getSlot"))
    assert len(account.ends) == 7
    assert all(operation.startswith(REPLICA) and len(operation) == 16 for operation in account.ends)


@pytest.mark.threat(63)
async def test_a_stranger_that_is_shed_waits_before_anything_more_is_read():
    """Threat 63: beyond what may wait for a stranger's place, calls get 503 and count; their address is then over."""
    account, limits, clock = OneAccount(100), RefusalLimits(500, 500, lambda client: "here"), ManualClock()
    owner_answers = asyncio.Event()
    account.before_hold = lambda request: owner_answers.wait()
    pipeline, client = Pipeline(account, ScriptedNode(), clock, REPLICA, 1_000, limits), AsgiClient([], "192.0.2.1")
    proofs = [KeyProof(number.to_bytes(32, "big"), PROOF.routing) for number in range(30)]
    batch = [a_call("getSlot")] * 100
    asked = [asyncio.ensure_future(pipeline.batch(proof, batch, client)) for proof in proofs]
    for _ in range(5):
        await asyncio.sleep(0)
    shed = [task.result().refusal.err for task in asked if task.done()]
    assert set(shed) == {Err.SERVICE_TEMPORARILY_UNAVAILABLE}
    assert len(shed) == len(asked) - 1 - ADDRESS_WAITING_MAX // 100
    assert limits.wait(proofs[0], client, clock.now()) is not None
    for task in asked:
        task.cancel()
    await asyncio.gather(*asked, return_exceptions=True)


# --- batches


@pytest.mark.threat(11)
async def test_a_batch_is_one_hold_and_as_many_charges():
    """Threat 11: per-item verdict, order kept, one message to the owner."""
    error = node_error(-32602, "no")
    account = OneAccount(1_000)
    node = ScriptedNode(lambda method, _: error if method == "getVersion" else RESULT)
    calls = [
        a_call("getSlot"),
        bad(),
        a_call("getVersion"),
        a_call("nope"),
        a_call("getBlock", 5),
        a_call("getBalance"),
    ]
    done = await pipeline_of(account, node).batch(PROOF, calls)
    assert [reply.answer for reply in done.items] == [RESULT, None, error, None, RESULT, None]
    assert [reply.refusal and reply.refusal.err for reply in done.items] == [
        None,
        Err.INVALID_REQUEST,
        None,
        Err.METHOD_NOT_FOUND,
        None,
        Err.INVALID_PARAMS,
    ]
    assert [[item.method for item in hold.items] for hold in account.holds] == [["getSlot", "getVersion", "getBlock"]]
    assert account.posted == {"getSlot": 1, "getVersion": 1, "getBlock": 25}
    assert done.credits_remaining == 1_000 - 27


async def test_a_batch_of_nothing_but_refusals_holds_nothing():
    """99 bad items and no good one cost nothing."""
    account = OneAccount(10)
    done = await pipeline_of(account, ScriptedNode()).batch(PROOF, [bad()] * 99)
    assert len(done.items) == 99
    assert account.holds[0].items == ()
    assert done.figures is not None


async def test_an_own_method_never_reaches_the_node_and_all_others_do():
    """One name, one place where it is answered."""
    node, asked = ScriptedNode(), []

    async def answer(params: bytes, timeout_ms: int) -> replies.NodeAnswer:
        asked.append((params, timeout_ms))
        return replies.made(b'"own"')

    both = OwnMethods(node, {"getSlot": answer})
    account = OneAccount(30)
    pipeline = pipeline_of(account, both)
    own = await pipeline.single(PROOF, a_call("getSlot"))
    others = await pipeline.single(PROOF, a_call("getBlockHeight"))
    assert own.items[0].answer.value() == b'"own"'
    assert others.items[0].answer.value() == b'"ok"'
    assert asked == [(b"[]", 5_000)]
    assert [method for method, _, _ in node.calls] == ["getBlockHeight"]
    assert account.posted == {"getSlot": 1, "getBlockHeight": 1}
