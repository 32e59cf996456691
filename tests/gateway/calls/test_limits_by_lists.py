"""X-Max-Credits where the list of its account is told after the limit was judged: it holds in every way of a call.

Rule: COSTS.md; decisions, "Price lists"; money rule 1. Through the real door and a real owner, in one process. By a
guess that is right from the start: test_account_prices.py.
"""

import asyncio
from typing import Any

import orjson
import pytest

from actors.calls import ProvenProof
from actors.gateway.calls.jsonrpc import Call
from actors.upstream import replies
from actors.upstream.replies import NodeAnswer
from tests.gateway.doubles import RESULT, TRANSACTION, ScriptedNode
from tests.gateway.world import a_world, call, constant
from tests.idempotency.memory_store import MemoryIdempotencyStore

LISTS = {"wholesale": {"percent": 60, "methods": {"getBlock": 7}}, "dear": {"percent": 300}}
PRICES = {"": 25, "dear": 75}  # Of getBlock.
SELL = call("executeSell", {"mint": "1" * 32, "token_amount": 5})


def answered(method: str, params: bytes) -> NodeAnswer:
    return RESULT


async def built(params: bytes, pubkey: bytes, timeout_ms: int, *prices: Any) -> NodeAnswer:
    """Answer executeSell by the list that is given."""
    credits = prices[0].built("executeSell", 25, 125) if prices else 125
    return replies.made_quoted(b'{"fee_credits":%d}' % credits, credits, "n")


def world(**more: Any) -> Any:
    return a_world(ScriptedNode(answered), pricing={"lists": LISTS}, **more)


@pytest.mark.parametrize(("most", "is_let"), [(5, False), (6, True)])
async def test_a_call_with_a_key_costs_no_more_than_its_limit_by_the_list_that_its_owner_tells(
    most: int, is_let: bool
) -> None:
    """X-Max-Credits is judged by a guess first: nobody here knows the list before the key is claimed."""
    async with world(idempotency=MemoryIdempotencyStore()) as there:
        wallet = await there.customer(1_000)
        await there.give_list(wallet, "dear")
        one = call("sendTransaction", TRANSACTION, {"encoding": "base64"})
        sent = {"x-max-credits": str(most), "idempotency-key": "once"}
        answer = await there.rpc(wallet, one, **sent)
        assert ("result" in answer.json()) is is_let, answer.text
        assert is_let or answer.json()["error"]["data"]["constant"] == "MAX_CREDITS_EXCEEDED"
        assert len(there.node.calls) == is_let
        assert await there.debits(wallet) == ([("sendTransaction", 6)] if is_let else [])
        again = await there.rpc(wallet, one, **sent | {"x-max-credits": "6"})  # The refused one has freed its key.
        assert "result" in again.json() and await there.debits(wallet) == [("sendTransaction", 6)]


@pytest.mark.parametrize(("most", "is_let"), [(449, False), (450, True)])
async def test_a_batch_with_a_trade_costs_no_more_than_its_limit_by_the_list_that_its_owner_tells(
    most: int, is_let: bool
) -> None:
    """The list is told while the trade is priced, and the other calls cost more by it than the guess left them."""
    async with world(quotes={"executeSell": built}) as there:
        wallet = await there.customer(1_000)
        await there.give_list(wallet, "dear")
        answer = await there.rpc(wallet, [call("getBlock", 5), SELL], **{"x-max-credits": str(most)})
        assert all(("result" in one) is is_let for one in answer.json()), answer.text
        spent = [("getBlock", 75), ("executeSell", 375)]
        assert sorted(await there.debits(wallet)) == (sorted(spent) if is_let else [])


async def test_the_later_calls_of_a_batch_cost_no_more_than_its_limit_by_a_list_that_became_dearer() -> None:
    """Another call of the account has told this replica the dearer list, so their holds are granted at once by it."""
    async with world(accounts={"concurrency": 1}) as there:
        wallet = await there.customer(1_000)
        there.node.gate = gate = asyncio.Event()
        asked = [call("getBlock", 5, id=number) for number in range(4)]
        under_way = asyncio.create_task(there.rpc(wallet, asked, **{"x-max-credits": "100"}))
        while not there.node.calls:  # noqa: ASYNC110
            await asyncio.sleep(0)
        await there.give_list(wallet, "dear")
        assert constant(await there.rpc(wallet, call("getBlock", 5))) == "CONCURRENCY_LIMITED"
        gate.set()
        ends = [one.get("error", {}).get("data", {}).get("constant") for one in (await under_way).json()]
        assert ends == [None, *["MAX_CREDITS_EXCEEDED"] * 3]
        assert await there.debits(wallet) == [("getBlock", 25)]


@pytest.mark.parametrize("list_of_account", ["dear", "wholesale"])
async def test_a_call_above_its_limit_by_a_guess_is_judged_by_what_its_owner_tells(list_of_account: str) -> None:
    """A single call whose list was learnt here between the look at its limit and its hold."""
    async with world() as there:
        wallet = await there.customer(1_000)
        await there.give_list(wallet, list_of_account)
        pipeline, proof = there.door._pipeline, ProvenProof(wallet.pubkey)
        pipeline.prices.told.learn(proof, "dear")
        done = await pipeline.single(proof, Call(b"1", "getBlock", b"[5]", [5], cost_max=25))
        is_let = list_of_account == "wholesale"
        assert (done.items[0].answer is not None) is is_let
        assert await there.debits(wallet) == ([("getBlock", 7)] if is_let else [])


def tool(most: int | None, **more: Any) -> dict[str, Any]:
    meta = {} if most is None else {"_meta": {"ledger-gateway/max-credits": most}}
    params = {"name": "getBlock", "arguments": {"params": [5]}} | meta
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params} | more


@pytest.mark.parametrize(("header", "meta"), [("74", 100), ("100", 74), ("75", 75)])
@pytest.mark.parametrize("name", ["", "dear"])
async def test_of_two_limits_of_a_tool_both_hold(header: str, meta: int, name: str) -> None:
    """The header is its host's, and the ceiling of its message the agent's; the list is told after both were judged."""
    async with world() as there:
        wallet = await there.customer(1_000)
        await there.give_list(wallet, name)
        answer = await there.rpc(
            wallet, tool(meta), "/mcp", **{"content-type": "application/json", "x-max-credits": header}
        )
        is_let = not name or (header, meta) == ("75", 75)
        assert ("result" in answer.json()) is is_let, answer.text
        assert await there.debits(wallet) == ([("getBlock", PRICES[name])] if is_let else [])


@pytest.mark.parametrize("name", ["", "dear"])
async def test_the_ceiling_of_each_tool_holds_in_a_batch_too(name: str) -> None:
    price = PRICES[name]
    for signed in (False, True):
        async with world() as there:
            wallet = await there.customer(1_000)
            await there.give_list(wallet, name)
            body = orjson.dumps([tool(price - 1), tool(price, id=2), tool(None, id=3)])
            sent = wallet.headers("POST", "/mcp", body) if signed else {"x-api-key": wallet.api_key}
            answer = await there.http.post("/mcp", content=body, headers=sent | {"content-type": "application/json"})
            ends = {one["id"]: "result" in one for one in answer.json()}
            assert sum(credits for _, credits in await there.debits(wallet)) == price * sum(ends.values())
            assert ends == ({1: False, 2: True, 3: True} if not name else {1: False, 2: False, 3: False}), answer.text
