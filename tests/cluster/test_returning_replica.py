"""A replica that stands still for so long that it is given up, and comes back with paid answers in its hands.

Rules: decisions, money rule 2; hostile row 57. The stop is real (SIGSTOP): the replica keeps its memory, and its
sockets keep what arrives meanwhile.
"""

import contextlib
import copy
import json
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import psutil

from bench.product import Product
from tests.cluster.test_faults import eventually, paid_by
from tests.customers import Answer, Customer, request

_BATCHES = 8
_FAST = 3  # Calls of each batch that are charged at once.
_HANG_MS = 4_000
_GIVEN_UP_SECONDS = 45.0  # An owner takes 20 to 25 s to notice silence, and gives up 5 s later.


def replicas(product: Product) -> dict[int, str]:
    """Process id of each replica to the URL of its own door, behind HAProxy."""
    doors = range(product.ports.first + 100, product.ports.first + 500)
    found = {}
    for process in product.processes():
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
    """The node takes its time for getBlockHeight, and for nothing else."""
    url, headers = f"{product.ready['node_url']}/admin/faults", {"Content-Type": "application/json"}
    for hang in ({"hang_share": 1, "hang_ms": _HANG_MS}, None):
        answer = request(url, headers, json.dumps({"calls": {"getBlockHeight": hang}}).encode())
        assert answer.status == 200, answer
        if hang is not None:
            yield


def a_batch() -> bytes:
    """Its last call keeps the others' answers, which are paid for by then, in the replica's hands."""
    methods = ["getSlot"] * _FAST + ["getBlockHeight"]
    calls = [{"jsonrpc": "2.0", "id": number, "method": method} for number, method in enumerate(methods)]
    return json.dumps(calls).encode()


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
        time.sleep(0.2)  # Until the replica has heard so.
        os.kill(pid, signal.SIGSTOP)
        try:
            given_up = eventually(lambda: paid_by(customer).refunds == charged, _GIVEN_UP_SECONDS)
        finally:
            os.kill(pid, signal.SIGCONT)
        answers = [each.result() for each in asked]
    assert given_up, paid_by(customer)
    after = paid_by(customer)
    assert sum(map(results, answers)) == after.net == 0, (answers[0], after)
    assert {answer.status for answer in answers} == {503}
    back = at(customer, url)
    assert eventually(lambda: back.call("getSlot").status == 200, 10.0)
    assert paid_by(customer).net == 1
    assert replicas(product)[pid] == url
    audit = product.audit()
    assert audit.returncode == 0, audit.stdout + audit.stderr
