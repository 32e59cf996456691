"""Sends by outcome and built trades by the price list of their account, whose prices leave the replica or its answer.

Rule: decisions, "Price lists"; money rule 1.
"""

from typing import Any

import orjson
import pytest

from actors.calls import SettleRequest
from actors.upstream import replies
from actors.upstream.replies import NodeAnswer
from tests.gateway.calls.test_account_prices import KEY, world
from tests.gateway.doubles import TRANSACTION
from tests.gateway.world import call
from tests.idempotency.memory_store import MemoryIdempotencyStore


class Race:
    """Answers a sendAndConfirm, and keeps the prices that it was given."""

    def __init__(self) -> None:
        self.told: list[tuple[int, tuple[int, ...]]] = []

    async def call(self, params: bytes, hold: SettleRequest, timeout_ms: int, *base: int) -> NodeAnswer:
        self.told.append((hold.ceiling, base))
        return replies.made_deferred(b"{}", True, posted=hold.ceiling)


@pytest.mark.parametrize("key", [None, "once"])
async def test_a_send_by_outcome_carries_both_prices_of_its_list(key: str | None) -> None:
    """The racer charges by them when the chain has told what became of it."""
    race = Race()
    async with world(callers={"sendAndConfirm": race.call}, idempotency=MemoryIdempotencyStore()) as there:
        wallet = await there.customer(1_000)
        sent = {"idempotency-key": key} if key else {}
        for name, told in (("", (50, ())), ("wholesale", (30, (2,))), ("dear", (150, (6,)))):
            await there.give_list(wallet, name)
            answer = await there.rpc(
                wallet, call("sendAndConfirm", TRANSACTION), **{k: v + name for k, v in sent.items()}
            )
            assert answer.status_code == 200, answer.text
            assert race.told[-1] == told


class Builder:
    """Answers executeSell by the list that it is given."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.meanwhile: Any = None

    async def call(self, params: bytes, pubkey: bytes, timeout_ms: int, *prices: Any) -> Any:
        self.asked.append(prices)
        credits = prices[0].built("executeSell", 25, 125) if prices else 125
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            await meanwhile()
        return replies.made_quoted(b'{"fee_credits":%d}' % credits, credits, "n")


SELL = call("executeSell", {"mint": KEY, "token_amount": 5})


@pytest.mark.parametrize("key", [None, "once"])
async def test_a_built_trade_costs_what_its_answer_says(key: str | None) -> None:
    builder = Builder()
    async with world(quotes={"executeSell": builder.call}, idempotency=MemoryIdempotencyStore()) as there:
        wallet = await there.customer(10_000)
        sent = {"idempotency-key": key} if key else {}
        for name, fee in (("", 125), ("wholesale", 9 + 60), ("dear", 375), ("", 125)):
            await there.give_list(wallet, name)
            quoted = (await there.rpc(wallet, SELL, "/quote")).json()
            answer = await there.rpc(wallet, SELL, **{k: f"{v}{len(builder.asked)}" for k, v in sent.items()})
            assert answer.json()["result"] == {"fee_credits": fee} and quoted["credits"] == fee, answer.text
            assert answer.headers["x-credits-cost"] == str(fee)


async def test_a_trade_whose_price_was_found_by_another_list_is_priced_once_more() -> None:
    """Its answer names the price, so the answer is made anew."""
    builder = Builder()
    async with world(quotes={"executeSell": builder.call}) as there:
        wallet = await there.customer(10_000)

        async def change() -> None:
            await there.give_list(wallet, "dear")

        for signed in (False, True):
            await there.give_list(wallet, "wholesale")
            builder.asked.clear()
            builder.meanwhile = change
            body = orjson.dumps(SELL)
            sent = wallet.headers("POST", "/", body) if signed else {"x-api-key": wallet.api_key}
            answer = await there.http.post("/", content=body, headers=sent)
            assert answer.json()["result"] == {"fee_credits": 375} and answer.headers["x-credits-cost"] == "375"
            assert len(builder.asked) == 2


async def test_a_batch_with_a_trade_is_priced_by_one_list_whatever_others_learn_meanwhile() -> None:
    """Its calls are held together, and the owner compares one name: a mixture would charge by a list that is over."""
    builder = Builder()
    async with world(quotes={"executeSell": builder.call}) as there:
        wallet = await there.customer(10_000)

        async def change() -> None:
            await there.give_list(wallet, "dear")
            await there.rpc(wallet, call("getBlock", 5))  # This replica learns it while the trade is built.

        builder.meanwhile = change
        answer = await there.rpc(wallet, [SELL, call("getBlock", 5, id=2)])
        assert [one.get("error") for one in answer.json()] == [None, None], answer.text
        assert answer.json()[0]["result"] == {"fee_credits": 375}
        assert answer.headers["x-credits-cost"] == str(375 + 75)
        assert await there.balance(wallet) == 10_000 - 75 - 375 - 75
