"""A replica that stands still for so long that it is given up, and comes back with paid answers in its hands.

Rules: money rule 2; threat 57. The stop is real (SIGSTOP): the replica keeps its memory, and its
sockets keep what arrives meanwhile.
"""

import contextlib
import copy
import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import psutil
import pytest

from bench.product import Product
from tests.cluster.test_faults import eventually, paid_by
from tests.customers import Answer, Customer, Wallet, request, rpc_body

pytestmark = pytest.mark.kills

_BATCHES = 8
_FAST = 3  # Calls of each batch that are charged at once.
_HANG_MS = 12_000  # Of the 15 s that the method has.
_GIVEN_UP_SECONDS = 120.0  # An owner takes 20 to 25 s to notice silence, and gives up 5 s later.


def replicas(product: Product) -> dict[int, str]:
    """Process id of each replica to the URL of its own door, behind HAProxy."""
    doors = range(product.ports.first + 100, product.ports.first + 500)
    found = {}
    for process in product.processes():
        with contextlib.suppress(psutil.NoSuchProcess):  # Some come and go.
            for connection in process.net_connections("tcp"):
                if connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr.port in doors:
                    found[process.pid] = f"http://127.0.0.1:{connection.laddr.port}"
    return found


@dataclass(frozen=True, slots=True)
class _Door:
    """One replica in place of the product, for a customer who must not meet the other one."""

    http_url: str


def at(customer: Customer, url: str) -> Customer:
    there = copy.copy(customer)
    there.product = _Door(url)  # type: ignore[assignment]
    return there


@contextlib.contextmanager
def a_slow_method(product: Product) -> Iterator[None]:
    """The node takes its time for getSignaturesForAddress, and for nothing else."""
    url, headers = f"{product.ready['node_url']}/admin/faults", {"Content-Type": "application/json"}

    def tell(hang: dict[str, int] | None) -> None:
        answer = request(url, headers, json.dumps({"calls": {"getSignaturesForAddress": hang}}).encode())
        assert answer.status == 200, answer

    tell({"hang_share": 1, "hang_ms": _HANG_MS})
    try:
        yield
    finally:
        tell(None)


def a_batch() -> bytes:
    """Its last call keeps the others' answers, which are paid for by then, in the replica's hands."""
    slow = rpc_body("getSignaturesForAddress", Wallet().pubkey)
    return b"[" + b",".join([rpc_body("getSlot")] * _FAST + [slow]) + b"]"


def results(answer: Answer) -> int:
    return sum("result" in item for item in answer.body) if answer.status == 200 else 0


def test_a_replica_that_was_given_up_answers_for_nothing_that_was_refunded(product: Product) -> None:
    """Stopped until its undelivered charges are refunded, then let go on: those answers become 503 and are not given
    away. It serves again at once, without a restart."""
    customer = Customer(product)
    customer.grant(1_000)
    customer.limits(10_000, 1_000)
    (pid, url), (_, other_url) = replicas(product).items()
    customer = at(customer, other_url)
    charged = _BATCHES * _FAST
    with a_slow_method(product), ThreadPoolExecutor(_BATCHES) as clients:
        sent = (f"{url}/", customer.key_headers, a_batch(), 2 * _GIVEN_UP_SECONDS)
        asked = [clients.submit(request, *sent) for _ in range(_BATCHES)]
        assert eventually(lambda: paid_by(customer).debits == charged, _HANG_MS / 1000), paid_by(customer)
        # The owner answers in order: once the replica has heard of this one, it has heard of those before it. Whether
        # it has still told that this answer was delivered is open, and so is whether it is refunded too.
        assert at(customer, url).call("getSlot").status == 200
        os.kill(pid, signal.SIGSTOP)
        try:
            given_up = eventually(lambda: paid_by(customer).refunds >= charged, _GIVEN_UP_SECONDS)
        finally:
            os.kill(pid, signal.SIGCONT)
        answers = [each.result() for each in asked]
    assert given_up, paid_by(customer)
    after = paid_by(customer)
    assert sum(map(results, answers)) == 0 and after.net in (0, 1), (answers[0], after)
    assert {answer.status for answer in answers} == {503}
    back = at(customer, url)
    assert eventually(lambda: back.call("getSlot").status == 200, _GIVEN_UP_SECONDS)
    assert paid_by(customer).net in (1, 2)
    assert replicas(product)[pid] == url
    audit = product.audit()
    assert audit.returncode == 0, audit.stdout + audit.stderr
