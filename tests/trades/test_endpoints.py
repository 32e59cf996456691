"""The handlers at a chain in the test, without a door: nodes that fail or lie, prices that are not known."""

import base64
from typing import Any

import orjson
import pytest
from solders.pubkey import Pubkey

from actors.clock import ManualClock
from actors.config import TradesConfig
from actors.errors import Err, Refusal
from actors.methods.entries import encoded
from actors.methods.trades import SellQuestion, SnipeQuestion
from actors.pricing_config import PricingConfig
from actors.trades.endpoints import Built, TradeMethods
from actors.trades.price_feed import SolPriceFeed
from actors.trades.sol_price import CREDITS_MAX
from actors.upstream import replies
from actors.upstream.replies import AnswerKind, NodeAnswer, QuotedAnswer
from tests.devnode.pad import SOL, Pad

from .scene import PadNode

U64_MAX = 2**64 - 1


async def snipe(methods: TradeMethods, pad: Pad, mint: Pubkey, budget: int = SOL) -> Built:
    asked = SnipeQuestion(str(mint), budget, 500, 100_000)
    return await methods.handlers()["executeSnipe"](encoded(asked), bytes(pad.user.pubkey()), 15_000)


async def sell(methods: TradeMethods, pad: Pad, mint: Pubkey, tokens: int) -> Built:
    asked = SellQuestion(str(mint), tokens, 500, 100_000)
    return await methods.handlers()["executeSell"](encoded(asked), bytes(pad.user.pubkey()), 15_000)


async def test_a_build_asks_the_node_twice_at_the_same_time(pad: Pad) -> None:
    """All accounts in one call, and the blockhash; X-Node names the node."""
    node = PadNode(pad)
    mint = pad.launch()
    built = await snipe(node.methods(), pad, mint)
    assert isinstance(built, QuotedAnswer) and built.credits == orjson.loads(built.value())["fee_credits"] == 75_025
    assert built.node == "pad"
    assert sorted(method for method, _ in node.calls) == ["getLatestBlockhash", "getMultipleAccounts"]


async def test_without_a_price_nothing_is_asked_or_built(pad: Pad) -> None:
    """A stale price is refused, not guessed."""
    node = PadNode(pad)
    feed = SolPriceFeed(node, TradesConfig(), ManualClock())
    built = await snipe(TradeMethods(node, feed, PricingConfig(), 100_000), pad, pad.launch())
    assert isinstance(built, Refusal) and built.err is Err.SERVICE_TEMPORARILY_UNAVAILABLE
    assert "SOL/USD" in built.detail and node.calls == []


async def test_a_fee_that_no_reader_keeps_exactly_is_refused(pad: Pad) -> None:
    """A price that would be rounded by JSON readers is no price."""
    node, mint = PadNode(pad), pad.launch()
    feed = SolPriceFeed(node, TradesConfig(sol_usd_micro=10**12), ManualClock())
    dear = TradeMethods(node, feed, PricingConfig(trade_bps=10_000), 10**9)
    built = await snipe(dear, pad, mint, 10**12)
    assert isinstance(built, Refusal) and str(CREDITS_MAX) in built.detail


@pytest.mark.parametrize("kind", [AnswerKind.TIMED_OUT, AnswerKind.UNREACHABLE, AnswerKind.GARBAGE])
@pytest.mark.parametrize("failing", ["getLatestBlockhash", "getMultipleAccounts"])
async def test_a_failing_node_is_told_as_it_is(pad: Pad, failing: str, kind: AnswerKind) -> None:
    mint = pad.launch()

    class Failing(PadNode):
        async def call(self, method: str, params: bytes, timeout_ms: int) -> NodeAnswer:
            if method == failing:
                return NodeAnswer(kind)
            return await super().call(method, params, timeout_ms)

    built = await snipe(Failing(pad).methods(), pad, mint)
    assert isinstance(built, NodeAnswer) and built.kind is kind and not isinstance(built, QuotedAnswer)


def with_data(place: int, change: Any) -> Any:
    """Change the bytes of one of the accounts."""

    def changed(result: Any) -> Any:
        if isinstance(result["value"], list) and result["value"][place] is not None:
            data = base64.b64decode(result["value"][place]["data"][0])
            result["value"][place]["data"][0] = base64.b64encode(change(data)).decode()
        return result

    return changed


def put(at: int, number: int, size: int = 8) -> Any:
    return lambda data: data[:at] + number.to_bytes(size, "little") + data[at + size :]


LIES: dict[str, Any] = {
    **{f"reserve {at} is {value}": with_data(0, put(at, value)) for at in (8, 16, 24, 32) for value in (0, 1, U64_MAX)},
    "decimals are 255": with_data(1, put(44, 255, 1)),
    "the supply is the largest": with_data(1, put(36, U64_MAX)),
    "the curve ends early": with_data(0, lambda data: data[:48]),
    "the curve is empty": with_data(0, lambda _: b""),
    "the mint is empty": with_data(1, lambda _: b""),
    "Global ends early": with_data(2, lambda data: data[:700]),
    "the schedule has 2^32 tiers": with_data(3, put(65, 2**32 - 1, 4)),
    "the fees are the largest": with_data(3, put(65 + 4 + 16 + 8, U64_MAX)),
    "the wallet holds the most": with_data(6, put(64, U64_MAX)),
    "the answer is a number": lambda _: 5,
    "the answer is null": lambda _: None,
    "there are no accounts": lambda _: {"value": []},
    "every account is null": lambda result: {"value": [None] * len(result["value"])},
    "a blockhash is no hash": lambda result: {"value": {"blockhash": "x"}} if "blockhash" in str(result) else result,
}


@pytest.mark.parametrize("lie", LIES)
async def test_a_node_that_lies_makes_a_call_fail_and_never_the_service(pad: Pad, lie: str) -> None:
    """A transaction, a refusal with a reason, or an answer that cannot be used: nothing else, never an exception."""
    mint = pad.launch()
    node = PadNode(pad)
    node.change = LIES[lie]
    for built in (await snipe(node.methods(), pad, mint), await sell(node.methods(), pad, mint, 10**9)):
        if isinstance(built, Refusal):
            assert built.err is Err.INVALID_PARAMS and built.detail
        else:
            assert isinstance(built, QuotedAnswer) or built is replies.GARBAGE


async def test_a_bought_coin_is_not_held_before_the_purchase_lands(pad: Pad) -> None:
    """Building moves nothing; the refusal names the wallet whose account was looked at."""
    node, mint = PadNode(pad), pad.launch()
    bought = await snipe(node.methods(), pad, mint)
    assert isinstance(bought, QuotedAnswer)
    refused = await sell(node.methods(), pad, mint, 1_000)
    assert isinstance(refused, Refusal) and f"the wallet {pad.user.pubkey()} holds 0" in refused.detail
