"""Threats 17 and 36: what the pipeline does when its caller goes away, or when things end out of order."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from actors.calls import Outcome
from actors.errors import Err, Refusal
from actors.gateway.calls.jsonrpc import BadCall
from actors.upstream import replies

from .doubles import (
    PROOF,
    RESULT,
    OneAccount,
    ScriptedNode,
    a_call,
    a_send,
    node_error,
    pipeline_of,
)


def bad() -> BadCall:
    return BadCall(b"null", Refusal(Err.INVALID_REQUEST, "x"))


async def leaving(work: Coroutine[Any, Any, object], moment: asyncio.Event) -> None:
    """Begin the work, and take its caller away at that moment."""
    task = asyncio.ensure_future(work)
    await moment.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.threat(36)
async def test_who_leaves_before_the_answer_pays_nothing():
    """Threat 36: voided in this case; the node's work is not waited for."""
    account, node = OneAccount(10), ScriptedNode()
    node.gate = asyncio.Event()
    pipeline = pipeline_of(account, node)
    await leaving(pipeline.single(PROOF, a_call("getSlot")), node.asked)
    await pipeline.drain()
    assert (account.available, account.posted, node.abandoned) == (10, {}, 1)
    assert [end.outcome for end in account.ends.values()] == [Outcome.RELEASED]


@pytest.mark.threat(36)
async def test_who_leaves_after_the_answer_pays_and_the_entry_says_so():
    """Threat 36: charged in this case. The post had not reached the ledger, so its entry says CLIENT_GONE."""
    account = OneAccount(10)
    settling, first = asyncio.Event(), True

    async def lost_on_the_way(request) -> None:
        nonlocal first
        if first:
            first = False
            settling.set()
            await asyncio.Event().wait()

    account.before_settle = lost_on_the_way
    pipeline = pipeline_of(account, ScriptedNode())
    await leaving(pipeline.single(PROOF, a_call("getSlot")), settling)
    await pipeline.drain()
    assert account.posted == {"getSlot": 1}
    assert [end.outcome for end in account.ends.values()] == [Outcome.CLIENT_GONE]


@pytest.mark.threat(36)
async def test_leaving_while_the_post_is_written_changes_nothing():
    """Threat 36: a post that the owner already has stands as it was, once."""
    account = OneAccount(10)
    written = asyncio.Event()

    async def slow_disk(request) -> None:
        written.set()
        await asyncio.sleep(0)

    account.after_settle = slow_disk
    pipeline = pipeline_of(account, ScriptedNode())
    await leaving(pipeline.single(PROOF, a_call("getSlot")), written)
    await pipeline.drain()
    assert (account.credits, [end.outcome for end in account.ends.values()]) == (9, [Outcome.ANSWERED])


@pytest.mark.parametrize(
    ("answer", "posted", "left", "outcome"),
    [(RESULT, {"sendTransaction": 2}, 8, Outcome.CLIENT_GONE), (replies.UNREACHABLE, {}, 10, Outcome.RELEASED)],
    ids=["answered", "in doubt"],
)
@pytest.mark.threat(36)
async def test_leaving_is_no_way_to_send_for_free(answer, posted, left, outcome):
    """Threat 36: the node acts on a send in any case, so it is carried to its end and charged. Doubt is settled in the
    customer's favour (money rule 2)."""
    account, node = OneAccount(10), ScriptedNode(lambda *_: answer)
    node.gate = asyncio.Event()
    pipeline = pipeline_of(account, node)
    await leaving(pipeline.single(PROOF, a_send()), node.asked)
    node.gate.set()
    await pipeline.drain()
    assert (account.posted, node.abandoned) == (posted, 0)
    assert (account.available, account.held) == (left, {})
    assert [end.outcome for end in account.ends.values()] == [outcome]


async def test_who_leaves_while_the_hold_is_on_its_way_gets_it_released():
    """The hold is asked for again by its own id, which names the account, and then let go."""
    account = OneAccount(10)
    holding, first = asyncio.Event(), True

    async def slow_owner(request) -> None:
        nonlocal first
        if first:
            first = False
            account.held[request.operation] = 1
            holding.set()
            await asyncio.Event().wait()

    account.before_hold = slow_owner
    pipeline = pipeline_of(account, ScriptedNode())
    await leaving(pipeline.single(PROOF, a_call("getSlot")), holding)
    await pipeline.drain()
    assert (account.available, account.held) == (10, {})


async def test_who_leaves_a_batch_pays_for_what_was_answered():
    """Each item ends by itself: the settled stays settled, the unanswered is released."""
    account, node = OneAccount(100), ScriptedNode()
    gate, both_settled = asyncio.Event(), asyncio.Event()

    async def count_ends(request) -> None:
        if len(account.ends) == 2:
            both_settled.set()

    async def call_node(method: str, params: bytes, timeout_ms: int):
        if method == "getVersion":
            await gate.wait()
        return RESULT

    node.call = call_node
    account.after_settle = count_ends
    pipeline = pipeline_of(account, node)
    await leaving(pipeline.batch(PROOF, [a_call("getSlot"), a_call("getVersion"), a_call("getSlot")]), both_settled)
    await pipeline.drain()
    assert (account.posted, account.available, account.held) == ({"getSlot": 2}, 98, {})


@pytest.mark.threat(17)
async def test_a_hold_ends_once_whatever_happens_in_between():
    """Threat 17, the part of this side: every path above ends its hold exactly once (OneAccount asserts it)."""
    account = OneAccount(1_000)
    answers = [RESULT, replies.TIMED_OUT, node_error(-32005, "x"), replies.GARBAGE] * 5
    pipeline = pipeline_of(account, ScriptedNode(lambda *_: answers.pop()))
    await asyncio.gather(*(pipeline.single(PROOF, a_call("getSlot")) for _ in range(20)))
    assert len(account.ends) == 20
    assert account.posted == {"getSlot": 10}
