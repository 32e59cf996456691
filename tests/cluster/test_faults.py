"""Processes killed under load: what was answered is in the ledger, what was not is not, and service comes back.

Rules: money rules 2 and 9; design, "What must survive what"; threats 16, 17 and 44.
"""

import asyncio
import os
import signal
import time
import urllib.error
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

import psutil
import pytest

from bench.product import Product
from tests.cluster.load import Seen, hammer, steady
from tests.customers import Answer, Customer, request

pytestmark = pytest.mark.kills

_PER_SECOND = 200
_IN_FLIGHT = 32
_BEFORE_SECONDS = 1.5
_AFTER_SECONDS = 4.0
_BACK_SECONDS = 90.0
_SETTLE_SECONDS = 90.0

VICTIMS = {"replica": "ray::ServeReplica", "shard": "ray::AccountShard", "postgres": "postgres -D"}


def health(product: Product) -> Answer:
    return request(f"{product.http_url}/health", {})


def is_well(product: Product) -> bool:
    """Whichever replica is asked: each looks by itself, so the one may know a second before the other."""
    found = [health(product) for _ in range(10)]
    return all((answer.status, answer.body.get("paid_traffic_ready")) == (200, True) for answer in found)


def eventually(holds: Callable[[], bool], seconds: float) -> bool:
    """Whether it became true in time; a door that is closed for a moment counts as not yet."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if holds():
                return True
        except (urllib.error.URLError, OSError, ValueError, LookupError, TypeError, AssertionError):
            pass
        time.sleep(0.1)
    return False


@dataclass(frozen=True, slots=True)
class Paid:
    """What the ledger says about calls, each of one credit."""

    debits: int
    refunds: int

    @property
    def net(self) -> int:
        return self.debits - self.refunds


def paid_by(customer: Customer) -> Paid:
    kinds = [entry["type"] for entry in customer.entries()]
    return Paid(kinds.count("debit"), kinds.count("refund"))


async def load_while(act: Callable[[], None], *loads: Callable[[asyncio.Event], Awaitable[Seen]]) -> list[Seen]:
    """All of this load at once, before, during and after the act; what the clients of each saw."""
    stop = asyncio.Event()
    running = asyncio.gather(*(load(stop) for load in loads))
    await asyncio.sleep(_BEFORE_SECONDS)
    await asyncio.to_thread(act)
    await asyncio.sleep(_AFTER_SECONDS)
    stop.set()
    return await running


def assert_serves_again(product: Product, customer: Customer) -> None:
    """By itself, within the time, and health says so."""
    assert eventually(lambda: customer.call("getSlot").status == 200, _BACK_SECONDS), "no call is answered"
    assert eventually(lambda: is_well(product), _BACK_SECONDS), health(product)
    assert customer.call("getSlot").status == 200


def assert_ledger_is_exact(customer: Customer, before: Paid, answered: int, in_doubt_max: int = 0) -> None:
    """Every answered call once, and nothing else.

    in_doubt_max: answers of which nobody is left to say whether they arrived; those may have been refunded.
    """
    eventually(lambda: answered - in_doubt_max <= paid_by(customer).net - before.net <= answered, _SETTLE_SECONDS)
    after = paid_by(customer)
    assert after.debits - before.debits >= answered, "an answered call is not in the ledger"
    assert after.net - before.net <= answered, "an unanswered call is charged"
    assert after.net - before.net >= answered - in_doubt_max, "answered calls were refunded"


def assert_balances_follow_from_the_ledger(product: Product) -> None:
    audit = product.audit(with_roots=True)
    assert audit.returncode == 0, audit.stdout + audit.stderr


@pytest.mark.parametrize("victim", list(VICTIMS))
async def test_killed_under_load(
    product: Product, heavy_customer: Customer, other_heavy_customer: Customer, victim: str
) -> None:
    """kill -9 in the middle of one customer's 200 calls a second, and of as many of another's as fit with 32 in flight:
    no answered call unbilled, no unanswered one billed."""
    customers = (heavy_customer, other_heavy_customer)
    before = [(paid_by(customer), customer.balance) for customer in customers]
    pids = product.running(VICTIMS[victim])
    pid = pids[0]
    seen = await load_while(
        lambda: os.kill(pid, signal.SIGKILL),
        partial(steady, heavy_customer, _PER_SECOND),
        partial(hammer, other_heavy_customer, _IN_FLIGHT),
    )
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    # Only a replica knows what it has sent; with any other victim there is no doubt.
    in_doubt_max = _IN_FLIGHT if victim == "replica" else 0
    for customer, (paid, balance), answers in zip(customers, before, seen, strict=True):
        # A page first, which costs nothing: the probing calls below are not among those of the load.
        assert eventually(lambda customer=customer: customer.info()["pubkey"] == customer.pubkey, _BACK_SECONDS)
        assert_ledger_is_exact(customer, paid, answers.answered, in_doubt_max)
        # Refunds of a killed replica's calls may still come; one that comes between two pages shifts the second.
        assert eventually(
            lambda customer=customer, balance=balance, paid=paid: (
                balance - customer.balance == paid_by(customer).net - paid.net
            ),
            _SETTLE_SECONDS,
        )
        assert answers.answered >= _PER_SECOND * _BEFORE_SECONDS / 2, answers
    assert_balances_follow_from_the_ledger(product)
    assert_serves_again(product, heavy_customer)
    assert eventually(lambda: len(product.running(VICTIMS[victim])) == len(pids), _BACK_SECONDS)
    assert pid not in product.running(VICTIMS[victim])


def test_health_is_ok_while_one_replica_of_two_is_replaced(product: Product, heavy_customer: Customer) -> None:
    """Calls are served all the time, so health says so all the time: no 503 from a replica that is just starting."""
    pids = product.running(VICTIMS["replica"])
    os.kill(pids[0], signal.SIGKILL)
    statuses, calls = [], []

    def ask() -> None:
        statuses.append(health(product).status)
        calls.append(heavy_customer.call("getSlot").status)

    def replaced() -> bool:
        ask()
        return len(set(product.running(VICTIMS["replica"])) - {pids[0]}) == len(pids)

    assert eventually(replaced, _BACK_SECONDS)
    for _ in range(50):  # It is there; now it gets its share of the requests.
        ask()
        time.sleep(0.05)
    assert set(calls) == {200}, Counter(calls)
    assert set(statuses) == {200}, Counter(statuses)


def test_a_ledger_that_cannot_commit_closes_the_doors_to_paid_calls(product: Product, heavy_customer: Customer) -> None:
    """Money rule 9: PostgreSQL hangs: paid calls are refused with 503, health says 503; then all resumes by itself."""
    before, answered = paid_by(heavy_customer), 0
    root = product.running(VICTIMS["postgres"])[0]
    servers = [psutil.Process(root), *psutil.Process(root).children(recursive=True)]
    for server in servers:
        server.suspend()
    try:
        during = heavy_customer.call("getSlot")
        answered += during.status == 200
        assert eventually(lambda: health(product).status == 503, _BACK_SECONDS), health(product)
        again = heavy_customer.call("getSlot")
        pricing = request(f"{product.http_url}/pricing", {})
    finally:
        for server in servers:
            server.resume()
    assert (during.status, again.status) == (503, 503), (during, again)
    assert again.headers["Retry-After"] is not None
    assert health(product).body["status"] in ("starting", "ok")  # Either is true by now.
    assert pricing.status == 200
    assert eventually(lambda: is_well(product), _BACK_SECONDS), health(product)
    assert_ledger_is_exact(heavy_customer, before, answered)
    assert_balances_follow_from_the_ledger(product)
    assert_serves_again(product, heavy_customer)
