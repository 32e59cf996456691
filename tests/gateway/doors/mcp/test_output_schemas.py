"""Each tool's output schema is valid, and real answers of the methods over an embedded chain fit it."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from jsonschema import Draft202012Validator
from solders.pubkey import Pubkey

from actors.gateway.calls.admission import PLANS
from actors.gateway.calls.outcomes import Reply
from actors.gateway.doors.mcp import answers as mcp_answers
from actors.gateway.doors.mcp import tools as mcp_tools
from actors.methods.catalog import DOCUMENTS
from actors.pricing_config import PricingConfig
from actors.upstream import replies
from tests.gateway.doors.mcp.test_door import post, tool
from tests.gateway.doors.mcp.whole import Whole, a_whole, text
from tests.gateway.payment_doubles import Desk
from tests.gateway.world import Wallet, a_world, call
from tests.trades.scene import signed

TOOLS = {one["name"]: one for one in orjson.loads(mcp_tools.list_result(PLANS, PricingConfig()))["tools"]}
TOKEN_PROGRAM = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"
# As Agave documents it: the embedded chain makes no snapshots, and answers -32008.
SNAPSHOTS = {"full": 100, "incremental": 110}


def fits(name: str, structured: Any) -> None:
    """As a result, and not as one of the forms that come in place of a result."""
    Draft202012Validator(TOOLS[name]["outputSchema"]).validate(structured)
    value = structured["result"] if set(structured) == {"result"} else structured
    Draft202012Validator(dict(DOCUMENTS[name].result)).validate(value)


def test_every_tool_has_a_valid_schema_of_an_object() -> None:
    """server/tools, "Output Schema": older revisions take objects alone."""
    for tool_of in TOOLS.values():
        Draft202012Validator.check_schema(tool_of["outputSchema"])
        assert tool_of["outputSchema"]["type"] == "object"
    for name in PLANS:
        assert DOCUMENTS[name].result, f"{name} does not say what it answers"
        assert not Draft202012Validator(TOOLS[name]["outputSchema"]).is_valid({"result": object()})


@pytest.mark.parametrize(
    ("result", "fit", "unfit"),
    [
        ({"type": "integer"}, {"result": 1}, {"result": "1"}),
        ({"type": ["object", "null"], "required": ["a"]}, {"result": None}, {"result": {}}),
        ({"type": ["object", "null"], "required": ["a"]}, {"a": 1}, {"b": 1}),
        ({"type": ["integer", "null"]}, {"result": None}, {"result": 1.5}),
        ({"type": "array", "items": {"type": "string"}}, {"result": ["a"]}, {"result": [1]}),
    ],
)
def test_what_is_no_object_is_under_result(result: Any, fit: Any, unfit: Any) -> None:
    validator = Draft202012Validator(mcp_tools.output_schema(result))
    assert validator.is_valid(fit) and not validator.is_valid(unfit)


def test_a_large_result_fits_and_says_that_the_text_has_it() -> None:
    """Clients take a result without structured content of a tool with a schema for an error of the server."""
    value = orjson.dumps(["x" * mcp_answers.STRUCTURED_BYTES_MAX])
    result = orjson.loads(mcp_answers.tool_result(Reply(b"1", replies.made(value), None)))["result"]
    assert result["content"][0]["text"] == value.decode()
    assert result["structuredContent"] == {"textOnly": True, "bytes": len(value)}
    for one in TOOLS.values():
        Draft202012Validator(one["outputSchema"]).validate(result["structuredContent"])


async def test_refusals_and_terms_fit_too() -> None:
    """Some clients hold the structured content of a failed call against the schema."""
    async with a_world(desk=Desk()) as world:
        rich = await world.customer(10)
        version = {"mcp_protocol_version": "2026-07-28", "mcp_method": "tools/call", "mcp_name": "getBalance"}
        meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
        meta["io.modelcontextprotocol/clientCapabilities"] = {}  # type: ignore[assignment]
        for wallet in (None, rich):
            answered = await post(world, tool("getBalance", 5, _meta=meta), wallet, **version)
            result = answered.json()["result"]
            assert result["isError"]
            Draft202012Validator(TOOLS["getBalance"]["outputSchema"]).validate(result["structuredContent"])


async def arguments_of(whole: Whole, wallet: Wallet) -> dict[str, list[Any]]:
    """Parameters with which each method succeeds, beside its example where that is enough."""
    local = whole.pad.local
    coin = whole.pad.coin()
    landed = whole.pad.record(whole.pad.base_account(coin))
    local.finalize()
    by_program = [str(whole.pad.user.pubkey()), {"programId": TOKEN_PROGRAM}, {"encoding": "base64"}]
    account = local.call("getTokenAccountsByOwner", *by_program)
    holder = account["value"][0]["pubkey"]
    bought = await whole.world.rpc(wallet, call("executeSnipe", {"mint": str(coin), "amount_sol": "0.5"}))
    unsigned = bought.json()["result"]["unsigned_tx_base64"]
    assert local.land(signed(unsigned, whole.keypair(wallet))).meta.err is None
    signature, slot = str(landed.signature), local.call("getSlot") - 2
    first, second, third, fourth = (text(whole.transfer(wallet, 5_000_000 + number)) for number in range(4))
    mint = local.call("getAccountInfo", holder, {"encoding": "jsonParsed"})["value"]["data"]["parsed"]["info"]["mint"]
    return {
        "getTokenAccountBalance": [holder],
        "getTokenSupply": [mint],
        "getTokenAccountsByOwner": [str(whole.pad.user.pubkey()), {"programId": TOKEN_PROGRAM}],
        "getAccountInfo": [holder, {"encoding": "jsonParsed"}],
        "getMultipleAccounts": [[holder, str(Pubkey.new_unique()), wallet.text], {"encoding": "base64"}],
        "getBlock": [slot, {"transactionDetails": "full"}],
        "getBlockCommitment": [slot],
        "getBlockTime": [slot],
        "getSlotLeaders": [slot, 4],
        "getSignatureStatuses": [[signature, "5" * 87], {"searchTransactionHistory": True}],
        "getSignaturesForAddress": [str(whole.pad.user.pubkey())],
        "getTransaction": [signature],
        "getTransactionHistory": [str(whole.pad.user.pubkey())],
        "getAssetsByOwner": [str(whole.pad.user.pubkey())],
        "getAsset": [mint],
        "getAssetBatch": [[mint, str(Pubkey.new_unique())]],
        "getAssets": [{"ids": [mint]}],
        "getTokenAccounts": [{"owner": str(whole.pad.user.pubkey())}],
        "getPriorityFeeEstimate": [{"options": {"includeAllPriorityFeeLevels": True}}],
        "isBlockhashValid": [str(local.blockhash())],
        "simulateTransaction": [first, {"encoding": "base64", "sigVerify": True}],
        "simulateBundle": [{"transactions": [first, second]}],
        "sendTransaction": [second, {"encoding": "base64", "preflightCommitment": "processed"}],
        "sendSmartTransaction": [third],
        "sendAndConfirm": [fourth],
        "sendBundle": [[text(whole.tip(wallet)), text(whole.transfer(wallet, 7_000_000))], {"encoding": "base64"}],
        "executeSnipe": [{"mint": str(coin), "amount_sol": "0.1"}],
        "executeSell": [{"mint": str(coin), "token_amount": 1_000_000}],
    }


async def test_a_real_answer_of_every_tool_fits_its_schema(tmp_path: Path) -> None:
    """server/tools, "Output Schema": structured results MUST fit. Answers of the embedded chain, node by node."""
    async with a_whole(tmp_path) as whole:
        wallet = await whole.customer()
        given = await arguments_of(whole, wallet)
        answered = {}
        for name in sorted(PLANS, key=lambda name: name == "getSendStatus"):
            params = given.get(name, list(DOCUMENTS[name].example or ()))
            if name == "getSendStatus":
                params = [answered["sendAndConfirm"]["signature"]]
            asked = post(whole.world, tool(name, *params), wallet)
            told = (await whole.finished(asked)).json()
            assert "result" in told, (name, told)
            result = told["result"]
            if name == "getHighestSnapshotSlot":
                assert orjson.loads(result["content"][0]["text"])["code"] == -32008
                fits(name, SNAPSHOTS)
                continue
            assert not result["isError"], (name, result)
            answered[name] = result["structuredContent"]
            if "textOnly" in result["structuredContent"]:
                assert name in ("rpc.discover", "getLeaderSchedule"), name
                answered[name] = orjson.loads(result["content"][0]["text"])
            fits(name, answered[name])
            spent = result["_meta"]["ledger-gateway/credits"]["spent"]
            assert (spent > 0) == (PLANS[name].ceiling > 0), name
        assert answered["getTransactionHistory"]["transactions"] and answered["getAssetsByOwner"]["items"]
        assert answered["getTransaction"]["meta"] and answered["getBlock"]["transactions"]
