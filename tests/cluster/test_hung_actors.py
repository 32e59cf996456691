"""An actor that hangs, and does not end, on the running product: its work goes to others, or it is started anew.

Rules: design, "Owners, for every kind of actor"; money rule 1. Ray starts again only what has ended."""

import contextlib
import json
import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from bench.product import Product
from tests.cluster.conftest import rich_and_unlimited
from tests.cluster.test_faults import eventually
from tests.cluster.test_sends import _FUNDED, Sender
from tests.customers import Customer, request
from tests.product import StaffedProduct

_AWAY_SECONDS, _BACK_SECONDS = 60, 60
pytestmark = pytest.mark.kills


def _states(product: StaffedProduct) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(product.command("cluster", "status", "--json"))["actors"]
    return found


@contextlib.contextmanager
def _hanging(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def _can_send(sender: Sender) -> bool:
    return bool(sender.race(sender.payment(2_000_000), **_FUNDED).body["result"]["confirmed"])


def _can_list_webhooks(customers: list[Customer]) -> bool:
    url = f"{customers[0].product.http_url}/webhooks"
    return all(request(url, customer.key_headers).status == 200 for customer in customers)


def _can_call(customers: list[Customer]) -> bool:
    return all(customer.call("getSlot").status == 200 for customer in customers)


def _hang(product: Product, kind: str, name: str, work: Callable[[], bool]) -> None:
    """Two of a kind; one of them hangs. The work is done all the same, and is spread over both when it goes on."""
    assert isinstance(product, StaffedProduct)
    product.scale(kind, 2)
    try:
        assert eventually(work, _BACK_SECONDS)
        with _hanging(_states(product)[name]["process"]):
            assert eventually(work, _AWAY_SECONDS), f"{kind}: {name} hangs, and nobody has its work"
        assert eventually(lambda: bool(_states(product)[name]["process"]), _BACK_SECONDS)
        product.scale(kind, 2)
        assert work()
    finally:
        product.scale(kind, 1)


def test_sends_go_on_while_the_first_racer_hangs(product: Product) -> None:
    """The second racer directs then. Each send has one charge."""
    senders = [Sender(product) for _ in range(2)]
    _hang(product, "racers", "send-racer-0", lambda: all(map(_can_send, senders)))
    for sender in senders:
        assert set(sender.debits()) == {50}


@pytest.mark.skipif("LONG_TESTS" not in os.environ, reason="takes a minute: set LONG_TESTS=1")
@pytest.mark.parametrize(
    ("kind", "name", "work"),
    [
        ("owners", "account-shard-1", _can_call),
        ("owners", "account-shard-0", _can_call),
        ("dispatchers", "webhook-dispatcher", _can_list_webhooks),
    ],
)
def test_work_goes_on_while_an_actor_hangs(
    product: Product, kind: str, name: str, work: Callable[[list[Customer]], bool]
) -> None:
    """An owner is started anew by the other one; no account is charged for what it did not get."""
    customers = [rich_and_unlimited(product) for _ in range(8)]
    _hang(product, kind, name, partial(work, customers))
    assert isinstance(product, StaffedProduct)
    assert product.audit().returncode == 0
