"""Calls that find their own price: answered first, then held at exactly that price, then charged."""

import asyncio
from typing import Any

import msgspec
import pytest

from actors.accounts.api import OwnerUnavailable
from actors.calls import HoldItem, KeyProof, WalletProof
from actors.clock import ManualClock
from actors.errors import Err, Refusal
from actors.gateway.calls.admission import plans
from actors.gateway.calls.jsonrpc import Call
from actors.gateway.calls.pipeline import Pipeline
from actors.gateway.calls.quoted import QUOTES_AT_ONCE_MAX, QUOTES_PER_BATCH
from actors.gateway.calls.refusal_limits import RefusalLimits
from actors.gateway.payments.x402 import within
from actors.pricing_config import PricingConfig
from actors.upstream import replies
from actors.upstream.replies import NodeAnswer
from tests.gateway.doubles import PROOF, PUBKEY, REPLICA, OneAccount, ScriptedNode, a_call, node_error, unavailable

MINT = "So11111111111111111111111111111111111111112"
PRICE = 75
METHODS = ("executeSnipe", "executeSell")


class Quoter:
    """Answers trades as a test says. answer: in place of a priced result."""

    def __init__(self, answer: NodeAnswer | Refusal | None = None) -> None:
        self.answer = answer
        self.asked: list[tuple[bytes, bytes]] = []
        self.at_once = self.at_once_most = 0
        self.gate: asyncio.Event | None = None

    async def call(self, params: bytes, pubkey: bytes, timeout_ms: int) -> Any:
        assert timeout_ms == 15_000
        self.asked.append((params, pubkey))
        self.at_once += 1
        self.at_once_most = max(self.at_once, self.at_once_most)
        try:
            if self.gate is not None:
                await self.gate.wait()
            await turns(1)
            return self.answer or replies.made_quoted(b'{"fee_credits":75}', PRICE, "n")
        finally:
            self.at_once -= 1


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def pipeline_of(
    account: OneAccount, quoter: Quoter, clock: ManualClock | None = None, replica: bytes = REPLICA
) -> Pipeline:
    quotes = dict.fromkeys(METHODS, quoter.call)
    limits = RefusalLimits(500, 500, lambda caller: "here")
    prices = plans(PricingConfig(), ("sendAndConfirm", *METHODS))
    return Pipeline(account, ScriptedNode(), clock or ManualClock(), replica, 1_000, limits, None, prices, {}, quotes)


def a_trade(raw_id: bytes = b"1") -> Call:
    params = b'[{"mint":"%b","amount_sol":1}]' % MINT.encode()
    return Call(raw_id, "executeSnipe", params, [{"mint": MINT, "amount_sol": 1}])


async def test_the_price_is_found_first_and_then_held_and_charged_exactly() -> None:
    """The handler knows the account; the second hold is proven by the first, so a nonce is taken once."""
    account, quoter = OneAccount(credits=100), Quoter()
    done = await pipeline_of(account, quoter).single(WalletProof(PUBKEY, "n", 0), a_trade())
    (reply,) = done.items
    assert reply.answer is not None and reply.answer.value() == b'{"fee_credits":75}' and reply.credits_remaining == 25
    (asked,) = quoter.asked
    assert asked[1] == PUBKEY
    first, second = account.holds
    assert first.items == (HoldItem("executeSnipe", 0, takes_unit=False),)
    assert [item.ceiling for item in second.items] == [PRICE] and account.rate_left == 999
    assert type(second.proof).__name__ == "ProvenProof" and account.posted == {"executeSnipe": PRICE}
    assert not account.held


@pytest.mark.parametrize(
    ("answer", "err"),
    [
        (Refusal(Err.INVALID_PARAMS, "no"), Err.INVALID_PARAMS),
        (Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, "old"), Err.SERVICE_TEMPORARILY_UNAVAILABLE),
        (replies.TIMED_OUT, Err.TIMEOUT),
        (replies.UNREACHABLE, Err.BACKEND_UNAVAILABLE),
        (replies.GARBAGE, Err.BACKEND_UNAVAILABLE),
        (node_error(-32005, "Node is behind"), None),
    ],
)
async def test_what_fails_before_the_hold_is_free(answer: NodeAnswer | Refusal, err: Err | None) -> None:
    """Neither credits nor a rate unit; a node's error is passed on."""
    account = OneAccount(credits=100)
    done = await pipeline_of(account, Quoter(answer)).single(PROOF, a_trade())
    (reply,) = done.items
    assert (None if reply.refusal is None else reply.refusal.err) is err
    assert (reply.answer is answer) is (err is None)
    assert account.credits == 100 and account.rate_left == 1_000 and len(account.holds) == 1
    assert done.figures is not None and done.credits_remaining == 100


async def test_an_account_that_cannot_pay_the_least_gets_no_quote() -> None:
    """Work that nobody pays for is not begun; with the least but less than the price, the owner refuses the hold.

    Such a quote was made for nothing, so it takes a rate unit: the owner counts them for all replicas together.
    """
    for credits, quotes in ((24, 0), (25, 1), (74, 1)):
        account, quoter = OneAccount(credits), Quoter()
        done = await pipeline_of(account, quoter).single(PROOF, a_trade())
        assert done.errs() == [Err.INSUFFICIENT_CREDITS] and len(quoter.asked) == quotes
        assert account.available == credits and account.rate_left == 1_000 - quotes


async def test_quotes_that_an_account_cannot_pay_end_with_its_rate() -> None:
    """At two replicas, one by one and in a batch: the last rate unit ends them, whoever is asked."""
    account, quoter = OneAccount(credits=PRICE - 1), Quoter()
    account.rate_left = 7
    first, second = pipeline_of(account, quoter), pipeline_of(account, quoter, replica=b"the-next")
    ends = [(await (first, second)[number % 2].single(PROOF, a_trade())).errs() for number in range(5)]
    ends.append((await second.batch(PROOF, [a_trade(b"1"), a_trade(b"2")])).errs())
    assert ends == [[Err.INSUFFICIENT_CREDITS]] * 5 + [[Err.INSUFFICIENT_CREDITS] * 2] and len(quoter.asked) == 7
    for pipeline in (first, second):
        assert (await pipeline.single(PROOF, a_trade())).errs() == [Err.RATE_LIMITED] and len(quoter.asked) == 7
    assert account.available == PRICE - 1


@pytest.mark.parametrize("limit", ["cost_max", "credits_max"])
async def test_quotes_over_a_limit_of_their_request_end_with_the_rate(limit: str) -> None:
    """X-Max-Credits or a payment below the price: the node's work was for nothing, so it takes a rate unit."""
    account, quoter = OneAccount(credits=10**6), Quoter()
    account.rate_left = 4
    pipeline = pipeline_of(account, quoter)
    calls = [msgspec.structs.replace(a_trade(b"%d" % number), **{limit: PRICE - 1}) for number in range(3)]
    ends = [(await pipeline.batch(PROOF, calls)).errs(), (await pipeline.single(PROOF, calls[0])).errs()]
    err = Err.MAX_CREDITS_EXCEEDED if limit == "cost_max" else Err.INSUFFICIENT_CREDITS
    assert ends == [[err] * 3, [err]] and account.rate_left == 0 and not any(account.held.values())
    assert (await pipeline.single(PROOF, calls[0])).errs() == [Err.RATE_LIMITED] and len(quoter.asked) == 4
    assert account.available == 10**6 and account.posted == {}


async def test_quotes_of_one_account_are_limited_in_a_second_and_at_once() -> None:
    """Refused calls take no rate unit, so quotes have a limit of their own: the account's rate, a second at a time."""
    clock, account, quoter = ManualClock(), OneAccount(credits=10**6), Quoter(Refusal(Err.INVALID_PARAMS))
    pipeline = pipeline_of(account, quoter, clock)
    ends = [(await pipeline.single(PROOF, a_trade())).errs() for _ in range(1_001)]
    assert ends.count([Err.INVALID_PARAMS]) == 1_000 and ends[-1] == [Err.RATE_LIMITED]
    clock.advance(1)
    assert (await pipeline.single(PROOF, a_trade())).errs() == [Err.INVALID_PARAMS]

    quoter.answer, quoter.gate = None, asyncio.Event()
    tasks = [asyncio.create_task(pipeline.single(PROOF, a_trade())) for _ in range(QUOTES_AT_ONCE_MAX + 1)]
    await turns(50)
    assert quoter.at_once == QUOTES_AT_ONCE_MAX
    refused = await tasks[-1]
    assert refused.errs() == [Err.CONCURRENCY_LIMITED]
    quoter.gate.set()
    done = await asyncio.gather(*tasks[:-1])
    assert not any(one.errs() for one in done) and account.posted == {"executeSnipe": PRICE * QUOTES_AT_ONCE_MAX}
    assert pipeline.quoted._at_once == {}


async def test_no_key_uses_up_the_quotes_of_its_account() -> None:
    """Quotes count for who pays. All named keys of an account together have as many at once as the account itself, and
    each of them half."""
    account, quoter = OneAccount(credits=10**6), Quoter()
    pipeline, quoter.gate = pipeline_of(account, quoter), asyncio.Event()
    tasks = list[asyncio.Task[Any]]()

    async def begun(key: int) -> int:
        account.key, before = key, quoter.at_once
        proof = KeyProof(bytes([key]) * 32, bytes(8))
        tasks.extend(asyncio.create_task(pipeline.single(proof, a_trade())) for _ in range(QUOTES_AT_ONCE_MAX + 1))
        await turns(50)
        return quoter.at_once - before

    half = QUOTES_AT_ONCE_MAX // 2
    assert [await begun(key) for key in (1, 2, 3, 0)] == [half, half, 0, QUOTES_AT_ONCE_MAX]
    quoter.gate.set()
    ends = [done.errs() for done in await asyncio.gather(*tasks)]
    assert ends.count([]) == 2 * QUOTES_AT_ONCE_MAX == len(quoter.asked)
    assert ends.count([Err.CONCURRENCY_LIMITED]) == len(tasks) - 2 * QUOTES_AT_ONCE_MAX
    assert pipeline.quoted._at_once == {}


async def test_a_key_of_few_requests_is_not_refused_for_the_quotes_of_others() -> None:
    account, quoter = OneAccount(credits=10**6), Quoter(Refusal(Err.INVALID_PARAMS))
    pipeline = pipeline_of(account, quoter)
    for key, limit, quotes in ((0, 1_000, 5), (1, 2, 2), (2, 1, 1), (0, 1_000, 5)):
        account.key, account.rate_limit = key, limit
        ends = [(await pipeline.single(PROOF, a_trade())).errs() for _ in range(5)]
        assert ends == [[Err.INVALID_PARAMS]] * quotes + [[Err.RATE_LIMITED]] * (5 - quotes)


async def test_a_batch_keeps_its_order_and_quotes_a_few_at_a_time() -> None:
    """Quoted calls, other calls and refusals in their places; the other calls wait for the prices."""
    account, quoter = OneAccount(credits=10**6), Quoter()
    calls = [a_trade(b"%d" % number) for number in range(40)]
    mixed = [*calls, a_call("getSlot", raw_id=b"40"), a_call("nope", raw_id=b"41")]
    done = await pipeline_of(account, quoter).batch(PROOF, mixed)
    assert [reply.id for reply in done.items] == [b"%d" % number for number in range(42)]
    assert [item.err for item in (done.items[41].refusal,) if item] == [Err.METHOD_NOT_FOUND]
    assert account.posted == {"executeSnipe": 40 * PRICE, "getSlot": 1} and quoter.at_once_most == QUOTES_PER_BATCH


async def test_a_batch_of_refused_trades_holds_nothing() -> None:
    account = OneAccount(credits=100)
    done = await pipeline_of(account, Quoter(Refusal(Err.INVALID_PARAMS))).batch(PROOF, [a_trade(b"1"), a_trade(b"2")])
    assert done.errs() == [Err.INVALID_PARAMS] * 2 and done.credits_remaining == 100 and len(account.holds) == 1


async def test_a_refused_credential_ends_the_request_before_any_work() -> None:
    account, quoter = OneAccount(credits=100), Quoter()
    account.refusal = "AUTH_FAILED"
    done = await pipeline_of(account, quoter).single(PROOF, a_trade())
    assert done.refusal is not None and done.refusal.err is Err.AUTH_FAILED and quoter.asked == []


async def test_an_owner_that_is_away_means_503() -> None:
    """At the first hold, and at the second one."""
    account, quoter = OneAccount(credits=100), Quoter()
    account.before_hold = unavailable
    done = await pipeline_of(account, quoter).single(PROOF, a_trade())
    assert done.refusal is not None and done.refusal.err is Err.SERVICE_TEMPORARILY_UNAVAILABLE

    async def second(request: Any) -> None:
        if request.items[0].ceiling:
            raise OwnerUnavailable

    account.before_hold = second
    done = await pipeline_of(account, quoter).single(PROOF, a_trade())
    assert done.refusal is not None and done.refusal.err is Err.SERVICE_TEMPORARILY_UNAVAILABLE


async def test_a_client_that_leaves_during_the_quote_owes_nothing() -> None:
    account, quoter = OneAccount(credits=100), Quoter()
    quoter.gate = asyncio.Event()
    pipeline = pipeline_of(account, quoter)
    task = asyncio.create_task(pipeline.single(PROOF, a_trade()))
    await turns(50)
    assert quoter.at_once == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await pipeline.drain()
    assert account.credits == 100 and not account.held and pipeline.quoted._at_once == {}


async def test_a_trade_whose_charge_cannot_be_recorded_does_not_leave() -> None:
    account = OneAccount(credits=100)
    account.settle_says_no = True
    done = await pipeline_of(account, Quoter()).single(PROOF, a_trade())
    assert done.errs() == [Err.SERVICE_TEMPORARILY_UNAVAILABLE] and len(account.voided) == 1


async def test_a_payment_buys_a_trade_up_to_its_credits() -> None:
    """x402: what a payment brought bounds the price, whatever else the account holds; later calls get nothing of it."""
    for credits, bought in ((PRICE, True), (PRICE - 1, False)):
        account = OneAccount(credits=10_000)
        calls = within([a_trade(b"1"), a_call("getSlot", raw_id=b"2")], credits)
        done = await pipeline_of(account, Quoter()).batch(PROOF, calls)
        assert (done.items[0].answer is not None) is bought
        assert done.items[1].refusal is not None and done.items[1].refusal.err is Err.INSUFFICIENT_CREDITS
        assert account.posted == ({"executeSnipe": PRICE} if bought else {})


async def test_methods_that_nobody_answers_here_are_not_sold() -> None:
    assert not set(METHODS) & set(plans(PricingConfig(), ("sendAndConfirm",)))
