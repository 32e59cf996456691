"""Threats 36 and 54: requests that end without their answer are decided at once, call by call."""

import asyncio

import pytest

from actors.calls import Outcome
from actors.gateway.calls.requests import AsgiClient
from actors.telemetry.metrics import Metrics
from actors.upstream import replies
from tests.gateway.doubles import PROOF, RESULT, OneAccount, ScriptedNode, a_call, a_send, counted, pipeline_of


class HalfWay:
    """A batch of which two calls are posted, one is being posted, one is a send and one a read that the node has."""

    def __init__(self, client: AsgiClient | None) -> None:
        self.account, self.client, node = OneAccount(100), client, ScriptedNode()
        self.answered, self.posting, self.two_posted = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def call_node(method, params, timeout_ms):
            if method == "getVersion" or method == "sendTransaction":
                await self.answered.wait()
            if method == "getBlockHeight":
                await self.two_posted.wait()
            return RESULT

        async def never_posted(request):
            if request.method == "getBlockHeight" and request.outcome == Outcome.ANSWERED:
                self.posting.set()
                await asyncio.Event().wait()

        async def count(request):
            if len(self.account.ends) == 2:
                self.two_posted.set()

        node.call = call_node
        self.account.before_settle, self.account.after_settle = never_posted, count
        self.metrics = Metrics()
        self.pipeline = pipeline_of(self.account, node, metrics=self.metrics)

    async def cancelled(self) -> None:
        methods = ("getSlot", "getSlot", "getBlockHeight", "getVersion")
        calls = [*(a_call(method) for method in methods), a_send()]
        work = asyncio.ensure_future(self.pipeline.batch(PROOF, calls, self.client))
        await self.posting.wait()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        self.answered.set()
        await self.pipeline.drain()


@pytest.mark.threat(54)
async def test_who_leaves_a_batch_half_way_pays_for_what_the_node_had_answered():
    """README, "the client leaves": charged after the node's answer, free before it, sends carried on. The owner is told
    that nothing charged is undelivered any more, so that the end of this replica refunds nothing."""
    half = HalfWay(AsgiClient([], None, disconnected=True))
    await half.cancelled()
    account = half.account
    assert counted(half.metrics, "credits_charged") == account.posted
    assert account.posted == {"getSlot": 2, "getBlockHeight": 1, "sendTransaction": 2}
    assert {end.method: end.outcome for end in account.ends.values()} == {
        "getSlot": Outcome.ANSWERED,
        "getBlockHeight": Outcome.CLIENT_GONE,
        "getVersion": Outcome.RELEASED,
        "sendTransaction": Outcome.CLIENT_GONE,
    }
    charged = [operation for operation, end in account.ends.items() if end.charged]
    assert sorted(account.delivered_operations) == sorted(charged)
    assert (account.voided, account.held, account.available) == ([], {}, 95)


@pytest.mark.threat(54)
async def test_who_cannot_be_asked_counts_as_one_who_left():
    """A door that says nothing about its caller cancels only for those who left."""
    half = HalfWay(None)
    await half.cancelled()
    assert len(half.account.delivered_operations) == 4
    assert half.account.voided == []


async def test_a_server_that_gives_a_batch_up_charges_nothing_for_it():
    """Money rule 2: the client is still there and gets no answer, so what was posted is refunded, at once. A send goes
    on, as the node acts on it anyway."""
    half = HalfWay(AsgiClient([], None))
    await half.cancelled()
    account = half.account
    voided = [void.method for void in account.voided]
    assert sorted(voided) == ["getBlockHeight", "getSlot", "getSlot"]
    sends = [operation for operation, end in account.ends.items() if end.method == "sendTransaction"]
    assert account.delivered_operations == sends


@pytest.mark.threat(54)
async def test_a_send_of_a_batch_that_the_node_does_not_answer_is_free():
    """Doubt is settled in the customer's favour (money rule 2)."""
    account, node = OneAccount(10), ScriptedNode(lambda *_: replies.UNREACHABLE, asked_after=2)
    node.gate = asyncio.Event()
    pipeline = pipeline_of(account, node)
    client = AsgiClient([], None, disconnected=True)
    work = asyncio.ensure_future(pipeline.batch(PROOF, [a_send(), a_send()], client))
    await node.asked.wait()
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    node.gate.set()
    await pipeline.drain()
    assert (account.available, account.held, account.delivered_operations) == (10, {}, [])
