"""sendAndConfirm on a real local cluster: over three legs, charged by outcome, through the death of the racer."""

import base64
import json
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import base58
import pytest
from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction

from actors.addresses import TIP_ACCOUNTS
from actors.sends.fault_switch import STEPS
from bench.product import Product
from tests.cluster.proofs import assert_the_script_proves, read_by_key
from tests.cluster.test_metrics import Page
from tests.cluster.test_restart import node
from tests.customers import Answer, Customer, request
from tests.long_transactions import long_v1
from tests.product import KILL_AT, processes_of

_PROVEN_SECONDS = 240  # 150 blocks and finality, on a busy machine.
_BACK_SECONDS = 60
_LOSSY_SENDS = 40
_FUNDED = {"encoding": "base64", "preflightCommitment": "confirmed"}  # Payers are funded a moment before.


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

    def arrivals(self) -> list[dict[str, Any]]:
        """The newest broadcasts that reached the chain."""
        found, after = list[dict[str, Any]](), 0
        while page := request(f"{self.product.ready['node_url']}/admin/arrivals?after={after}", {}).body["arrivals"]:
            found, after = found + page, page[-1]["number"]
        return found

    def payment(self, lamports: int = 5_000_000, tip: bool = False) -> VersionedTransaction:
        blockhash = Hash.from_string(node(self.product, "getLatestBlockhash")["value"]["blockhash"])
        given = TransferParams(from_pubkey=self.keypair.pubkey(), to_pubkey=Pubkey(os.urandom(32)), lamports=lamports)
        pays = [transfer(given)]
        if tip:
            to = Pubkey.from_string(TIP_ACCOUNTS[0])
            pays.append(transfer(TransferParams(from_pubkey=self.keypair.pubkey(), to_pubkey=to, lamports=1_000)))
        message = MessageV0.try_compile(self.keypair.pubkey(), pays, [], blockhash)
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


def test_a_long_v1_transaction_is_raced(product: Product, sender: Sender) -> None:
    """Of more than 1,232 bytes, over every leg that takes it."""
    blockhash = Hash.from_string(node(product, "getLatestBlockhash")["value"]["blockhash"])
    payment = long_v1(sender.keypair, [Pubkey.new_unique() for _ in range(30)], blockhash, 1_000_000)
    result = sender.race(payment).body["result"]
    assert result["status"] == "confirmed" and set(result["legs_attempted"]) >= {"local_rpc"}, result
    assert on_chain(product, payment) and len(bytes(payment)) > 1_232


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


def test_the_racer_is_killed_at_each_step_of_a_race(product: Product, sender: Sender) -> None:
    """Row 18: whatever the caller hears, the chain's outcome is told later, and the one charge follows from it."""
    switch, debits = product.data_dir.with_name(KILL_AT), list[int]()
    for step in STEPS:
        switch.write_text(step)
        payment = sender.payment(tip=True)  # So that all three legs take it.
        heard = sender.race(payment).body["result"]
        assert heard["status"] in ("unknown", "confirmed"), (step, heard)
        deadline = time.monotonic() + _BACK_SECONDS
        while switch.exists():
            assert time.monotonic() < deadline, f"the racer never came to the step {step}"
            time.sleep(0.05)
        status = sender.until(payment, "confirmed", "failed")
        deadline = time.monotonic() + _BACK_SECONDS
        while (status["status"], status["charged_credits"]) == ("failed", 50):  # Pending: told as the most it may be.
            assert time.monotonic() < deadline, f"the charge after {step} is still pending"
            time.sleep(0.1)
            status = sender.status(payment)
        landed = status["status"] == "confirmed"
        assert landed == on_chain(product, payment), (step, status)
        debits += [50] if landed else [2] if status["charged_credits"] else []
        while len(sender.debits()) < len(debits):
            assert time.monotonic() < deadline, f"the charge after {step} is still pending"
            time.sleep(0.1)
        assert sorted(sender.debits()) == sorted(debits), step
        for leg in ("local_rpc", "jito", "tpu_quic"):
            copies = [one for one in sender.arrivals() if (one["leg"], one["signature"]) == (leg, signature(payment))]
            assert len(copies) <= 3, (step, copies)
    assert 50 in debits


@pytest.mark.parametrize("method", ["sendTransaction", "sendSmartTransaction"])
@pytest.mark.threat(65)
def test_bytes_of_a_race_without_a_racer_are_sent_by_the_next_send(
    product: Product, sender: Sender, method: str
) -> None:
    """Row 65: the racer is killed, sendAndConfirm hears `unknown`, and the signature that the same bytes then get is of
    a transaction that was sent: it lands, and the send is charged."""
    (pid,) = processes_of(product, "ray::SendRacer")
    os.kill(pid, signal.SIGKILL)
    payment = sender.payment()
    heard = sender.race(payment).body["result"]
    assert heard["status"] == "unknown", heard
    config = [_FUNDED] if method == "sendTransaction" else []
    answer = sender.customer.call(method, text(payment), *config)
    assert answer.body.get("result") == signature(payment), answer.body
    deadline = time.monotonic() + _BACK_SECONDS
    while not on_chain(product, payment):
        assert time.monotonic() < deadline, "a signature was told, and nobody has sent its bytes"
        time.sleep(0.2)
    assert 2 in sender.debits()


def test_a_transaction_that_landed_before_costs_base_and_confirmations_are_told(
    product: Product, sender: Sender
) -> None:
    """Decisions, "A transaction that landed before its race". The node's own count, and null when the transaction is
    final."""
    first = sender.race(sender.payment(4_000_000)).body["result"]
    assert first["status"] == "confirmed" and type(first["confirmations"]) is int, first
    payment = sender.payment()
    sent = node(product, "sendTransaction", text(payment), _FUNDED)
    deadline = time.monotonic() + _BACK_SECONDS
    while (node(product, "getSignatureStatuses", [sent])["value"][0] or {}).get("confirmationStatus") != "finalized":
        assert time.monotonic() < deadline
        time.sleep(0.2)
    late = sender.race(payment).body["result"]
    assert (late["status"], late["charged_credits"], late["legs_attempted"]) == ("confirmed", 2, []), late
    assert late["confirmations"] is None and sorted(sender.debits()) == [2, 50]


def test_sends_land_and_are_charged_by_their_outcome_under_losses(product: Product, sender: Sender) -> None:
    """Each leg loses 30 % of what it gets. Three legs and three broadcasts are enough for every transaction."""
    drops = {"drop_share": 0.3}
    sender.admin("faults", {"seed": 7, "sends": {"rpc": drops, "tpu": drops, "bundle": drops}})
    sender.customer.grant(50 * _LOSSY_SENDS)
    payments = [sender.payment(5_000_000 + number, tip=True) for number in range(_LOSSY_SENDS)]
    before = sender.debits()
    try:
        with ThreadPoolExecutor(_LOSSY_SENDS) as pool:
            answers = list(pool.map(sender.race, payments))
    finally:
        sender.admin("faults", {"sends": None})
    assert {answer.body["result"]["status"] for answer in answers} == {"confirmed"}, answers
    assert all(on_chain(product, payment) for payment in payments)
    assert sorted(sender.debits()) == sorted(before + [50] * _LOSSY_SENDS)
    assert_the_script_proves(product, read_by_key(sender.customer), "sendAndConfirm")


def test_legs_and_races_are_on_the_metrics_page(product: Product, sender: Sender) -> None:
    """With labels from fixed lists; and the racer hears of landings over the chain's WebSocket."""
    before = Page(product)
    assert sender.race(sender.payment(tip=True)).body["result"]["status"] == "confirmed"
    after = Page(product)
    races = after.sums("send_races_total", "outcome") - before.sums("send_races_total", "outcome")
    legs = after.sums("send_legs_total", "leg") - before.sums("send_legs_total", "leg")
    assert races == {"confirmed": 1} and legs["local_rpc"] >= 1 and set(legs) <= {"local_rpc", "jito", "tpu_quic"}
    now = after.figures()
    assert now["send_races_under_way"] == 0 and now["send_notices_complete"] == 1


def test_the_page_of_landings_is_public(product: Product) -> None:
    deadline = time.monotonic() + _BACK_SECONDS
    while (answer := request(f"{product.http_url}/stats/landing", {})).status == 503:
        assert time.monotonic() < deadline  # The racer was killed a moment ago.
        time.sleep(0.5)
    assert answer.status == 200 and set(answer.body["legs"]) == {"local_rpc", "jito", "tpu_quic"}
