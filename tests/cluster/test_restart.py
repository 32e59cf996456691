"""Every way to stop, and a second start on the same folder: nothing is left running, and nothing is forgotten."""

import contextlib
import http.client
import json
import os
import signal
import time
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from bench.product import Product, Told
from tests.cluster.test_faults import eventually
from tests.cluster.test_left_batches import is_free
from tests.customers import Customer, Wallet, request, rpc_body

pytestmark = pytest.mark.stops
_LONG = pytest.mark.skipif("LONG_TESTS" not in os.environ, reason="takes a minute: set LONG_TESTS=1")


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
    for _ in range(900):
        status = node(product, "getSignatureStatuses", [signature])["value"][0]
        if status is not None and status["confirmationStatus"] != "processed":
            return str(signature)
        time.sleep(0.1)
    raise AssertionError(f"{signature} was not confirmed")


def send_slow_call(product: Product, customer: Customer) -> http.client.HTTPConnection:
    """One that the node takes its time for; a replica has it when this returns, and its answer is not read. In a batch,
    whose calls are held before the node is asked."""
    hang = {"calls": {"getBlockHeight": {"hang_share": 1, "hang_ms": 4_000}}}
    node_url = f"{product.ready['node_url']}/admin/faults"
    answer = request(node_url, {"Content-Type": "application/json"}, json.dumps(hang).encode())
    assert answer.status == 200, answer
    connection = http.client.HTTPConnection(product.http_url.removeprefix("http://"), timeout=90)
    connection.request("POST", "/", b"[" + rpc_body("getBlockHeight") + b"]", customer.key_headers)
    assert eventually(lambda: not is_free(customer), 90), "nothing is held for it"
    return connection


def interrupt_twice(product: Product) -> None:
    """As somebody does who finds that it takes long."""
    product.tell(Told.GROUP, signal.SIGINT)
    product.wait_for_output("letting calls in flight end")
    product.tell(Told.GROUP, signal.SIGINT)


def test_ctrl_c_leaves_nothing_running_and_a_restart_forgets_nothing(product: Product) -> None:
    """Accounts, keys, ledger, nonces and the chain go on where they were; Product.stop fails if a process is left.
    Calls in flight end first, WebSockets are closed with 1012, and a second Ctrl-C changes nothing."""
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

    ws_url = f"{http_url.replace('http', 'ws', 1)}/ws"
    with (
        connect(ws_url, additional_headers={"X-Api-Key": customer.api_key}) as socket,
        contextlib.closing(send_slow_call(product, customer)) as in_flight,
    ):
        assert product.ended(lambda: interrupt_twice(product)) == 0
        assert in_flight.getresponse().status == 200
        with pytest.raises(ConnectionClosed):
            socket.recv(30)
        assert socket.close_code == 1012
    product.start()

    assert product.http_url == http_url
    assert customer.balance == 995  # The call in flight is paid for as well.
    replayed = request(f"{http_url}/", used, body)
    assert replayed.status in (401, 403), (
        replayed
    )  # 401 only if the restart took longer than the signature is good for.
    if replayed.status == 403:
        assert replayed.body["error"]["code"] == "NONCE_REUSED"
    assert customer.entries()[2:] == entries
    assert customer.call("getSlot").status == 200
    assert customer.balance == 994
    assert node(product, "getSlot", {"commitment": "processed"}) >= slot
    assert node(product, "getBalance", stranger.pubkey, {"commitment": "confirmed"})["value"] == 5_000_000
    config = {"encoding": "json", "commitment": "confirmed", "maxSupportedTransactionVersion": 0}
    assert node(product, "getTransaction", signature, config)["slot"] <= slot
    assert product.account()["balance"] > 0  # The demo account's key of the first start is still the one in the file.
    assert product.audit().returncode == 0


def test_a_signal_to_every_process_at_once_stops_it_as_cleanly(product: Product) -> None:
    """What a service manager sends to all that it runs, Ray and PostgreSQL included: exit code 0, nothing left, the
    database shut down in order, and the next start works at once."""
    before = product.account()["balance"]
    assert product.stop(Told.ALL) == 0
    assert "are kept in" in product.output()[-400:]  # Its last words.
    assert "database system is shut down" in (product.data_dir / "logs" / "postgres.log").read_text()[-400:]
    product.start()
    assert product.account()["balance"] == before


@pytest.mark.parametrize(
    ("victim", "words"),
    [
        pytest.param("raylet/raylet", "Ray's own processes have ended", id="ray"),
        # Also shown with small processes: tests/launch/local_run/test_supervisor_process.py.
        pytest.param("serve_app.py", "the launcher was killed (SIGKILL)", id="launcher", marks=_LONG),
    ],
)
def test_when_its_heart_is_killed_it_ends_whole(product: Product, victim: str, words: str) -> None:
    """Ray's daemon or the launcher itself, killed with -9: it says so, nothing is left, and the exit code is a failure
    for whoever restarts services. The tests below show that the next start works at once."""
    assert product.account()["pubkey"] == product.pubkey
    assert product.ended(lambda: os.kill(product.running(victim)[0], signal.SIGKILL)) == 1
    assert words in product.output()


@pytest.mark.parametrize("ray_is_up", [True, pytest.param(False, marks=_LONG)])
def test_ctrl_c_while_starting(product_in_any_state: Product, ray_is_up: bool) -> None:
    """Somebody changes their mind: it ends without a traceback and leaves nothing running. The stores of a run that was
    killed are up by then, where Ray is."""
    product = product_in_any_state
    product.stop()
    product.launch()
    if ray_is_up:
        product.wait_for_output("starting PostgreSQL, Redis and the chain (")
    else:
        while not product.running("gcs_server"):
            time.sleep(0.05)
    assert product.stop(Told.GROUP, signal.SIGINT) == 0
    assert "Traceback" not in product.output()
