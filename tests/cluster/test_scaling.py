"""The number of owners and of racers changes on the running product, and its clients do not notice.

Rules: design, "Owners, for every kind of actor"; money rules 1, 2 and 5."""

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from bench.product import Product
from tests.cluster.load import Seen, hammer
from tests.cluster.second_node import SecondNode
from tests.cluster.test_faults import eventually, health
from tests.cluster.test_sends import _FUNDED, Sender
from tests.customers import Answer, Customer
from tests.product import StaffedProduct, processes_of

_CREDITS = 1_000_000
pytestmark = pytest.mark.kills


async def called_meanwhile(customers: list[Customer], product: StaffedProduct, counts: tuple[int, ...]) -> list[Seen]:
    stop = asyncio.Event()
    calling = [asyncio.create_task(hammer(customer, 2, stop)) for customer in customers]
    await asyncio.sleep(0.5)
    for count in counts:
        told = await asyncio.to_thread(product.scale, "owners", count)
        assert max(told["slices"].values()) - min(told["slices"].values()) <= 1
    stop.set()
    return [await each for each in calling]


def _has(customer: Customer, credits: int) -> bool:
    return customer.balance == credits


def test_owners_are_added_and_removed_while_customers_call(product: Product) -> None:
    """No call fails, each answer is charged once, and the audit agrees with what the customers saw."""
    assert isinstance(product, StaffedProduct)
    customers = [Customer(product) for _ in range(6)]
    for customer in customers:
        customer.grant(_CREDITS)
        customer.limits(100_000, 64)
    seen = asyncio.run(called_meanwhile(customers, product, (3, 1)))
    for customer, calls in zip(customers, seen, strict=True):
        assert set(calls.kinds) == {"200"} and calls.answered > 10, calls
        left = _CREDITS - calls.answered
        assert eventually(partial(_has, customer, left), 30), (calls, customer.balance)
    assert product.audit().returncode == 0
    assert eventually(lambda: len(product.running("ray::AccountShard")) == 1, 30)
    assert eventually(lambda: health(product).body["status"] == "ok", 30), health(product)
    states = json.loads(product.command("cluster", "status", "--json"))["actors"]
    assert states["account-shard-0"]["shards"] == 1024 and states["account-shard-0"]["epoch"] > 0
    assert all(state["process"] for state in states.values()), states


def test_racers_are_added_and_removed_while_customers_send(product: Product) -> None:
    """Design, "Owners, for every kind of actor": each send has one outcome and one charge, whichever racer has it."""
    assert isinstance(product, StaffedProduct)
    senders, ended = [Sender(product) for _ in range(3)], threading.Event()

    def send(sender: Sender) -> list[Answer]:
        answers = []
        while not ended.is_set():
            answers.append(sender.race(sender.payment(2_000_000), **_FUNDED))
        return answers

    for sender in senders:
        sender.customer.grant(_CREDITS)
    with ThreadPoolExecutor(len(senders)) as threads:
        sending = [threads.submit(send, sender) for sender in senders]
        try:
            for count in (3, 1):
                told = product.scale("racers", count)
                assert sum(told["slices"].values()) == 256, told
        finally:
            ended.set()
    for sender, answers in zip(senders, (each.result() for each in sending), strict=True):
        assert all(answer.body["result"]["confirmed"] for answer in answers), [answer.body for answer in answers]
        assert sender.debits() == [50] * len(answers)
        assert answers
    assert eventually(lambda: len(processes_of(product, "ray::SendRacer")) == 1, 30)


def test_a_node_is_added_weighted_drained_and_removed_while_customers_call(product: Product) -> None:
    """Upstream, "Nodes that change while the service runs": no call fails, and the calls are shared by weight."""
    assert isinstance(product, StaffedProduct)
    customer = Customer(product)
    customer.grant(_CREDITS)
    customer.limits(100_000, 64)
    seen = asyncio.run(_nodes_changed_meanwhile(customer, product))
    assert set(seen.kinds) == {"200"} and seen.answered > 100, seen
    assert eventually(partial(_has, customer, _CREDITS - seen.answered), 30), (seen, customer.balance)
    assert eventually(lambda: health(product).body["status"] == "ok", 30), health(product)


async def _nodes_changed_meanwhile(customer: Customer, product: StaffedProduct) -> Seen:
    stop = asyncio.Event()
    calling = asyncio.create_task(hammer(customer, 4, stop))
    with SecondNode(product.ready["node_url"]) as second:
        await asyncio.to_thread(_change_nodes, product, second)
        stop.set()
        return await calling


def _change_nodes(product: StaffedProduct, second: SecondNode) -> None:
    def nodes(*words: str) -> dict[str, dict[str, Any]]:
        told = json.loads(product.command("nodes", *words, "--json"))
        assert told["taken_over"] or "--no-wait" in words, told["processes"]
        return {node["id"]: node for node in told["nodes"]}

    added = nodes("add", "second", second.url, "--ws-url", second.ws_url, "--weight", "3")
    assert added["second"]["state"] == "in_use" and added["second"]["url"] == second.url
    assert (added["node-1"]["share_wanted_percent"], added["second"]["share_wanted_percent"]) == (25, 75)
    serving = nodes("list")["second"]  # Shares are of the last ten seconds, in some of which it was not there yet.
    assert serving["share_percent"] > 5 and second.requests > 50, serving
    drained = nodes("drain", "second")["second"]
    assert (drained["state"], drained["in_flight"]) == ("drained", 0)
    nodes("remove", "second", "--no-wait")
    assert eventually(lambda: second.connections == 0, 20), second.connections
