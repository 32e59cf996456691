"""Webhooks of every type on a real local cluster, as their owner, their receiver and a stranger see them."""

import hashlib
import hmac
import time

from bench.product import Product
from tests.cluster.test_metrics import Page
from tests.cluster.test_webhooks import Owner, Receiver, receiver
from tests.signals import chain_calls

__all__ = ["receiver"]  # A fixture.
_ARRIVES_SECONDS = 60


def test_every_type_reaches_a_receiver_and_the_figures_are_on_the_page(product: Product, receiver: Receiver) -> None:
    """The five types on the running product, each signed, with log and replay; another account sees none of it; queue
    depth, age and attempts by result are on the page of metrics."""
    owner, stranger = Owner(product), Owner(product)
    address, program = str(owner.keypair.pubkey()), "1" * 32
    made = [
        owner.register(receiver, filter_type="account", filter_value=address),
        owner.register(receiver, filter_type="program", filter_value=program),
        owner.register(receiver, filter_type="my_account"),  # The chain's own transfer to it is what it is told.
        owner.register(receiver, filter_type="lifecycle", lifecycle_events=["api_key.rotated"]),
        owner.register(receiver, filter_type="signal", signal_events=["newPair"], min_lamports=1),
    ]
    before = Page(product).sums("webhook_attempts_total", "result")
    deadline = time.monotonic() + _ARRIVES_SECONDS
    # Nothing tells when a new webhook is watched, so payments are made until one is delivered to both who watch them.
    while not {headers["X-Webhook-Id"] for headers, _ in receiver.delivered} >= {each["id"] for each in made[:2]}:
        assert time.monotonic() < deadline, receiver.bodies()
        assert "result" in owner.send(owner.payment())
        time.sleep(0.25)
    owner.admin("fund", {"pubkey": owner.customer.pubkey, "lamports": 10**9})
    mint = chain_calls.launch(product.ready["node_url"])["mint"]
    owner.customer.api_key = owner.customer.new_api_key()
    wanted = {each["id"]: each["secret"] for each in made}
    while not {headers["X-Webhook-Id"] for headers, _ in receiver.delivered} >= set(wanted):
        assert time.monotonic() < deadline, receiver.bodies()
        time.sleep(0.1)
    for headers, body in list(receiver.delivered):
        signed = f"{headers['X-Webhook-Event-Id']}.{headers['X-Webhook-Timestamp']}.".encode() + body
        digest = hmac.new(wanted[headers["X-Webhook-Id"]].encode(), signed, hashlib.sha256).hexdigest()
        assert headers["X-Webhook-Signature"] == f"sha256={digest}"
    assert mint in {body.get("mint") for body in receiver.bodies()}
    path = f"/webhooks/{made[4]['id']}"
    (*_, told) = owner.ask("GET", f"{path}/deliveries").json()["deliveries"]
    count = len(receiver.delivered)
    replayed = owner.ask("POST", f"{path}/replay", {"event_ids": [told["event_id"]]})
    assert replayed.json()["replayed"] == 1
    while [headers["X-Webhook-Event-Id"] for headers, _ in receiver.delivered[count:]].count(told["event_id"]) == 0:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert stranger.ask("GET", f"{path}/deliveries").status_code == stranger.ask("DELETE", path).status_code == 404
    page = Page(product)
    assert (page.sums("webhook_attempts_total", "result") - before)["2xx"] >= 5
    now = set(page.figures())
    assert {"webhook_queue_depth", "webhook_oldest_undelivered_seconds", "webhook_requests_under_way"} <= now
