"""The block engine's own clients, unmodified, through the gateway: bundles that land.

jito-ts speaks gRPC to a block engine, which the gateway does not offer; its `simulateBundle` is the node's own.
"""

import time
from pathlib import Path
from typing import Any

import pytest
from jito_py_rpc import JitoJsonRpcSDK
from solders.hash import Hash
from solders.keypair import Keypair
from solders.pubkey import Pubkey

from bench.product import Product
from tests.conformance import people
from tests.customers import Customer
from tests.npm import Npm

_FLOW = Path(__file__).parent / "jito_bundle.mjs"
_CREDITS = 1_000


@pytest.mark.parametrize("suffix", ["/relay", "/relay/api/v1"])
def test_jito_js_rpc(product: Product, npm: Npm, suffix: str) -> None:
    """The key is its UUID. What has no tip is refused with the form that it reads."""
    settings = {
        "GATEWAY_URL": product.http_url,
        "API_KEY": product.api_key,
        "SECRET_KEY": str(product.ready["secret_key"]),
        "SUFFIX": suffix,
    }
    found = npm.run(_FLOW, settings)
    assert found == {
        "transactions": 2,
        "err": {"Ok": None},
        "balance": 5_000_000,
        "alone": "string",
        "refused": -32602,
    }


def test_jito_py_rpc(product: Product, monkeypatch: pytest.MonkeyPatch) -> None:
    """It sends the UUID in a header and in the URL; every call is charged as priced."""
    customer = Customer(product)
    customer.grant(_CREDITS)
    monkeypatch.setenv("RELAY_KEY", customer.api_key)
    client = JitoJsonRpcSDK(f"{product.http_url}/relay", "RELAY_KEY")
    key = Keypair.from_base58_string(product.ready["secret_key"])
    tip = Pubkey.from_string(client.get_random_tip_account())
    recent = Hash.from_string(customer.call("getLatestBlockhash").body["result"]["value"]["blockhash"])
    tipping = people.transfer(people.TransferParams(from_pubkey=key.pubkey(), to_pubkey=tip, lamports=10_000))
    transaction = people.signed(key, recent, tipping)
    sent = client.send_bundle([people.text(transaction)])
    assert sent["success"], sent
    bundle_id = sent["data"]["result"]
    states: list[Any] = []
    for _ in range(60):
        states = client.get_bundle_statuses(bundle_id)["data"]["result"]["value"]
        if states:
            break
        time.sleep(1)
    assert states[0]["transactions"] == [str(transaction.signatures[0])]
    inflight = client.get_inflight_bundle_statuses(bundle_id)["data"]["result"]["value"]
    assert inflight[0]["status"] == "Landed"
