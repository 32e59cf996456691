"""Signals through the whole product: whatever is killed, exactly once each, and paid once."""

import contextlib
import json
import os
import signal
import threading
import urllib.request
from typing import Any

from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from actors.signals.deliveries import LEASE_MS
from bench.product import Product
from tests.cluster.test_faults import assert_balances_follow_from_the_ledger, eventually, health
from tests.customers import Customer, request
from tests.signals import chain_calls

_WAIT_SECONDS = 90.0
_RETRY_SECONDS = 0.3
_CONNECT_CREDITS = 5


class Follower:
    """A client as the interface wants it: it keeps its newest cursor, and connects again with it when it is cut off."""

    def __init__(self, customer: Customer) -> None:
        self._url = customer.product.http_url.replace("http", "ws", 1) + "/ws"
        self._key = customer.api_key
        self.got: list[dict[str, Any]] = []
        self.subscriptions = 0
        self._is_over = threading.Event()
        self.is_open = threading.Event()
        self._thread = threading.Thread(target=self._follow)
        self._thread.start()

    @property
    def mints(self) -> list[str]:
        return [each["mint"] for each in self.got]

    def _follow(self) -> None:
        while not self._is_over.is_set():
            with contextlib.suppress(WebSocketException, OSError, TimeoutError, KeyError):
                self._once()
            self.is_open.clear()
            self._is_over.wait(_RETRY_SECONDS)

    def _once(self) -> None:
        since = {"since": self.got[-1]["cursor"]} if self.got else {}
        call = {"jsonrpc": "2.0", "id": 1, "method": "subscribeSignal", "params": [{"kinds": ["newPair"]} | since]}
        with connect(self._url, additional_headers={"X-Api-Key": self._key}) as socket:
            socket.send(json.dumps(call))
            assert json.loads(socket.recv(_WAIT_SECONDS))["result"].startswith("sig_sub_")
            self.subscriptions += 1
            self.is_open.set()
            while not self._is_over.is_set():
                with contextlib.suppress(TimeoutError):
                    self.got.append(json.loads(socket.recv(0.2))["params"]["result"])

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join(_WAIT_SECONDS)


def _kill_all(product: Product, name: str) -> None:
    for pid in product.running(name):
        os.kill(pid, signal.SIGKILL)


def _spent(customer: Customer) -> int:
    return -sum(entry["amount"] for entry in customer.entries() if entry["amount"] < 0)


def _recent(product: Product) -> list[str]:
    answer = request(f"{product.http_url}/signals/recent?kinds=newPair", {})
    return [each["mint"] for each in answer.body["events"]][::-1]


def _streamed(product: Product, customer: Customer, since: str, count: int) -> list[str]:
    """Read so many signals as server-sent events."""
    stream = urllib.request.Request(
        f"{product.http_url}/signals/stream?kinds=newPair&since={since}", headers={"X-Api-Key": customer.api_key}
    )
    found: list[str] = []
    with urllib.request.urlopen(stream, timeout=_WAIT_SECONDS) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        while len(found) < count:
            line = answer.readline().decode()
            if line.startswith("data: "):
                found.append(json.loads(line[6:])["mint"])
    return found


def test_subscribers_miss_nothing_and_pay_once_whatever_is_killed(product: Product) -> None:
    """Decisions, "cursors and gaps": kill -9 of the classifier, of the stream hub, of the replicas and of Redis.
    What was launched on the chain is what an uninterrupted reader has."""
    customer, chain = Customer(product), product.ready["node_url"]
    customer.grant(1_000)
    # In the first seconds of a log all is free, as records of before may be lost; and this may be a run of its own.
    assert eventually(lambda: health(product).body["uptime"] > 2 * LEASE_MS / 1_000, _WAIT_SECONDS)
    follower, mints = Follower(customer), list[str]()

    def launched() -> None:
        mints.append(chain_calls.launch(chain)["mint"])

    try:
        assert follower.is_open.wait(_WAIT_SECONDS)
        for act in (
            lambda: _kill_all(product, "SignalClassifierActor"),
            lambda: _kill_all(product, "StreamHubActor"),
            lambda: _kill_all(product, "ray::ServeReplica"),
            lambda: _kill_all(product, "redis-server"),
            lambda: None,
        ):
            launched()
            assert eventually(lambda: follower.mints == mints, _WAIT_SECONDS), (follower.mints, mints)
            act()
            launched()  # While it is away.
        assert eventually(lambda: follower.mints == mints, _WAIT_SECONDS), (follower.mints, mints)
    finally:
        follower.stop()
    # A replica that has just started reads the log behind its first answers.
    assert eventually(lambda: [mint for mint in _recent(product) if mint in mints] == mints, _WAIT_SECONDS)
    # Each subscription, and each event at most once; what a lost record may have covered is free.
    connects = _CONNECT_CREDITS * follower.subscriptions
    assert eventually(lambda: connects < _spent(customer) <= connects + len(mints), _WAIT_SECONDS), customer.entries()

    again = _streamed(product, customer, follower.got[0]["cursor"], len(mints) - 1)
    assert again == mints[1:]
    highest = connects + _CONNECT_CREDITS + len(mints)
    assert eventually(lambda: connects + _CONNECT_CREDITS < _spent(customer) <= highest, _WAIT_SECONDS)
    assert_balances_follow_from_the_ledger(product)
