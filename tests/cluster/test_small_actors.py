"""The small actors of a local run on the running product: they end together, and all of them go on.

Rules: decisions, "Small actors of a local run"; money rule 1."""

import json
import os
import signal
from typing import Any

import pytest

from bench.product import Product
from tests.cluster.test_faults import eventually
from tests.cluster.test_sends import _FUNDED, Sender
from tests.product import StaffedProduct

pytestmark = pytest.mark.kills
_BACK_SECONDS = 60
_SHARED = {"send-racer-0", "webhook-dispatcher", "deposit-watcher", "signal-classifier-0", "memo-sender"}


def _by_process(product: StaffedProduct) -> dict[int, set[str]]:
    """The names of the actors that answer, by their process."""
    found: dict[str, Any] = json.loads(product.command("cluster", "status", "--json"))["actors"]
    processes: dict[int, set[str]] = {}
    for name, state in found.items():
        if state:
            processes.setdefault(state["process"], set()).add(name)
    return processes


def _process_of(product: StaffedProduct, name: str) -> int | None:
    return next((pid for pid, names in _by_process(product).items() if name in names), None)


def test_all_small_actors_go_on_after_their_process_was_killed(product: Product) -> None:
    """Each send has one outcome and one charge, before the kill and after it. A racer more has a process of its own."""
    assert isinstance(product, StaffedProduct)
    sender = Sender(product)
    assert sender.race(sender.payment(2_000_000), **_FUNDED).body["result"]["confirmed"]
    pid = _process_of(product, "small-actors")
    assert pid is not None
    before = _by_process(product)[pid]
    assert before >= _SHARED and {name.rpartition("-")[0] for name in before} >= {"stream-hub", "metrics-page"}
    os.kill(pid, signal.SIGKILL)
    assert eventually(
        lambda: any(names >= before for of, names in _by_process(product).items() if of != pid), _BACK_SECONDS
    )
    assert eventually(
        lambda: bool(sender.race(sender.payment(2_000_000), **_FUNDED).body["result"]["confirmed"]), _BACK_SECONDS
    )
    assert set(sender.debits()) == {50}
    try:
        product.scale("racers", 2)
        assert _process_of(product, "send-racer-1") not in (None, _process_of(product, "send-racer-0"))
        assert sender.race(sender.payment(2_000_000), **_FUNDED).body["result"]["confirmed"]
    finally:
        product.scale("racers", 1)
    assert set(sender.debits()) == {50}
