"""The number of webhook dispatchers changes on the running product, and each event arrives and is billed once.

Rules: design, "Owners, for every kind of actor"; money rule 1; actors/webhooks/README.md, rules 1 to 3."""

import threading
from functools import partial

import httpx
import pytest

from bench.product import Product
from tests.cluster.test_faults import eventually
from tests.cluster.test_webhooks import Owner, Receiver
from tests.customers import Customer
from tests.product import StaffedProduct, processes_of

pytestmark = pytest.mark.kills


def _charges(owner: Owner) -> int:
    return sum("webhookDelivery" in entry["description"] for entry in owner.customer.entries())


def _is_paid(owner: Owner, events: int) -> bool:
    return _charges(owner) == events


def test_dispatchers_are_added_and_removed_while_events_come(product: Product) -> None:
    """1 -> 3 -> 1: nothing is lost, nothing is charged twice."""
    assert isinstance(product, StaffedProduct)
    owners, receivers, wallet = [Owner(product) for _ in range(4)], [Receiver() for _ in range(4)], Customer(product)
    for owner, receiver in zip(owners, receivers, strict=True):
        owner.register(receiver, filter_type="account", filter_value=wallet.pubkey)
        receiver.seconds = 0.2
    funded, stop = 0, threading.Event()

    def fund() -> None:
        nonlocal funded
        body = {"pubkey": wallet.pubkey, "lamports": 5_000_000}
        while not stop.wait(0.3):
            httpx.post(f"{product.ready['node_url']}/admin/fund", json=body).raise_for_status()
            funded += 1

    assert not stop.wait(2)  # A new webhook is watched from about a second after its creation.
    events = threading.Thread(target=fund)
    events.start()
    try:
        for count in (3, 1):
            told = product.scale("dispatchers", count)
            assert sum(told["slices"].values()) == 64, told
    finally:
        stop.set()
        events.join()
    assert funded > 5
    for owner, receiver in zip(owners, receivers, strict=True):
        receiver.until(funded)
        assert eventually(partial(_is_paid, owner, funded), 30), (funded, _charges(owner))
        assert len({body["signature"] for body in receiver.bodies()}) == funded
        receiver.close()
    assert eventually(lambda: len(processes_of(product, "WebhookDispatcherActor")) == 1, 30)
