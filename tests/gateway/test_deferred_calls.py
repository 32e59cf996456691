"""Calls whose holds another process ends: neither posted nor released here, under a prefix that nobody fences."""

import asyncio

from actors.calls import REPLICA_ID_BYTES, SettleRequest
from actors.clock import ManualClock
from actors.errors import Err
from actors.gateway.calls.admission import plans
from actors.gateway.calls.pipeline import Pipeline
from actors.gateway.calls.refusal_limits import RefusalLimits
from actors.pricing_config import PricingConfig
from actors.upstream import replies
from actors.upstream.replies import NodeAnswer
from tests.gateway.doubles import PROOF, PUBKEY, REPLICA, TRANSACTION, OneAccount, ScriptedNode, a_call

DEFERRED = replies.made_deferred(b'{"status":"confirmed"}')


class Desk:
    """Carries out deferred calls as a test says. holds: what it was handed."""

    def __init__(self, answer: NodeAnswer = DEFERRED) -> None:
        self.answer = answer
        self.holds: list[SettleRequest] = []
        self.gate: asyncio.Event | None = None
        self.asked = asyncio.Event()

    async def call(self, params: bytes, hold: SettleRequest, timeout_ms: int) -> NodeAnswer:
        del params, timeout_ms
        self.holds.append(hold)
        self.asked.set()
        if self.gate is not None:
            await self.gate.wait()
        return self.answer


def the_pipeline(account: OneAccount, desk: Desk, pricing: PricingConfig | None = None) -> Pipeline:
    limits = RefusalLimits(500, 500, lambda caller: "here")
    callers = {"sendAndConfirm": desk.call, "getSendStatus": desk.call}
    prices = plans(pricing or PricingConfig())
    return Pipeline(account, ScriptedNode(), ManualClock(), REPLICA, 100, limits, None, prices, callers)


def a_race(raw_id: bytes = b"1"):
    return a_call("sendAndConfirm", TRANSACTION, raw_id=raw_id)


async def test_a_deferred_call_is_held_at_the_landing_price_and_not_ended_here():
    """The racer posts or releases it, whatever becomes of this replica."""
    account, desk = OneAccount(credits=100), Desk()
    done = await the_pipeline(account, desk, PricingConfig(landing_credits=70)).single(PROOF, a_race())
    (reply,) = done.items
    assert reply.answer is DEFERRED and reply.charge is None and reply.credits_remaining == 30
    assert list(account.held.values()) == [70] and not account.ends and not account.voided
    (hold,) = desk.holds
    assert (hold.pubkey, hold.ceiling, hold.charged) == (PUBKEY, 70, 0) and hold.operation in account.held


async def test_its_operation_has_an_replica_that_no_owner_hears_of():
    """An owner that fences this replica would end the hold, and refuse the charge of a send that has landed."""
    account, desk = OneAccount(credits=100), Desk()
    await the_pipeline(account, desk).single(PROOF, a_race())
    assert desk.holds[0].operation[:REPLICA_ID_BYTES] != REPLICA


async def test_a_deferred_call_that_was_not_taken_is_released():
    """No race began: the node was away, or the preflight failed."""
    failed = replies.made_error(-32002, "Transaction simulation failed: x", b"{}")
    for answer, err in ((replies.UNREACHABLE, Err.BACKEND_UNAVAILABLE), (failed, None)):
        account, desk = OneAccount(credits=100), Desk(answer)
        (reply,) = (await the_pipeline(account, desk).single(PROOF, a_race())).items
        assert (reply.refusal.err if reply.refusal else None) is err
        assert not account.held and account.posted == {}


async def test_a_caller_that_leaves_takes_nothing_along():
    """The race goes on, and its hold is the racer's; where no race began it is released."""
    for answer, held in ((DEFERRED, 1), (replies.UNREACHABLE, 0)):
        account, desk = OneAccount(credits=100), Desk(answer)
        desk.gate = asyncio.Event()
        pipeline = the_pipeline(account, desk)
        task = asyncio.create_task(pipeline.single(PROOF, a_race()))
        await desk.asked.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        desk.gate.set()
        await pipeline.drain()
        assert len(account.held) == held and account.posted == {}


async def test_a_batch_may_mix_them_with_others():
    """Each part is held under its own prefix, and replies keep their order."""
    account, desk = OneAccount(credits=200), Desk()
    calls = [a_race(b"1"), a_call("getSlot", raw_id=b"2"), a_race(b"3"), a_call("nope", raw_id=b"4")]
    done = await the_pipeline(account, desk).batch(PROOF, calls)
    assert [reply.id for reply in done.items] == [b"1", b"2", b"3", b"4"]
    assert [reply.answer is DEFERRED for reply in done.items] == [True, False, True, False]
    assert account.posted == {"getSlot": 1} and list(account.held.values()) == [50, 50]
    prefixed = [request.operation[:REPLICA_ID_BYTES] == REPLICA for request in account.holds]
    assert prefixed == [True, False]


async def test_a_batch_of_nothing_else_is_one_hold():
    account, desk = OneAccount(credits=60), Desk()
    done = await the_pipeline(account, desk).batch(PROOF, [a_race(b"1"), a_race(b"2")])
    assert done.items[0].answer is DEFERRED and done.items[1].refusal.err is Err.INSUFFICIENT_CREDITS
    assert len(account.holds) == 1


async def test_the_status_of_a_send_is_free_and_takes_a_rate_unit():
    account, desk = OneAccount(credits=0), Desk(replies.made(b'{"status":"pending"}'))
    done = await the_pipeline(account, desk).single(PROOF, a_call("getSendStatus", "5" * 88))
    assert done.items[0].answer is desk.answer
    assert account.rate_left == 999 and account.posted == {}
