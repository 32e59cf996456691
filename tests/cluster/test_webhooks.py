"""Webhooks on a real local cluster: through the front, from the chain and from accounts, through a kill -9."""

import hashlib
import hmac
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
from solders.transaction import VersionedTransaction

from bench.product import Product
from tests.cluster.proofs import assert_the_script_proves, read_by_key
from tests.cluster.test_sends import Sender, signature, text
from tests.customers import Customer
from tests.product import processes_of

_ARRIVES_SECONDS = 60


class Receiver:
    """Takes deliveries on this machine: (headers, body) in the order of arrival."""

    def __init__(self) -> None:
        self.delivered: list[tuple[dict[str, str], bytes]] = []
        self.seconds = 0.0  # Until it answers.
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.delivered.append((dict(self.headers), body))
                time.sleep(receiver.seconds)
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/hook"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body in self.delivered]

    def ids(self) -> list[str]:
        return [headers["X-Webhook-Event-Id"] for headers, _ in self.delivered]

    def until(self, count: int) -> list[dict[str, Any]]:
        self._wait(lambda: len(set(self.ids())) >= count)
        return self.bodies()

    def event_id(self, event: str) -> str:
        """The id of the first delivery of this event."""
        return next(
            headers["X-Webhook-Event-Id"] for headers, body in self.delivered if json.loads(body)["event"] == event
        )

    def until_again(self, event_id: str) -> None:
        """Wait until this event has come twice."""
        self._wait(lambda: self.ids().count(event_id) >= 2)

    def until_signed(self, *signatures: str) -> None:
        """Wait until the transactions with these signatures were told."""
        self._wait(lambda: {body.get("signature") for body in self.bodies()}.issuperset(signatures))

    def _wait(self, has_come: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _ARRIVES_SECONDS
        while not has_come():
            assert time.monotonic() < deadline, self.bodies()
            time.sleep(0.1)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()
    yield found
    found.close()


class Owner(Sender):
    """A customer with a wallet on the chain, and its webhooks."""

    def ask(self, method: str, path: str, body: Any = None) -> httpx.Response:
        url, headers = self.product.http_url + path, {"X-Api-Key": self.customer.api_key}
        return httpx.request(method, url, headers=headers, json=body, timeout=30)

    def send(self, transaction: VersionedTransaction) -> Any:
        return self.customer.call(
            "sendTransaction", text(transaction), {"encoding": "base64", "skipPreflight": True}
        ).body

    def register(self, receiver: Receiver, **fields: Any) -> dict[str, Any]:
        made = self.ask("POST", "/webhooks", {"url": receiver.url} | fields)
        assert made.status_code == 201, made.text
        assert "x-credits-remaining" in made.headers
        found: dict[str, Any] = made.json()
        return found

    def facts(self, webhook: str, count: int) -> list[dict[str, Any]]:
        """Wait until the ledger has so many facts about a webhook; the oldest first."""
        deadline, found = time.monotonic() + _ARRIVES_SECONDS, list[dict[str, Any]]()
        while len(found) < count:
            assert time.monotonic() < deadline, found
            time.sleep(0.1)
            entries = self.ask("GET", "/account/ledger?type=fact&limit=500").json()["entries"]
            found = [json.loads(each["description"]) for each in reversed(entries) if webhook in each["description"]]
        return found


def test_a_webhook_lives_through_the_front(product: Product, receiver: Receiver) -> None:
    """Every method and path; a key that is rotated is told, signed; what the guard refuses is refused here too. What
    the owner chose is in its ledger, and the audit finds nothing else."""
    owner = Owner(product)
    made = owner.register(receiver, filter_type="lifecycle", lifecycle_events=["low_balance"])
    path = f"/webhooks/{made['id']}"
    refused = owner.ask("POST", "/webhooks", {"url": "https://169.254.169.254/", "filter_type": "my_account"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "INVALID_REQUEST")
    tested = owner.ask("POST", f"{path}/test", {}).json()
    assert tested["delivered"] is True and tested["event_id"].startswith("evt_test_")
    changed = owner.ask("PATCH", path, {"lifecycle_events": ["api_key.rotated"]})
    assert changed.json()["webhook"]["lifecycle_events"] == ["api_key.rotated"]
    owner.customer.api_key = owner.customer.new_api_key()
    told = receiver.until(2)[-1]
    assert (told["event"], told["pubkey"]) == ("api_key.rotated", owner.customer.pubkey)
    headers, body = receiver.delivered[-1]
    signed = f"{headers['X-Webhook-Event-Id']}.{headers['X-Webhook-Timestamp']}.".encode() + body
    expected = "sha256=" + hmac.new(made["secret"].encode(), signed, hashlib.sha256).hexdigest()
    assert headers["X-Webhook-Signature"] == expected
    listed = owner.ask("GET", "/webhooks").json()["webhooks"]
    assert [each["id"] for each in listed] == [made["id"]]
    assert owner.ask("DELETE", path).status_code == 200
    assert owner.ask("GET", f"{path}/deliveries").status_code == 404
    facts = owner.facts(made["id"], 3)
    assert [each.get("kinds") for each in facts] == [["low_balance"], ["api_key.rotated"], None]
    assert facts[0]["url_hash"] == hashlib.sha256(receiver.url.encode()).hexdigest() and facts[2]["deleted"] is True
    audit = product.audit()
    assert audit.returncode == 0, audit.stdout + audit.stderr


def test_transactions_arrive_through_a_kill_of_the_dispatcher_and_are_billed_once(
    product: Product, receiver: Receiver
) -> None:
    """kill -9: the next dispatcher goes on where this one stopped, on the chain and in the queue."""
    owner = Owner(product)
    made = owner.register(receiver, filter_type="account", filter_value=str(owner.keypair.pubkey()))
    before = owner.customer.balance
    first = owner.payment()
    assert "result" in owner.send(first)
    receiver.until_signed(signature(first))
    (dispatcher,) = processes_of(product, "WebhookDispatcherActor")
    second = owner.payment(6_000_000)
    os.kill(dispatcher, signal.SIGKILL)
    assert "result" in owner.send(second)
    receiver.until_signed(signature(first), signature(second))
    # The payment that opened the wallet may have been confirmed late enough to be told as well.
    events = len({body["signature"] for body in receiver.bodies()})
    assert events in (2, 3)
    deadline = time.monotonic() + _ARRIVES_SECONDS
    while (
        len(charges := [entry for entry in owner.customer.entries() if "webhookDelivery" in entry["description"]])
        < events
    ):
        assert time.monotonic() < deadline, charges
        time.sleep(0.2)
    assert len(charges) == events
    assert_the_script_proves(product, read_by_key(owner.customer), "webhookDelivery")
    assert owner.customer.balance == before - 2 * 2 - events
    logged: list[str] = []
    while logged != ["delivered"] * events:  # A result is kept after its charge.
        assert time.monotonic() < deadline, logged
        log = owner.ask("GET", f"/webhooks/{made['id']}/deliveries").json()["deliveries"]
        logged = [each["status"] for each in log]
        time.sleep(0.2)


@pytest.mark.threat(68)
def test_three_credits_pay_three_of_many_deliveries_to_a_slow_receiver(product: Product, receiver: Receiver) -> None:
    """Money rule 1: a credit is held before each delivery, so none leaves that the ledger does not have."""
    owner, wallet = Owner(product), Customer(product).pubkey
    receiver.seconds = 0.3
    for _ in range(21):
        owner.register(receiver, filter_type="account", filter_value=wallet)
    product.operator("remove", owner.customer.pubkey, str(owner.customer.balance - 3), "--reason", "test")
    time.sleep(2)  # A new webhook is watched from about a second after its creation.
    for _ in range(20):
        body = {"pubkey": wallet, "lamports": 5_000_000}
        httpx.post(f"{product.ready['node_url']}/admin/fund", json=body).raise_for_status()
    receiver.until(3)
    time.sleep(5)
    assert len(receiver.delivered) == 3
    debits = [entry["description"] for entry in owner.customer.entries() if entry["type"] == "debit"]
    assert len(debits) == 3, debits
    assert all("webhookDelivery" in debit for debit in debits), debits
    assert owner.customer.balance == 0
