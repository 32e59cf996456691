"""MCP 2026-07-28 through the real door, beside the older revisions: the same bill, and results to act on."""

import base64
import json
from typing import Any

import pytest

from actors.gateway.doors.mcp import eras
from actors.upstream import replies
from actors.upstream.replies import AnswerKind, NodeAnswer, made_error
from actors.x402_types import Lack, NotSettled
from tests.gateway.doors.mcp.test_door import post, request, tool
from tests.gateway.doubles import ScriptedNode
from tests.gateway.payment_doubles import Desk, header_v2
from tests.gateway.world import Wallet, World, a_world, call

CREDITS = "ledger-gateway/credits"


async def ask(world: World, message: dict[str, Any], wallet: Wallet | None = None, **headers: str) -> Any:
    """As a client of the revision sends it."""
    params = message.setdefault("params", {})
    params["_meta"] = {eras.VERSION_META: "2026-07-28", eras.CAPABILITIES_META: {}} | params.get("_meta", {})
    sent = {"mcp-protocol-version": "2026-07-28", "mcp-method": message["method"]} | headers
    if "name" in params:
        sent.setdefault("mcp-name", params["name"])
    return await post(world, message, wallet, **sent)


async def test_discovery_and_lists_say_how_long_they_hold_and_for_whom() -> None:
    """server/discover and server/utilities/caching; no credential, no session, and nothing of the older start."""
    async with a_world() as world:
        found = (await ask(world, request("server/discover"))).json()["result"]
        assert (found["resultType"], found["supportedVersions"]) == ("complete", ["2026-07-28"])
        assert found["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "ledger-gateway"
        listed = (await ask(world, request("tools/list"))).json()["result"]
        for result in (found, listed):
            assert result["ttlMs"] > 0 and result["cacheScope"] == "public"
        names = [one["name"] for one in listed["tools"]]
        older = (await post(world, request("tools/list"))).json()["result"]
        assert [one["name"] for one in older["tools"]] == names and "resultType" not in older
        for removed in ("initialize", "ping", "logging/setLevel", "subscriptions/listen"):
            gone = await ask(world, request(removed))
            assert (gone.status_code, gone.json()["error"]["code"]) == (404, -32601), removed
        noted = await post(world, {"jsonrpc": "2.0", "method": "notifications/cancelled"})
        assert noted.status_code == 202


async def test_a_call_costs_the_same_in_every_revision_and_at_every_door() -> None:
    """The result tells what was spent and what is left."""
    async with a_world() as world:
        customer = await world.customer(1_000)
        sent = (
            await ask(world, tool("getBlock", 5), customer),
            await post(world, tool("getBlock", 5), customer, mcp_protocol_version="2025-11-25"),
            await post(world, tool("getBlock", 5), customer),
            await world.rpc(customer, call("getBlock", 5)),
        )
        assert [one.headers["x-credits-remaining"] for one in sent] == ["975", "950", "925", "900"]
        results = [one.json()["result"] for one in sent[:3]]
        assert [one["_meta"][CREDITS] for one in results] == [{"spent": 25, "left": n} for n in (975, 950, 925)]
        assert [one.get("resultType") for one in results] == ["complete", None, None]
        assert await world.debits(customer) == [("getBlock", 25)] * 4


@pytest.mark.threat(38)
async def test_who_cannot_pay_gets_terms_as_a_result() -> None:
    """x402 over MCP: HTTP 200, `isError`, and the terms both as text and as structured content; nothing was done."""
    async with a_world(desk=Desk()) as world:
        poor = await world.customer(0)
        for wallet in (None, poor):
            offered = await ask(world, tool("getSlot", id="x"), wallet)
            result = offered.json()["result"]
            assert (offered.status_code, offered.json()["id"], result["isError"]) == (200, "x", True)
            assert result["structuredContent"]["accepts"] and result["structuredContent"]["x402Version"] == 2
            assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
            assert "payment-required" in offered.headers
        assert result["_meta"][CREDITS] == {"spent": 0, "left": 0}
        assert world.node.calls == []


async def test_what_a_model_can_mend_is_a_result_and_what_it_cannot_is_an_error() -> None:
    """server/tools, "Error Handling". No code of ours is in JSON-RPC's range; the retired ones are never sent."""
    answers = {
        "getHealth": NodeAnswer(AnswerKind.TIMED_OUT),
        "getSlot": made_error(-32002, "preflight failed", b"null"),
    }
    node = ScriptedNode(lambda method, _: answers.get(method, replies.made(b"1")))
    async with a_world(node) as world:
        rich = await world.customer(1_000)
        for message, constant in (
            (tool("getBalance", 5), "INVALID_PARAMS"),
            (request("tools/call", 1, name="getBalance", arguments={"address": "x"}), "INVALID_PARAMS"),
            (request("tools/call", 1, name="rpc", arguments={"method": "getNothing"}), "METHOD_NOT_FOUND"),
            (tool("getHealth"), "TIMEOUT"),
            (tool("getBlock", 5, _meta={"ledger-gateway/max-credits": 24}), "MAX_CREDITS_EXCEEDED"),
        ):
            answered = await ask(world, message, rich)
            result = answered.json()["result"]
            error = result["structuredContent"]["error"]
            assert (answered.status_code, result["isError"], result["resultType"]) == (200, True, "complete")
            assert error["data"]["constant"] == constant and result["content"][0]["text"]
            assert error["code"] not in range(-32_099, -31_999) or error["code"] == -32_000 - 601
        assert await world.debits(rich) == []
        of_the_node = (await ask(world, tool("getSlot"), rich)).json()["result"]
        assert of_the_node["isError"] and json.loads(of_the_node["content"][0]["text"])["code"] == -32002
        unknown = await ask(world, tool("getNothing"), rich)
        assert (unknown.status_code, unknown.json()["error"]["code"]) == (200, -32602)
        stranger = await world.customer(account=False)
        stranger.api_key = "0" * 64
        refused = await ask(world, tool("getSlot"), stranger)
        assert refused.status_code == 401 and refused.json()["error"]["data"]["constant"] == "AUTH_FAILED"


async def test_unfit_arguments_and_lacks_of_payment_are_results_from_2025_11_25_on() -> None:
    """SEP-1303; x402 over MCP. Everything else is as in the revisions before it, which are the interface's."""
    async with a_world(desk=Desk()) as world:
        rich, poor = await world.customer(1_000), await world.customer(0)
        version = {"mcp_protocol_version": "2025-11-25"}
        unfit = (await post(world, tool("getBalance", 5), rich, **version)).json()["result"]
        assert unfit["isError"] and unfit["structuredContent"]["error"]["code"] == -32602
        for wallet, code in ((None, -32002), (poor, -32010)):
            offered = await post(world, tool("getSlot"), wallet, **version)
            result = offered.json()["result"]
            assert offered.status_code == 200 and result["isError"] and "resultType" not in result
            assert result["structuredContent"]["x402Version"] == 2 and result["structuredContent"]["accepts"]
            assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
            before = await post(world, tool("getSlot"), wallet, mcp_protocol_version="2025-06-18")
            assert (before.status_code, before.json()["error"]["code"]) == (402, code)
        unknown = await post(world, tool("getNothing"), poor, **version)
        assert unknown.json()["error"]["code"] == -32602
        assert world.node.calls == []


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_a_payment_that_is_refused_has_its_receipt(version: str) -> None:
    """x402 over MCP: the reason is in `_meta`. Where the payment may still land, no other one is asked for."""
    desk = Desk()
    async with a_world(desk=desk) as world:
        payment = json.loads(base64.b64decode(header_v2()))
        asks = ask if version == "2026-07-28" else post
        for lack, may_land in ((Lack.REJECTED, False), (Lack.PENDING, True)):
            desk.lack = NotSettled(lack, "a_reason", "a message", "a signature", may_land=may_land)
            paying = tool("getSlot", _meta={"x402/payment": payment})
            refused = await asks(world, paying, None, **{"mcp-protocol-version": version})
            result = refused.json()["result"]
            receipt = result["_meta"]["x402/payment-response"]
            assert (refused.status_code, result["isError"]) == (200, True)
            assert (receipt["success"], receipt["errorReason"]) == (False, "a_reason")
            assert ("accepts" in result["structuredContent"]) is not may_land
        assert world.node.calls == []


async def test_a_ceiling_in_meta_is_that_of_its_header() -> None:
    """The smaller of both counts; what is no number of credits is refused, free."""
    async with a_world() as world:
        rich = await world.customer(1_000)
        for ceiling, header, runs in (
            (25, None, True),
            (24, None, False),
            (25, "24", False),
            (24, "25", False),
            (0, None, False),
        ):
            headers = {} if header is None else {"x-max-credits": header}
            done = await ask(world, tool("getBlock", 5, _meta={"ledger-gateway/max-credits": ceiling}), rich, **headers)
            assert done.json()["result"]["isError"] is not runs, (ceiling, header)
        for odd in (-1, 1.5, "25", True, 10**18):
            refused = await ask(world, tool("getSlot", _meta={"ledger-gateway/max-credits": odd}), rich)
            assert refused.json()["error"]["code"] == -32602, odd
        assert await world.debits(rich) == [("getBlock", 25)]


async def test_an_envelope_that_differs_from_its_headers_is_400_and_free() -> None:
    async with a_world() as world:
        rich = await world.customer(1_000)
        lied = await ask(world, tool("getSlot"), rich, **{"mcp-name": "getBlock"})
        assert (lied.status_code, lied.json()["error"]["code"]) == (400, -32020)
        later = request("tools/list")
        later["params"] = {"_meta": {eras.VERSION_META: "2031-01-01"}}
        told = await ask(world, later, rich, **{"mcp-protocol-version": "2031-01-01"})
        assert (told.status_code, told.json()["error"]["code"]) == (400, -32022)
        data = told.json()["error"]["data"]
        assert (data["supported"], data["requested"]) == (["2026-07-28"], "2031-01-01")
        assert await world.debits(rich) == [] and world.node.calls == []
