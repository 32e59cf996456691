"""Official MCP clients, unmodified, at the MCP endpoint: each era of the protocol, and the Inspector's command line."""

import base64
import json
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest
from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction

from bench.product import Product
from tests.clients.test_x402 import NETWORK, Payer
from tests.customers import Customer
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


@pytest.mark.parametrize("says", ["yes", "no"])
def test_the_sdk_asks_its_user_before_a_send(product: Product, python_of_mcp: Path, says: str) -> None:
    """By the callback of its newest version, which also holds results against output schemas. The bill: 50
    credits for a send that landed, and nothing without the user's yes."""
    customer = Customer(product)
    customer.grant(1_000)
    wallet, node_url = Keypair.from_seed(bytes(customer.wallet.key)), str(product.ready["node_url"])
    fund = {"pubkey": str(wallet.pubkey()), "lamports": 10**9, "usdc_base_units": 0}
    assert httpx.post(f"{node_url}/admin/fund", json=fund, timeout=90).json()["ok"]
    recent = _asked(node_url, "getLatestBlockhash", {"commitment": "confirmed"})["value"]["blockhash"]
    give = TransferParams(from_pubkey=wallet.pubkey(), to_pubkey=Pubkey.new_unique(), lamports=5_000_000)
    message = MessageV0.try_compile(wallet.pubkey(), [transfer(give)], [], Hash.from_string(recent))
    transaction = base64.b64encode(bytes(VersionedTransaction(message, [wallet]))).decode()
    settings = {"GATEWAY_URL": product.http_url, "API_KEY": customer.api_key, "TRANSACTION": transaction, "SAYS": says}
    command = [str(python_of_mcp), str(_CALLS.with_name("mcp_confirm.py"))]
    done = subprocess.run(command, env=settings, capture_output=True, text=True, timeout=_RUN_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    (question,) = found["questions"]
    assert str(wallet.pubkey()) in question and "50 credits" in question
    assert found["sent"]["failed"] is (says == "no") and found["large"]["textOnly"] is True
    if says == "yes":
        assert found["sent"]["structured"]["status"] == "confirmed"
    assert customer.balance == 1_000 - (50 if says == "yes" else 0)


def _asked(node_url: str, method: str, *params: Any) -> Any:
    asked = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
    return httpx.post(node_url, json=asked, timeout=90).json()["result"]
