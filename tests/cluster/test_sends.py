"""sendAndConfirm on a real local cluster: over three legs, charged by outcome, through the death of the racer."""

import base64
import json
import os
import signal
import threading
import time
from typing import Any

import base58
import pytest
from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction

from bench.product import Product
from tests.cluster.test_restart import node
from tests.customers import Answer, Customer, request

_RACER = "SendRacerActor"
_PROVEN_SECONDS = 240  # 150 blocks and finality, on a busy machine.
_BACK_SECONDS = 60


class Sender:
    """A wallet with SOL on the chain, and the account that pays for its sends."""

    def __init__(self, product: Product) -> None:
        self.product, self.customer, self.keypair = product, Customer(product), Keypair()
        self.customer.grant(1_000)
        self.admin("fund", {"pubkey": str(self.keypair.pubkey()), "lamports": 10**10})
        confirmed = {"commitment": "confirmed"}  # A preflight looks no earlier.
        deadline = time.monotonic() + _BACK_SECONDS
        while node(product, "getBalance", str(self.keypair.pubkey()), confirmed)["value"] == 0:
            assert time.monotonic() < deadline, "the wallet was not funded"
            time.sleep(0.1)

    def admin(self, path: str, body: dict[str, Any]) -> None:
        url = f"{self.product.ready['node_url']}/admin/{path}"
        answer = request(url, {"Content-Type": "application/json"}, json.dumps(body).encode())
        assert answer.status == 200, answer

    def payment(self, lamports: int = 5_000_000) -> VersionedTransaction:
        blockhash = Hash.from_string(node(self.product, "getLatestBlockhash")["value"]["blockhash"])
        given = TransferParams(from_pubkey=self.keypair.pubkey(), to_pubkey=Pubkey(os.urandom(32)), lamports=lamports)
        message = MessageV0.try_compile(self.keypair.pubkey(), [transfer(given)], [], blockhash)
        return VersionedTransaction(message, [self.keypair])

    def race(self, transaction: VersionedTransaction, **config: Any) -> Answer:
        return self.customer.call("sendAndConfirm", text(transaction), config)

    def status(self, transaction: VersionedTransaction) -> dict[str, Any]:
        answer = self.customer.call("getSendStatus", signature(transaction))
        assert "result" in answer.body, answer.body
        found: dict[str, Any] = answer.body["result"]
        return found

    def until(self, transaction: VersionedTransaction, *statuses: str) -> dict[str, Any]:
        deadline = time.monotonic() + _PROVEN_SECONDS
        while time.monotonic() < deadline:
            answer = self.customer.call("getSendStatus", signature(transaction))
            if answer.body.get("result", {}).get("status") in statuses:
                return dict(answer.body["result"])
            time.sleep(0.5)
        raise AssertionError(f"not {statuses}: {answer.body}")

    def debits(self) -> list[int]:
        return [-entry["amount"] for entry in self.customer.entries() if entry["type"] == "debit"]


def text(transaction: VersionedTransaction) -> str:
    return base64.b64encode(bytes(transaction)).decode()


def signature(transaction: VersionedTransaction) -> str:
    return base58.b58encode(bytes(transaction.signatures[0])).decode()


def on_chain(product: Product, transaction: VersionedTransaction) -> bool:
    found = node(product, "getSignatureStatuses", [signature(transaction)], {"searchTransactionHistory": True})
    return found["value"][0] is not None and found["value"][0]["err"] is None


@pytest.fixture
def sender(product: Product) -> Sender:
    return Sender(product)


def test_a_send_is_confirmed_and_charged_for_its_landing_once(product: Product, sender: Sender) -> None:
    """The same bytes again are one send: they cost base. The status is free."""
    payment = sender.payment()
    answer = sender.race(payment)
    result = answer.body["result"]
    assert result["status"] == "confirmed" and result["signature"] == signature(payment), result
    assert result["charged_credits"] == 50 and "local_rpc" in result["legs_attempted"]
    assert on_chain(product, payment)
    again = sender.race(payment).body["result"]
    assert again["status"] == "confirmed" and again["charged_credits"] == 2
    status = sender.status(payment)
    assert status["confirmed"] is True and status["legs"]["local_rpc"][0]["submitted_at_ms"] > 0
    assert sorted(sender.debits()) == [2, 50]


def test_what_cannot_land_is_told_before_it_is_sent(product: Product, sender: Sender) -> None:
    """A preflight that fails, and a corrupt signature: nothing broadcast, nothing charged."""
    poor = sender.payment(10**15)
    answer = sender.race(poor, skipPreflight=False)
    assert answer.body["error"]["code"] == -32002 and not on_chain(product, poor)
    raw = bytearray(bytes(sender.payment()))
    raw[5] ^= 1
    corrupt = sender.customer.call("sendAndConfirm", base64.b64encode(bytes(raw)).decode())
    assert corrupt.body["error"]["code"] == -32602
    assert sender.debits() == [] and sender.customer.balance == 1_000


def test_an_error_on_the_chain_costs_base(sender: Sender) -> None:
    result = sender.race(sender.payment(10**15)).body["result"]
    assert result["status"] == "failed" and result["error"] and result["charged_credits"] == 2
    assert sender.debits() == [2]


def test_a_smart_send_answers_at_once(product: Product, sender: Sender) -> None:
    payment = sender.payment()
    answer = sender.customer.call("sendSmartTransaction", text(payment), {"simulate": True})
    assert answer.body.get("result") == signature(payment), answer.body
    deadline = time.monotonic() + _BACK_SECONDS
    while not on_chain(product, payment):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert sender.debits() == [2]


def test_the_racer_is_killed_in_the_middle_of_a_race(product: Product, sender: Sender) -> None:
    """Row 18: whatever the caller hears, the chain's outcome is told later, and the charge follows from it."""
    drops = {"drop_share": 1.0}
    sender.admin("faults", {"sends": {"rpc": drops, "tpu": drops, "bundle": drops}})
    payment = sender.payment()
    heard: list[Answer] = []
    caller = threading.Thread(target=lambda: heard.append(sender.race(payment)))
    caller.start()
    try:
        while "result" not in sender.customer.call("getSendStatus", signature(payment)).body:
            time.sleep(0.05)  # Until it is stored.
        (pid, *_) = product.running(_RACER)
        os.kill(pid, signal.SIGKILL)
    finally:
        sender.admin("faults", {"sends": None})
        caller.join()
    assert heard[0].body["result"]["status"] == "unknown", heard[0]
    status = sender.until(payment, "confirmed", "failed")
    assert (status["status"] == "confirmed") == on_chain(product, payment)
    wanted = 50 if status["status"] == "confirmed" else 2
    deadline = time.monotonic() + _BACK_SECONDS
    while not sender.debits() and time.monotonic() < deadline:
        time.sleep(0.2)
    assert sender.debits() in ([wanted], [] if wanted == 2 else [wanted])


def test_the_page_of_landings_is_public(product: Product) -> None:
    deadline = time.monotonic() + _BACK_SECONDS
    while (answer := request(f"{product.http_url}/stats/landing", {})).status == 503:
        assert time.monotonic() < deadline  # The racer was killed a moment ago.
        time.sleep(0.5)
    assert answer.status == 200 and set(answer.body["legs"]) == {"local_rpc", "jito", "tpu_quic"}
