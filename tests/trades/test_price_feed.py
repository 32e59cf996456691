import asyncio
import base64
from typing import Any

import orjson
import pytest

from actors import addresses
from actors.clock import ManualClock
from actors.config import TradesConfig
from actors.errors import Err, Refusal
from actors.trades.price_feed import SolPriceFeed
from actors.trades.sol_price import SolPrice
from actors.upstream import replies
from actors.upstream.replies import NodeAnswer

from .test_sol_price import account


class PriceNode:
    """Has one account. answer: what it says in its place."""

    def __init__(self) -> None:
        self.data = b""
        self.owner = addresses.PYTH_RECEIVER_PROGRAM
        self.answer: NodeAnswer | None = None
        self.calls = 0
        self.asked = asyncio.Event()

    async def call(self, method: str, params: bytes, timeout_ms: int) -> NodeAnswer:
        assert (method, orjson.loads(params)[0]) == ("getAccountInfo", addresses.PYTH_SOL_USD_ACCOUNT) and timeout_ms
        self.calls += 1
        self.asked.set()
        if self.answer is not None:
            return self.answer
        value: Any = {"owner": self.owner, "data": [base64.b64encode(self.data).decode(), "base64"]}
        return result({"value": value if self.data else None})


def result(value: Any) -> NodeAnswer:
    return replies.judge(orjson.dumps({"jsonrpc": "2.0", "id": 1, "result": value}))


def reason(found: SolPrice | Refusal) -> str:
    assert isinstance(found, Refusal) and found.err is Err.SERVICE_TEMPORARILY_UNAVAILABLE
    return found.detail


async def test_a_price_is_charged_by_until_it_is_too_old() -> None:
    """A failing node changes nothing at first; after the limit builds are refused with the reason."""
    node, clock = PriceNode(), ManualClock()
    feed = SolPriceFeed(node, TradesConfig(sol_usd_age_seconds_max=60), clock)
    assert "not been read yet" in reason(feed.usable()) and feed.latest is None
    node.data = account(published_at=clock.now())
    await feed.read()
    price = feed.usable()
    assert isinstance(price, SolPrice) and price.micro_usd == 150_123_456
    node.answer = replies.UNREACHABLE
    clock.advance(60)
    await feed.read()
    assert feed.usable() is price
    clock.advance(1)
    assert "61 seconds old, at most 60" in reason(feed.usable())
    assert feed.latest is price, "the page still shows it, with its age"


async def test_a_node_that_is_behind_brings_no_older_price() -> None:
    node, clock = PriceNode(), ManualClock()
    feed = SolPriceFeed(node, TradesConfig(), clock)
    for price, published_at in ((20_000_000_000, clock.now()), (10_000_000_000, clock.now() - 5)):
        node.data = account(price=price, published_at=published_at)
        await feed.read()
    assert feed.latest == SolPrice(200_000_000, clock.now())


async def test_a_price_of_the_future_does_not_keep_true_ones_out() -> None:
    """Threat 34: one wrong answer costs at most the builds until the next one."""
    node, clock = PriceNode(), ManualClock()
    feed = SolPriceFeed(node, TradesConfig(), clock)
    node.data = account(published_at=clock.now() + 10**9)
    await feed.read()
    assert "in the future" in reason(feed.usable()) and feed.latest is None
    node.data = account(published_at=clock.now())
    await feed.read()
    assert isinstance(feed.usable(), SolPrice)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (result({"value": None}), "no price account"),
        (result({"value": {"owner": 5}}), "could not be read"),
        (result({"value": {"owner": "x", "data": ["***", "base64"]}}), "could not be read"),
        (result({"value": {"owner": "x", "data": ["", "base64"]}}), "does not belong"),
        (replies.GARBAGE, "did not give"),
    ],
)
async def test_what_cannot_be_read_is_refused_with_the_reason(answer: NodeAnswer, words: str) -> None:
    node = PriceNode()
    node.answer = answer
    feed = SolPriceFeed(node, TradesConfig(), ManualClock())
    await feed.read()
    assert words in reason(feed.usable())


async def test_the_operators_price_needs_no_node_and_no_age() -> None:
    node = PriceNode()
    feed = SolPriceFeed(node, TradesConfig(sol_usd_micro=7), ManualClock())
    feed.start()
    assert feed.usable() == SolPrice(7, None) and len(feed._background) == 0 and node.calls == 0
    await feed.stop()


async def test_the_account_is_followed_until_the_feed_stops() -> None:
    node = PriceNode()
    feed = SolPriceFeed(node, TradesConfig(), ManualClock())
    feed.start()
    await node.asked.wait()
    await feed.stop()
    assert len(feed._background) == 0 and node.calls == 1
