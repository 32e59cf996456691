"""Batches that end without their answer: each call is decided by the published rule, at once, and never again.

Rules: README, "What a call costs" (the client leaves), "Killed or lost" (a gateway replica); money rule 2; threats
36 and 54.
"""

import base64
import contextlib
import json
import os
import signal
import socket
import urllib.request
from collections import Counter
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest
from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import Message
from solders.transaction import Transaction

from bench.product import Product
from tests.cluster.test_admission import replica_urls
from tests.cluster.test_faults import VICTIMS, assert_serves_again, eventually
from tests.customers import Customer, request, rpc_body

pytestmark = pytest.mark.kills

_GRANTED = 1_000
_QUICK, _SLOW = 49, 50  # With one send a batch of 100, on an account with 64 slots.
_AT_ONCE_SECONDS = 10.0  # Below the 15 s after which the slow calls would end by themselves, and the 60 s of a hold.
_GONE_SECONDS = 90.0  # An owner takes 5 s to believe that a replica is gone, and the next one has to start.
_SENT = "sendTransaction: answered after the client had left"


@pytest.fixture
def slow_node(product: Product) -> Iterator[None]:
    """A node that never answers one method, and takes its time for sends."""
    url, headers = f"{product.ready['node_url']}/admin/faults", {"Content-Type": "application/json"}
    faults = {"getSignaturesForAddress": {"hang_share": 1}, "sendTransaction": {"hang_share": 1, "hang_ms": 1_500}}
    assert request(url, headers, json.dumps({"calls": faults}).encode()).status == 200
    yield
    with urllib.request.urlopen(urllib.request.Request(url, method="DELETE")) as cleared:
        assert cleared.status == 200


def batch() -> bytes:
    """49 calls that are answered at once, a send that is answered late, and 50 that are not answered."""
    payer = Keypair()
    sent = base64.b64encode(bytes(Transaction([payer], Message([], payer.pubkey()), Hash.default()))).decode()
    calls = [rpc_body("getSlot")] * _QUICK + [rpc_body("sendTransaction", sent, {"encoding": "base64"})]
    calls += [rpc_body("getSignaturesForAddress", str(payer.pubkey()))] * _SLOW
    return b"[" + b",".join(calls) + b"]"


def send_batch(url: str, customer: Customer) -> socket.socket:
    """The batch is on its way when this returns."""
    body, where = batch(), urlsplit(url)
    connection = socket.create_connection((where.hostname, where.port), timeout=90)
    lines = ["POST / HTTP/1.1", f"Host: {where.netloc}", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in customer.key_headers.items()]
    connection.sendall("\r\n".join([*lines, "", ""]).encode() + body)
    return connection


def told(customer: Customer) -> Counter[str]:
    """What the ledger says about calls: how many entries of which words."""
    words = (entry["description"] for entry in customer.entries() if entry["type"] in ("debit", "refund"))
    return Counter(words)


def is_half_way(customer: Customer) -> bool:
    return told(customer)["getSlot"] == _QUICK


def is_free(customer: Customer) -> bool:
    """Whether nothing of this account is held any more."""
    answer = request(f"{customer.product.http_url}/account/info", customer.key_headers)
    return int(answer.headers["X-Credits-Remaining"]) == answer.body["balance"]


def process_at(product: Product, url: str) -> int:
    """The process that listens at this replica's own door."""
    port = urlsplit(url).port
    for process in product.processes():
        with contextlib.suppress(psutil.Error):
            for connection in process.net_connections("tcp"):
                if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port:
                    return process.pid
    raise AssertionError(f"nobody listens at {url}")


def rich(product: Product) -> Customer:
    customer = Customer(product)
    customer.grant(_GRANTED)
    return customer


def leave_half_way(url: str, customer: Customer) -> list[dict[str, Any]]:
    """Leave after 49 answers, see what the ledger says of all 100, and give its entries back."""
    with contextlib.closing(send_batch(url, customer)):
        assert eventually(lambda: is_half_way(customer), _AT_ONCE_SECONDS), told(customer)
        assert not is_free(customer)
    assert eventually(lambda: is_free(customer), _AT_ONCE_SECONDS), customer.info()
    assert told(customer) == {"getSlot": _QUICK, _SENT: 1}
    assert customer.balance == _GRANTED - _QUICK - 2
    return customer.entries()


@pytest.mark.threat(54)
def test_a_batch_is_decided_when_it_is_left_and_not_again_when_its_replica_dies(
    product: Product, slow_node: None
) -> None:
    """Threat 54, through the front door and at a replica's own. A client leaves a batch of 100 half way: what was
    answered is charged, the send when the node answers it, the rest is free, at once. Then that replica is killed in
    the middle of another customer's batch: nobody has that answer, so it is free as a whole, within seconds; the ledger
    of those who had left stays as it was."""
    url = replica_urls(product)[0]
    pid, replicas = process_at(product, url), product.running(VICTIMS["replica"])
    assert pid in replicas
    left = {
        customer: leave_half_way(door, customer) for door in (product.http_url, url) for customer in [rich(product)]
    }
    staying = rich(product)
    with contextlib.closing(send_batch(url, staying)):
        assert eventually(lambda: is_half_way(staying), _AT_ONCE_SECONDS), told(staying)
        os.kill(pid, signal.SIGKILL)
    assert eventually(lambda: is_free(staying) and staying.balance == _GRANTED, _GONE_SECONDS), staying.info()
    words = told(staying)
    assert words["getSlot"] == words["getSlot: refunded, the answer could not be delivered"] == _QUICK
    for customer, entries in left.items():
        assert customer.entries() == entries
    assert product.audit().returncode == 0
    assert_serves_again(product, staying)
    assert eventually(lambda: len(product.running(VICTIMS["replica"])) == len(replicas), _GONE_SECONDS)
