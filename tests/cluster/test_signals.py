"""Signals through the whole product: over WebSocket, after kills of classifier and Redis, recent and server-sent."""

import json
import os
import signal
import urllib.request
from typing import Any

from websockets.sync.client import ClientConnection, connect

from bench.product import Product
from tests.cluster.test_faults import eventually
from tests.customers import Customer, request
from tests.signals import chain_calls

_WAIT_SECONDS = 90.0


class Subscriber:
    def __init__(self, customer: Customer, since: str | None = None) -> None:
        url = customer.product.http_url.replace("http", "ws", 1) + "/ws"
        self.socket: ClientConnection = connect(url, additional_headers={"X-Api-Key": customer.api_key})
        wanted = {"kinds": ["newPair"]} | ({} if since is None else {"since": since})
        call = {"jsonrpc": "2.0", "id": 1, "method": "subscribeSignal", "params": [wanted]}
        self.socket.send(json.dumps(call))
        self.id = json.loads(self.socket.recv(_WAIT_SECONDS))["result"]

    def next(self) -> dict[str, Any]:
        notification = json.loads(self.socket.recv(_WAIT_SECONDS))
        assert notification["method"] == "signalNotification" and notification["params"]["subscription"] == self.id
        found: dict[str, Any] = notification["params"]["result"]
        return found


def _kill(product: Product, name: str) -> None:
    (pid, *_) = product.running(name)
    os.kill(pid, signal.SIGKILL)


def _spent(customer: Customer) -> int:
    return -sum(entry["amount"] for entry in customer.entries() if entry["amount"] < 0)


def test_subscribers_miss_nothing_and_pay_once_whatever_is_killed(product: Product) -> None:
    """Decisions, "cursors and gaps": the classifier and Redis are killed; a cursor gives exactly the rest."""
    customer, chain = Customer(product), product.ready["node_url"]
    customer.grant(1_000)
    first = Subscriber(customer)
    mints = [chain_calls.launch(chain)["mint"]]
    event = first.next()
    assert (event["mint"], event["complete"], event["quote_asset"]) == (mints[0], False, "SOL")
    _kill(product, "SignalClassifierActor")
    mints.append(chain_calls.launch(chain)["mint"])
    second = first.next()
    assert second["mint"] == mints[1]
    _kill(product, "redis-server")
    mints.append(chain_calls.launch(chain)["mint"])
    first.socket.close()

    def recent() -> list[str]:
        answer = request(f"{product.http_url}/signals/recent?kinds=newPair", {})
        return [each["mint"] for each in answer.body["events"]]

    assert eventually(lambda: set(mints) <= set(recent()), _WAIT_SECONDS)
    again = Subscriber(customer, since=event["cursor"])
    assert [again.next()["mint"] for _ in range(2)] == mints[1:]
    again.socket.close()
    # Two connections, and each of three events at most once; what a lost record may have covered is free.
    assert eventually(lambda: 5 + 5 + 2 <= _spent(customer) <= 5 + 5 + 3, _WAIT_SECONDS), customer.entries()
    spent = _spent(customer)

    headers = {"X-Api-Key": customer.api_key}
    stream = urllib.request.Request(
        f"{product.http_url}/signals/stream?kinds=newPair&since={event['cursor']}", headers=headers
    )
    with urllib.request.urlopen(stream, timeout=_WAIT_SECONDS) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        seen: list[str] = []
        while len(seen) < 2:
            line = answer.readline().decode()
            if line.startswith("data: "):
                seen.append(json.loads(line[6:])["mint"])
    assert seen == mints[1:]
    assert eventually(lambda: _spent(customer) in (spent + 5, 5 + 5 + 3 + 5), _WAIT_SECONDS), customer.entries()
