"""Calls that a person confirms, through the real door: free until then, and run once by one confirmation."""

import base64
import json
from typing import Any

import pytest

from actors.gateway.doors.mcp import confirmations, eras
from tests.gateway.doors.mcp.test_door import post, request, tool
from tests.gateway.doors.mcp.test_modern import ask
from tests.gateway.doubles import TRANSACTION
from tests.gateway.payment_doubles import Desk, header_v2
from tests.gateway.world import Wallet, World, a_world
from tests.idempotency.memory_store import MemoryIdempotencyStore

FORM = {eras.CAPABILITIES_META: {"elicitation": {"form": {}}}}
YES = {"confirm": {"action": "accept", "content": {"confirm": True}}}
NO = {"confirm": {"action": "decline"}}
BASE64 = {"encoding": "base64"}


def send(id: Any = 1, **more: Any) -> dict[str, Any]:
    more["_meta"] = FORM | more.get("_meta", {})
    return tool("sendTransaction", TRANSACTION, BASE64, id=id, **more)


async def asked(world: World, wallet: Wallet | None, **more: Any) -> str:
    """The state that comes with the question."""
    result = (await ask(world, send(**more), wallet)).json()["result"]
    assert result["resultType"] == "input_required", result
    state: str = result["requestState"]
    return state


def answered(state: str, responses: Any = None, id: Any = 2, **more: Any) -> dict[str, Any]:
    return send(id, requestState=state, inputResponses=YES if responses is None else responses, **more)


async def untouched(world: World, wallet: Wallet, credits: int = 100) -> bool:
    return await world.debits(wallet) == [] and await world.balance(wallet) == credits and world.node.calls == []


async def test_a_send_is_asked_about_and_runs_once_it_is_confirmed() -> None:
    """MRTR: the question, and the same call again with its answer. The answer is the call's own, at its own price."""
    async with a_world(idempotency=MemoryIdempotencyStore()) as world:
        wallet = await world.customer(100)
        question = await ask(world, send(), wallet)
        result = question.json()["result"]
        assert set(result) == {"resultType", "inputRequests", "requestState", "_meta"}
        assert "Costs 2 credits." in result["inputRequests"]["confirm"]["params"]["message"]
        assert result["_meta"]["ledger-gateway/credits"] == {"spent": 0, "left": 100}
        assert question.headers["x-credits-remaining"] == "100"
        assert await untouched(world, wallet)
        done = await ask(world, answered(result["requestState"]), wallet)
        assert done.json()["result"]["resultType"] == "complete" and not done.json()["result"]["isError"]
        assert done.json()["id"] == 2 and done.headers["x-credits-remaining"] == "98"
        assert await world.debits(wallet) == [("sendTransaction", 2)] and len(world.node.calls) == 1


async def test_a_confirmation_runs_its_call_once() -> None:
    """A repeated retry gets the kept answer; a state in another account's, or another call's, hands does nothing."""
    async with a_world(idempotency=MemoryIdempotencyStore()) as world:
        wallet, other = await world.customer(100), await world.customer(100)
        state = await asked(world, wallet)
        foreign = await ask(world, answered(state), other)
        assert (foreign.status_code, foreign.json()["error"]["code"]) == (200, -32602)
        skipping = tool("sendTransaction", TRANSACTION, BASE64 | {"skipPreflight": True}, requestState=state)
        skipping["params"] |= {"inputResponses": YES, "_meta": FORM}
        assert (await ask(world, skipping, wallet)).json()["error"]["code"] == -32602
        assert (await ask(world, answered(state[:-3] + "AAA"), wallet)).json()["error"]["code"] == -32602
        assert await untouched(world, wallet) and await untouched(world, other)
        first, second = [await ask(world, answered(state, id=n), wallet) for n in (2, 3)]
        assert first.json()["result"]["structuredContent"] == second.json()["result"]["structuredContent"]
        assert second.headers["idempotent-replayed"] == "true"
        assert await world.debits(wallet) == [("sendTransaction", 2)] and len(world.node.calls) == 1


async def test_a_confirmation_is_for_the_price_that_was_told() -> None:
    """Decisions, "Price lists": a person who agreed to one price is asked again where the account has another one."""
    lists = {"lists": {"dear": {"percent": 300}}}
    async with a_world(idempotency=MemoryIdempotencyStore(), pricing=lists) as world:
        wallet = await world.customer(100)
        state = await asked(world, wallet)
        await world.give_list(wallet, "dear")
        assert (await ask(world, answered(state), wallet)).json()["error"]["code"] == -32602
        assert await untouched(world, wallet)
        question = (await ask(world, send(), wallet)).json()["result"]
        assert "Costs 6 credits." in question["inputRequests"]["confirm"]["params"]["message"]
        done = (await ask(world, answered(question["requestState"]), wallet)).json()["result"]
        assert done["_meta"]["ledger-gateway/credits"] == {"spent": 6, "left": 94}
        assert await world.debits(wallet) == [("sendTransaction", 6)]
        read = (await ask(world, tool("getBlock", 5), wallet, **{"x-max-credits": "75"})).json()["result"]
        assert read["_meta"]["ledger-gateway/credits"] == {"spent": 75, "left": 19}
        too_dear = (await ask(world, tool("getTransaction", "5" * 87), wallet, **{"x-max-credits": "14"})).json()
        assert "MAX_CREDITS_EXCEEDED" in json.dumps(too_dear)


async def test_a_list_that_becomes_dearer_after_the_confirmation_was_read_charges_nothing() -> None:
    """The person agreed to 2 credits; the list changes between the look at that and the hold."""
    lists = {"lists": {"dear": {"percent": 300}}}
    async with a_world(idempotency=MemoryIdempotencyStore(), pricing=lists) as world:
        wallet = await world.customer(100)
        state = await asked(world, wallet)
        hold, holds = world.accounts.hold, list[Any]()

        async def changing(held: Any) -> Any:
            reply = await hold(held)
            holds.append(reply)
            if len(holds) == 1:
                await world.give_list(wallet, "dear")
            return reply

        world.accounts.hold = changing  # type: ignore[method-assign]
        assert "MAX_CREDITS_EXCEEDED" in (await ask(world, answered(state), wallet)).text
        assert await untouched(world, wallet)


async def test_a_key_of_the_client_is_part_of_what_is_confirmed() -> None:
    async with a_world(idempotency=MemoryIdempotencyStore()) as world:
        wallet = await world.customer(100)
        question = (await ask(world, send(), wallet, **{"idempotency-key": "a"})).json()["result"]
        for key in ({}, {"idempotency-key": "b"}):
            refused = await ask(world, answered(question["requestState"]), wallet, **key)
            assert refused.json()["error"]["code"] == -32602
        again = [
            await ask(world, answered(question["requestState"]), wallet, **{"idempotency-key": "a"}) for _ in range(2)
        ]
        assert again[1].headers["idempotent-replayed"] == "true"
        assert await world.debits(wallet) == [("sendTransaction", 2)]


@pytest.mark.parametrize("responses", [NO, {"confirm": {"action": "cancel"}}])
async def test_a_call_that_is_not_confirmed_is_a_result_that_a_model_can_act_on(responses: Any) -> None:
    async with a_world(idempotency=MemoryIdempotencyStore()) as world:
        wallet = await world.customer(100)
        told = await ask(world, answered(await asked(world, wallet), responses), wallet)
        result = told.json()["result"]
        assert result["isError"] and result["structuredContent"]["error"]["data"]["constant"] == "CONFIRMATION_DECLINED"
        assert result["structuredContent"]["error"]["code"] == -31_013
        assert "unless your user asks" in result["content"][0]["text"]
        assert await untouched(world, wallet)


async def test_a_late_answer_and_a_missing_one_run_nothing() -> None:
    """What is missing is asked for again; an answer that came too late says how to go on."""
    async with a_world(idempotency=MemoryIdempotencyStore()) as world:
        wallet = await world.customer(100)
        again = (await ask(world, answered(await asked(world, wallet), {}), wallet)).json()["result"]
        assert again["resultType"] == "input_required"
        world.clock.advance(confirmations.SECONDS + 1)
        late = (await ask(world, answered(again["requestState"]), wallet)).json()["result"]
        assert late["isError"] and "make the call again" in late["content"][0]["text"]
        assert await untouched(world, wallet)


@pytest.mark.parametrize("capabilities", [{}, {"elicitation": {"url": {}}}])
async def test_a_client_that_cannot_ask_is_served_as_before(capabilities: Any) -> None:
    """MRTR, server requirement 7. Older revisions have no such results, whatever a client declares."""
    async with a_world(idempotency=MemoryIdempotencyStore()) as world:
        wallet = await world.customer(100)
        plain = await ask(world, send(_meta={eras.CAPABILITIES_META: capabilities}), wallet)
        assert plain.json()["result"]["resultType"] == "complete"
        older = tool("sendTransaction", TRANSACTION, BASE64, _meta=FORM, requestState="x", inputResponses=[])
        assert not (await post(world, older, wallet, mcp_protocol_version="2025-11-25")).json()["result"]["isError"]
        assert await world.debits(wallet) == [("sendTransaction", 2)] * 2


async def test_reads_are_not_asked_about_and_the_generic_tool_is_no_way_around() -> None:
    async with a_world(idempotency=MemoryIdempotencyStore()) as world:
        wallet = await world.customer(100)
        read = (await ask(world, tool("getSlot", _meta=FORM), wallet)).json()["result"]
        assert read["resultType"] == "complete"
        generic = request("tools/call", 1, name="rpc", arguments={"method": "sendTransaction"}, _meta=FORM)
        generic["params"]["arguments"]["params"] = [TRANSACTION, BASE64]
        assert (await ask(world, generic, wallet)).json()["result"]["resultType"] == "input_required"
        assert await world.debits(wallet) == [("getSlot", 1)]


async def test_nobody_is_asked_about_a_call_that_would_be_refused() -> None:
    """Its parameters, its credential, its credits and its ceiling are looked at first; a person's time is not free."""
    async with a_world(desk=Desk(), idempotency=MemoryIdempotencyStore()) as world:
        wallet, poor = await world.customer(100), await world.customer(1)
        stranger = await world.customer(account=False)
        stranger.api_key = "0" * 64
        assert (await ask(world, send(), stranger)).status_code == 401
        for message, who, word in (
            (tool("sendTransaction", "AAAA", _meta=FORM), wallet, "INVALID_PARAMS"),
            (send(_meta={"ledger-gateway/max-credits": 1}), wallet, "MAX_CREDITS_EXCEEDED"),
            (send(), poor, "accepts"),
            (send(), None, "accepts"),
        ):
            result = (await ask(world, message, who)).json()["result"]
            assert result["isError"] and word in json.dumps(result["structuredContent"]), word
        for odd in ({"requestState": 5}, {"inputResponses": "yes"}):
            assert (await ask(world, send(**odd), wallet)).json()["error"]["code"] == -32602
        assert await untouched(world, wallet) and await untouched(world, poor, 1)


async def test_questions_take_a_rate_unit_each() -> None:
    """They are free, and nobody may ask for ever."""
    async with a_world(accounts={"requests_per_second": 3}, idempotency=MemoryIdempotencyStore()) as world:
        wallet = await world.customer(100)
        results = [(await ask(world, send(), wallet)).json()["result"] for _ in range(4)]
        assert [one["resultType"] for one in results] == ["input_required"] * 3 + ["complete"]
        assert results[3]["structuredContent"]["error"]["data"]["constant"] == "RATE_LIMITED"
        world.clock.advance(1)
        assert await untouched(world, wallet)


async def test_a_payment_is_settled_after_its_call_is_confirmed() -> None:
    """x402 over MCP: money that has moved would not come back with a no."""
    desk = Desk()
    async with a_world(desk=desk, idempotency=MemoryIdempotencyStore()) as world:
        desk.world, desk.payer = world, await world.customer(account=False)
        paying = {"_meta": {"x402/payment": json.loads(base64.b64decode(header_v2()))}}
        state = await asked(world, None, **paying)
        refused = (await ask(world, answered(state, NO, **paying), None)).json()["result"]
        assert refused["structuredContent"]["error"]["data"]["constant"] == "CONFIRMATION_DECLINED"
        other = {"_meta": {"x402/payment": json.loads(base64.b64decode(header_v2())) | {"x402Version": 2, "more": 1}}}
        assert (await ask(world, answered(state, **other), None)).json()["error"]["code"] == -32602
        assert desk.paid == [] and world.node.calls == []
        done = (await ask(world, answered(state, **paying), None)).json()["result"]
        assert not done["isError"] and done["_meta"]["ledger-gateway/credits"]["spent"] == 2
        assert len(desk.paid) == 1 and len(world.node.calls) == 1


async def test_without_a_store_of_keys_a_confirmed_call_runs_all_the_same() -> None:
    """The rule of single use goes as far as keys can be stored."""
    async with a_world() as world:
        wallet = await world.customer(100)
        done = (await ask(world, answered(await asked(world, wallet)), wallet)).json()["result"]
        assert not done["isError"] and await world.debits(wallet) == [("sendTransaction", 2)]


async def test_a_signature_is_used_by_the_question() -> None:
    """Whoever has the bytes of a signed request cannot ask, or run anything, with them again."""
    async with a_world(idempotency=MemoryIdempotencyStore()) as world:
        wallet = await world.customer(100)
        message = send()
        message["params"]["_meta"] |= {eras.VERSION_META: "2026-07-28"}
        body = json.dumps(message).encode()
        sent = wallet.headers("POST", "/mcp", body) | {"content-type": "application/json"}
        sent |= {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "sendTransaction"}
        first, second = [await world.http.post("/mcp", content=body, headers=sent) for _ in range(2)]
        assert first.json()["result"]["resultType"] == "input_required"
        assert second.status_code == 403 and "NONCE_REUSED" in second.text
        assert await untouched(world, wallet)
