"""A replica and the owners of accounts killed together, in every order: nobody is charged for what did not arrive.

Rules: money rule 2; threat 66.
"""

import os
import signal
import time
from collections.abc import Callable
from functools import partial

import psutil
import pytest

from bench.product import Product
from tests.cluster.load import hammer
from tests.cluster.test_faults import (
    VICTIMS,
    assert_balances_follow_from_the_ledger,
    assert_ledger_is_exact,
    assert_serves_again,
    load_while,
    paid_by,
)
from tests.customers import Customer

pytestmark = pytest.mark.kills

_IN_FLIGHT = 32
# Answers that left the killed replica in its last moments, and those of the time since the last group of each owner.
_IN_DOUBT_MAX = 2 * _IN_FLIGHT


def kill(*pids: int) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


class Victims:
    """One replica of two, and all owners."""

    def __init__(self, product: Product) -> None:
        self.product = product
        self.replica = product.running(VICTIMS["replica"])[0]
        self.owners = product.running(VICTIMS["shard"])

    def replica_first(self) -> None:
        kill(self.replica)
        time.sleep(2)  # The owners have not given it up yet.
        kill(*self.owners)

    def owners_first(self) -> None:
        kill(*self.owners)
        time.sleep(0.2)  # The replica has not reached a new owner yet.
        kill(self.replica)

    def at_once(self) -> None:
        kill(self.replica, *self.owners)

    def with_a_frozen_ledger(self) -> None:
        root = psutil.Process(self.product.running(VICTIMS["postgres"])[0])
        servers = [root, *root.children(recursive=True)]
        for server in servers:
            server.suspend()
        try:
            time.sleep(0.5)
            self.replica_first()
            time.sleep(1)
        finally:
            for server in servers:
                server.resume()


# With a frozen ledger the replica is killed first, too. With LONG_TESTS=1 in every order.
_ORDERS = [Victims.at_once, Victims.with_a_frozen_ledger]
if "LONG_TESTS" in os.environ:
    _ORDERS += [Victims.replica_first, Victims.owners_first]


@pytest.mark.parametrize("kills", _ORDERS)
async def test_what_did_not_arrive_is_refunded(
    product: Product, heavy_customer: Customer, kills: Callable[[Victims], None]
) -> None:
    """The client's count of answers is debits less refunds, but for the answers of the last moments."""
    before = paid_by(heavy_customer)
    victims = Victims(product)
    (seen,) = await load_while(partial(kills, victims), partial(hammer, heavy_customer, _IN_FLIGHT))
    assert seen.answered > 100, seen
    assert_serves_again(product, heavy_customer)
    answered = seen.answered + 2  # The probes that were answered.
    assert_ledger_is_exact(heavy_customer, before, answered, _IN_DOUBT_MAX)
    assert_balances_follow_from_the_ledger(product)
