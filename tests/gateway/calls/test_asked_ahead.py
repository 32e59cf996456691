"""decisions, "Calls asked ahead": one message in place of two, and nothing else is different for anybody."""

import asyncio
from typing import Any

import pytest

from actors.accounts.api import OwnerUnavailable
from actors.accounts.hourly_commands import ChangeHourlyLimit
from actors.calls import ChargeRequest, KeyProof, Outcome
from actors.clock import ManualClock
from actors.errors import Err
from actors.gateway.calls.pipeline import Pipeline
from actors.gateway.calls.requests import AsgiClient
from actors.telemetry.metrics import Metrics
from actors.upstream.replies import AnswerKind, NodeAnswer
from tests.gateway.doubles import (
    PROOF,
    RESULT,
    OneAccount,
    ScriptedNode,
    a_call,
    a_send,
    counted,
    node_error,
    pipeline_of,
    unavailable,
)
from tests.gateway.world import a_world, call, constant

CREDITS = 10_000


class Caller:
    """Whose first call was held in the usual way, so that the account is known. charges: asked of the owner."""

    def __init__(self, node: ScriptedNode | None = None) -> None:
        self.account, self.node, self.metrics = OneAccount(CREDITS), node or ScriptedNode(), Metrics()
        self.clock = ManualClock()
        self.pipeline: Pipeline = pipeline_of(self.account, self.node, metrics=self.metrics, clock=self.clock)
        self.charges: list[ChargeRequest] = []
        charge = self.account.charge

        async def noted(request: ChargeRequest) -> Any:
            self.charges.append(request)
            return await charge(request)

        self.account.charge = noted  # type: ignore[method-assign]

    async def call(self, method: str = "getSlot", client: AsgiClient | None = None) -> Any:
        done = await self.pipeline.single(PROOF, a_call(method), client)
        await asyncio.sleep(0)  # What is counted after the answer is counted in the next turn.
        return done


async def test_the_next_call_is_held_and_charged_in_one_message_after_its_answer() -> None:
    """The answer has its charge in the ledger, and the same figures, as the call before it."""
    caller = Caller()
    first, second = await caller.call(), await caller.call()
    assert second.items[0].answer is RESULT and len(caller.charges) == 1
    assert (first.figures.credits_remaining, second.figures.credits_remaining) == (CREDITS - 1, CREDITS - 2)
    assert (second.credits_remaining, caller.account.posted, caller.account.held) == (CREDITS - 2, {"getSlot": 2}, {})
    charge = second.items[0].charge
    assert charge == caller.charges[0].settle and charge.outcome == Outcome.ANSWERED
    assert caller.account.rate_left == 998, "each took a unit of the rate"
    assert counted(caller.metrics, "calls") == {"getSlot": 2}


@pytest.mark.parametrize("method", ["getBlock", "sendTransaction"])
async def test_calls_that_are_dear_or_change_the_chain_are_held_first(method: str) -> None:
    """A getBlock costs 25 here: the account must be able to pay a hundred. A send must be paid before it is sent."""
    caller = Caller()
    caller.account.credits = 2_400
    await caller.call()
    call = a_send() if method == "sendTransaction" else a_call(method, 5)
    await caller.pipeline.single(PROOF, call)
    assert caller.charges == [] and len(caller.node.calls) == 2


async def test_calls_that_come_together_are_asked_ahead_while_slots_are_free() -> None:
    """Each tells how many follow, so that the owner writes them in one group; an error of the node is no gap in it."""
    caller, answers = Caller(), [RESULT, RESULT, NodeAnswer(AnswerKind.TIMED_OUT), RESULT, RESULT]
    caller.account.slots = 20
    await caller.call()

    async def take_time(*_: object) -> NodeAnswer:
        await asyncio.sleep(0)
        return answers.pop()

    caller.node.call = take_time  # type: ignore[method-assign]
    await asyncio.gather(*(caller.call() for _ in range(5)))
    assert [one.coming for one in caller.charges] == [4, 3, 2, 1, 0]
    assert caller.account.posted == {"getSlot": 5} and caller.account.held == {}


async def test_all_keys_of_an_account_share_what_it_may_have_asked_ahead() -> None:
    """Keys share their account's rate and credits: else a second key asks the node for what the owner then refuses."""
    caller, answered = Caller(), asyncio.Event()
    caller.account.slots, caller.account.rate_limit, caller.account.rate_left = 1_000, 100, 100
    other = KeyProof(b"o" * 32, bytes(8))
    await caller.call()
    await caller.pipeline.single(other, a_call("getSlot"))
    assert len(caller.account.holds) == 2

    async def hang(*_: object) -> NodeAnswer:
        await answered.wait()
        return RESULT

    caller.node.call = hang  # type: ignore[method-assign]
    works = [asyncio.ensure_future(caller.call()) for _ in range(76)]
    await asyncio.sleep(0)
    assert len(caller.account.holds) == 2, "a quarter of the rate is left"
    works.append(asyncio.ensure_future(caller.pipeline.single(other, a_call("getSlot"))))
    await asyncio.sleep(0)
    assert len(caller.account.holds) == 3
    answered.set()
    await asyncio.gather(*works)
    assert caller.account.posted == {"getSlot": 79} and caller.account.held == {}


async def test_calls_that_come_together_are_held_first() -> None:
    """Without slots for all of them they go in step, and share messages and group commits. Who is alone again is asked
    ahead a moment later."""
    caller = Caller()
    await caller.call()

    async def take_time(*_: object) -> NodeAnswer:
        await asyncio.sleep(0)
        return RESULT

    caller.node.call = take_time  # type: ignore[method-assign]
    await asyncio.gather(*(caller.call() for _ in range(5)))
    assert len(caller.charges) == 1, "the first one was alone"
    await caller.call()
    assert len(caller.charges) == 1
    caller.clock.advance(0.051)
    await caller.call()
    assert len(caller.charges) == 2 and caller.account.posted == {"getSlot": 8}


@pytest.mark.parametrize("answer", [NodeAnswer(AnswerKind.TIMED_OUT), node_error(-32601, "Method not found")])
async def test_an_answer_that_costs_nothing_is_released_in_the_same_message(answer: NodeAnswer) -> None:
    answers = [RESULT, answer]
    caller = Caller(ScriptedNode(lambda *_: answers.pop(0)))
    await caller.call()
    done = await caller.call()
    assert len(caller.charges) == 1 and caller.charges[0].settle.charged == 0
    assert (caller.account.held, caller.account.posted, done.credits_remaining) == ({}, {"getSlot": 1}, CREDITS - 1)
    assert caller.account.voided == []


@pytest.mark.parametrize("refused", ["account", "rate", "credits"])
async def test_an_answer_that_the_owner_does_not_take_a_charge_for_is_thrown_away(refused: str) -> None:
    """The client gets the refusal alone. The charge is voided, as the request may have arrived twice, and the next call
    is held before the node is asked."""
    caller = Caller()
    await caller.call()
    if refused == "account":
        caller.account.refusal = "AUTH_FAILED"
    elif refused == "rate":
        caller.account.rate_left = 0
    else:
        caller.account.credits = 0
    done = await caller.call()
    errs = {"account": Err.AUTH_FAILED, "rate": Err.RATE_LIMITED, "credits": Err.INSUFFICIENT_CREDITS}
    assert done.errs() == [errs[refused]] and all(item.answer is None for item in done.items)
    assert caller.account.voided == [caller.charges[0].settle] and caller.account.posted == {"getSlot": 1}
    asked = len(caller.node.calls)
    assert (await caller.call()).errs() == [errs[refused]]
    assert len(caller.node.calls) == asked, "the node was asked for a call that nobody pays"


async def test_a_charge_of_which_nobody_knows_is_voided_and_its_answer_withheld() -> None:
    """Money rule 9, with the rate that was told before, and no balance."""
    caller = Caller()
    await caller.call()

    async def away(request: ChargeRequest) -> Any:
        caller.charges.append(request)
        raise OwnerUnavailable

    caller.account.charge = away  # type: ignore[method-assign]
    done = await caller.call()
    assert done.errs() == [Err.SERVICE_TEMPORARILY_UNAVAILABLE] and done.items[0].answer is None
    assert (done.credits_remaining, done.figures.rate_limit) == (None, 1_000)
    assert caller.account.voided == [caller.charges[0].settle]


@pytest.mark.parametrize("moment", ["asking", "charging"])
@pytest.mark.parametrize("left", [True, False])
async def test_who_leaves_pays_for_what_was_answered_and_for_nothing_else(moment: str, left: bool) -> None:
    """Threat 36. left: the client; else this server gives the request up, which costs nothing."""
    never, reached = asyncio.Event(), asyncio.Event()
    caller = Caller()
    await caller.call()

    async def hang(*_: object) -> NodeAnswer:
        reached.set()
        await never.wait()
        return RESULT

    if moment == "asking":
        caller.node.call = hang  # type: ignore[method-assign]
    else:
        caller.account.before_settle = hang
    work = asyncio.ensure_future(caller.call(client=AsgiClient([], None, disconnected=left)))
    await reached.wait()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    never.set()
    await caller.pipeline.drain()
    account = caller.account
    if moment == "asking":
        assert (account.posted, account.voided, account.held) == ({"getSlot": 1}, [], {})
        assert account.rate_left == 998, "it took a unit of the rate, as a call that was held first"
        assert [charge.settle.charged for charge in caller.charges] == [0]
    elif left:
        assert account.posted == {"getSlot": 2} and caller.charges[0].operation in account.delivered_operations
    else:
        assert account.voided == [caller.charges[0].settle]


@pytest.mark.threat(75)
async def test_who_always_leaves_has_the_nodes_work_no_more_than_a_rate_allows() -> None:
    """Such calls cost nothing. Their units of the rate are all that bounds them, and a call of an account whose client
    left is followed by one that is held first."""
    caller, never = Caller(), asyncio.Event()
    caller.account.slots = 64
    await caller.call()

    async def hang(method: str, params: bytes, timeout_ms: int) -> NodeAnswer:
        caller.node.calls.append((method, params, timeout_ms))
        await never.wait()
        return RESULT

    caller.node.call = hang  # type: ignore[method-assign]
    caller.account.rate_left = 20
    for _ in range(20):
        works = [asyncio.ensure_future(caller.call(client=AsgiClient([], None, disconnected=True))) for _ in range(16)]
        for _ in range(5):
            await asyncio.sleep(0)
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)
        await caller.pipeline.drain()
    assert caller.account.rate_left == 0 and caller.account.posted == {"getSlot": 1} and caller.account.held == {}
    assert len(caller.node.calls) <= 1 + 20 + 16
    assert caller.account.voided == []


async def test_a_call_that_is_left_and_refused_leaves_nothing_behind() -> None:
    """Its key was replaced meanwhile, or its owner is away: nothing was held, so there is nothing to void."""
    for away in (False, True):
        caller, asked = Caller(), asyncio.Event()
        await caller.call()

        async def hang(*_: object, asked: asyncio.Event = asked) -> NodeAnswer:
            asked.set()
            await asyncio.Event().wait()
            return RESULT

        caller.node.call = hang  # type: ignore[method-assign]
        caller.account.refusal = "AUTH_FAILED"
        if away:
            caller.account.before_hold = unavailable
        work = asyncio.ensure_future(caller.call(client=AsgiClient([], None, disconnected=True)))
        await asked.wait()
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        await caller.pipeline.drain()
        assert (caller.account.posted, caller.account.voided, caller.account.held) == ({"getSlot": 1}, [], {})


@pytest.mark.threat(75)
async def test_at_its_hourly_limit_an_account_has_no_node_asked() -> None:
    """The owner tells what the limit leaves with each hold, so with that of a free call, which goes on at the limit."""
    async with a_world() as world:
        wallet = await world.customer(1_000_000)
        await world.rpc(wallet, call())
        await world.shard.ask(ChangeHourlyLimit(wallet.pubkey, 40))
        assert (await world.rpc(wallet, call("getBlock", 1))).status_code == 200
        for slot in range(2, 5):
            assert (await world.rpc(wallet, call("rpc.discover"))).status_code == 200
            assert constant(await world.rpc(wallet, call("getBlock", slot))) == "HOURLY_LIMIT_EXCEEDED"
        blocks = [method for method, _, _ in world.node.calls if method == "getBlock"]
        assert len(blocks) == 1, "the node was asked for a call that nobody pays"
        assert await world.debits(wallet) == [("getSlot", 1), ("getBlock", 25)]
