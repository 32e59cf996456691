"""Ctrl-C, and a second start on the same folder: nothing is left running, and nothing is forgotten."""

import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from bench.product import Product, free_ports
from tests.customers import Customer, Wallet, request, rpc_body


def node(product: Product, method: str, *params: Any) -> Any:
    """Asked of the chain itself, without the gateway."""
    answer = request(str(product.ready["node_url"]), {"Content-Type": "application/json"}, rpc_body(method, *params))
    assert "result" in answer.body, answer
    return answer.body["result"]


def fund(product: Product, pubkey: str) -> str:
    """One finished transaction on the chain; its signature."""
    answer = request(
        f"{product.ready['node_url']}/admin/fund",
        {"Content-Type": "application/json"},
        f'{{"pubkey":"{pubkey}","lamports":5000000}}'.encode(),
    )
    assert answer.status == 200, answer
    signature = answer.body["signatures"][0]
    for _ in range(200):
        status = node(product, "getSignatureStatuses", [signature])["value"][0]
        if status is not None and status["confirmationStatus"] != "processed":
            return str(signature)
        time.sleep(0.1)
    raise AssertionError(f"{signature} was not confirmed")


def test_ctrl_c_leaves_nothing_running_and_a_restart_forgets_nothing(product: Product) -> None:
    """Accounts, keys, ledger, nonces and the chain go on where they were; Product.stop fails if a process is left."""
    customer, stranger = Customer(product), Wallet()
    customer.grant(1_000)
    for _ in range(3):
        assert customer.call("getSlot").status == 200
    signature = fund(product, stranger.pubkey)
    slot, entries, http_url = (
        node(product, "getSlot", {"commitment": "processed"}),
        customer.entries(),
        product.http_url,
    )
    body = rpc_body("getSlot")
    used = customer.wallet.headers("POST", "/", body)
    assert request(f"{http_url}/", used, body).status == 200

    assert product.stop(interrupt_group=True) == 0
    product.start()

    assert product.http_url == http_url
    replayed = request(f"{http_url}/", used, body)
    assert replayed.status in (401, 403), (
        replayed
    )  # 401 only if the restart took longer than the signature is good for.
    if replayed.status == 403:
        assert replayed.body["error"]["code"] == "NONCE_REUSED"
    assert customer.balance == 996
    assert customer.entries()[1:] == entries
    assert customer.call("getSlot").status == 200
    assert customer.balance == 995
    assert node(product, "getSlot", {"commitment": "processed"}) >= slot
    assert node(product, "getBalance", stranger.pubkey, {"commitment": "confirmed"})["value"] == 5_000_000
    config = {"encoding": "json", "commitment": "confirmed", "maxSupportedTransactionVersion": 0}
    assert node(product, "getTransaction", signature, config)["slot"] <= slot
    assert product.account()["balance"] > 0  # The demo account's key of the first start is still the one in the file.
    assert product.audit().returncode == 0


def test_sigterm_stops_it_as_cleanly(product: Product) -> None:
    """What a service manager sends: exit code 0, children stopped in order, nothing left, and it starts again."""
    before = product.account()["balance"]
    assert product.stop() == 0
    assert "are kept in" in product.output_path.read_text(encoding="utf-8")[-400:]  # Its last words.
    product.start()
    assert product.account()["balance"] == before


@pytest.mark.parametrize("ray_is_up", [False, True])
def test_ctrl_c_while_starting(ray_is_up: bool) -> None:
    """Somebody changes their mind: it ends without a traceback and leaves nothing running."""
    folder = Path(tempfile.mkdtemp(prefix="ledger-gateway-tests-"))
    folder.chmod(0o711)
    starting = Product(folder / "data", {}, free_ports())
    try:
        starting.launch()
        if ray_is_up:
            starting.wait_for_output("starting Ray (")
        else:
            while not starting.running("gcs_server"):
                time.sleep(0.05)
        starting.stop(interrupt_group=True)
        assert "Traceback" not in starting.output_path.read_text(encoding="utf-8")
    finally:
        starting.kill()
        shutil.rmtree(folder, ignore_errors=True)
