"""Official MCP clients, unmodified, at the MCP endpoint: each era of the protocol, and the Inspector's command line."""

import json
import subprocess
from pathlib import Path

import pytest

from bench.product import Product
from tests.clients.test_x402 import NETWORK, Payer
from tests.npm import Npm

_CALLS = Path(__file__).parent / "mcp_calls.py"
_RUN_SECONDS = 120


@pytest.mark.parametrize(
    ("client", "mode", "version"),
    [
        ("python_of_mcp", "auto", "2026-07-28"),
        ("python_of_mcp", "2026-07-28", "2026-07-28"),
        ("python_of_mcp", "legacy", "2025-11-25"),
        ("python_of_mcp_1", "", "2025-03-26"),
    ],
)
def test_the_sdk_lists_and_calls_tools(
    product: Product, request: pytest.FixtureRequest, client: str, mode: str, version: str
) -> None:
    """The bill is that of the same JSON-RPC calls: getBalance 1, getSlot 1, a block that is not there
    nothing."""
    python: Path = request.getfixturevalue(client)
    before = product.account()["total_consumed_credits"]
    settings = {"GATEWAY_URL": product.http_url, "API_KEY": product.api_key, "PUBKEY": product.pubkey, "MODE": mode}
    done = subprocess.run(
        [str(python), str(_CALLS)], env=settings, capture_output=True, text=True, timeout=_RUN_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["version"] == version
    assert {"getBalance", "sendAndConfirm", "rpc"} <= set(found["tools"])
    balance, slot, block = found["answers"]
    assert not balance["failed"] and json.loads(balance["text"])["value"] > 0
    assert not slot["failed"] and int(slot["text"]) > 0
    assert block["failed"] and json.loads(block["text"])["code"] < 0
    assert "getNothing" in found["refused"]
    assert product.account()["total_consumed_credits"] - before == 1 + 1


def test_the_inspector_lists_and_calls_tools(product: Product, npm: Npm) -> None:
    """Its command line, as an agent's author would try the endpoint out."""
    before = product.account()["total_consumed_credits"]
    target = (f"{product.http_url}/mcp", "--transport", "http", "--header", f"X-Api-Key: {product.api_key}")
    listed = npm.command("mcp-inspector", "--cli", *target, "--method", "tools/list")
    assert {"getBalance", "rpc"} <= {tool["name"] for tool in listed["tools"]}
    argument = f"params={json.dumps([product.pubkey])}"
    called = npm.command(
        *("mcp-inspector", "--cli", *target, "--method", "tools/call"),
        *("--tool-name", "getBalance", "--tool-arg", argument),
    )
    assert called["isError"] is False and called["structuredContent"]["value"] > 0
    assert product.account()["total_consumed_credits"] - before == 1


def test_an_agent_without_an_account_pays_for_its_call(product: Product, npm: Npm) -> None:
    """By the terms of the result that says that nothing is paid; one payment buys once, and its credits are kept."""
    payer = Payer(product)
    found = npm.run(_CALLS.with_name("mcp_pay.mjs"), payer.settings | {"PAYMENT_NETWORK": NETWORK})
    assert found["tools"] > 40
    unpaid, paid, again = found["unpaid"], found["paid"], found["again"]
    assert unpaid["isError"] and unpaid["structuredContent"]["x402Version"] == 2
    assert json.loads(unpaid["content"][0]["text"]) == unpaid["structuredContent"]
    assert not paid["isError"] and paid["structuredContent"]["value"] == 0
    assert paid["_meta"]["x402/payment-response"]["payer"] == payer.pubkey
    assert paid["_meta"]["ledger-gateway/credits"] == {"spent": 1, "left": 9_999}
    assert again["isError"], "the payment is used up"
    account = payer.ask("GET", "/account/info").body
    assert (account["pubkey"], account["balance"]) == (payer.pubkey, 9_999)
