"""The trade builders on a real local cluster: built, signed, sent through the gateway, landed, and charged exactly."""

import base64
import json
import time
from typing import Any

from solders.keypair import Keypair
from solders.message import to_bytes_versioned
from solders.transaction import VersionedTransaction

from bench.product import Product
from tests.cluster.proofs import assert_the_script_proves, read_by_key
from tests.cluster.test_restart import node
from tests.customers import Customer, request

_CREDITS = 1_000_000
_READY_SECONDS = 60


def admin(product: Product, path: str, body: dict[str, Any]) -> dict[str, Any]:
    url = f"{product.ready['node_url']}/admin/{path}"
    answer = request(url, {"Content-Type": "application/json"}, json.dumps(body).encode())
    assert answer.status == 200, answer
    found: dict[str, Any] = answer.body
    return found


def signed(text: str, key: Keypair) -> str:
    unsigned = VersionedTransaction.from_bytes(base64.b64decode(text))
    signature = key.sign_message(to_bytes_versioned(unsigned.message))
    return base64.b64encode(bytes(VersionedTransaction.populate(unsigned.message, [signature]))).decode()


def held(product: Product, owner: str, mint: str) -> int:
    config = {"encoding": "jsonParsed", "commitment": "confirmed"}
    accounts = node(product, "getTokenAccountsByOwner", owner, {"mint": mint}, config)["value"]
    return sum(int(one["account"]["data"]["parsed"]["info"]["tokenAmount"]["amount"]) for one in accounts)


def test_a_coin_is_bought_and_sold_through_the_gateway_alone(product: Product) -> None:
    """executeSnipe, sign, sendAndConfirm: the tokens arrive as quoted. Then executeSell of all. Each build costs
    its fee_credits, each landing its own price, and the price list shows the rate."""
    customer = Customer(product)
    customer.grant(_CREDITS)
    key = Keypair.from_seed(bytes(customer.wallet.key))
    admin(product, "fund", {"pubkey": customer.pubkey, "lamports": 10**10})
    mint = admin(product, "launch", {"kind": "v2"})["mint"]
    deadline = time.monotonic() + _READY_SECONDS
    while node(product, "getBalance", customer.pubkey, {"commitment": "confirmed"})["value"] == 0:
        assert time.monotonic() < deadline, "the wallet was not funded"
        time.sleep(0.1)

    bought = customer.call("executeSnipe", {"mint": mint, "amount_sol": 1}).body["result"]
    landed = customer.call("sendAndConfirm", signed(bought["unsigned_tx_base64"], key)).body["result"]
    assert landed["status"] == "confirmed", landed
    assert held(product, customer.pubkey, mint) == bought["tokens_out"] > 0

    sold = customer.call("executeSell", {"mint": mint, "token_amount": str(bought["tokens_out"])}).body["result"]
    landed = customer.call("sendAndConfirm", signed(sold["unsigned_tx_base64"], key)).body["result"]
    assert landed["status"] == "confirmed", landed
    assert held(product, customer.pubkey, mint) == 0

    fees = bought["fee_credits"] + sold["fee_credits"]
    assert customer.balance == _CREDITS - fees - 2 * 50
    row = request(f"{product.http_url}/pricing", {}).body["percentage_priced"]["executeSnipe"]
    assert row["available"] is True and row["sol_usd"] == "150.000000"
    assert_the_script_proves(product, read_by_key(customer), "executeSnipe", "executeSell", "sendAndConfirm")
    assert bought["fee_credits"] == row["build_credits"] + 150 * 100_000 * row["trade_bps"] // 10_000
