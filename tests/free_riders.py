"""Accounts that pay nothing and take what the whole service shares: watched wallets, and deliveries of webhooks.

Used by tests/cluster/test_starvation.py and by `python -m bench starvation`. Nothing is judged here.
"""

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import base58
import httpx
from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from bench.product import Product
from tests.customers import Customer

RIDERS: Final = 10
_WALLETS_OF_ONE: Final = 100  # Of one webhook, and of one subscription.
_WEBHOOKS_OF_RIDER: Final = 5  # 500 wallets, as many as an account may name.
_SUBSCRIPTIONS_OF_RIDER: Final = 10  # 1,000 wallets, as many as an account may watch.
_RIDER_CREDITS: Final = 70  # What opens a socket and pays for ten subscriptions.
TAKEN: Final = "taken"
_SLOW_SECONDS: Final = 0.2
_ANSWER_SECONDS: Final = 30


def some_wallets() -> list[str]:
    return [base58.b58encode(os.urandom(32)).decode() for _ in range(_WALLETS_OF_ONE)]


class WebhookPlaces:
    """Webhooks for signals of wallets, and the statuses that asking for them got."""

    def __init__(self, product: Product) -> None:
        self._product = product
        self._made: list[tuple[Customer, str]] = []

    def ask(self, customer: Customer) -> int:
        body = {"url": "http://127.0.0.1:9/nobody", "filter_type": "signal", "wallets": some_wallets()}
        url = f"{self._product.http_url}/webhooks"
        answer = httpx.post(url, headers=customer.key_headers, json=body, timeout=_ANSWER_SECONDS)
        if answer.status_code == httpx.codes.CREATED:
            self._made.append((customer, answer.json()["id"]))
        return answer.status_code

    def give_back(self) -> None:
        for customer, found in self._made:
            httpx.delete(
                f"{self._product.http_url}/webhooks/{found}", headers=customer.key_headers, timeout=_ANSWER_SECONDS
            )


def fill_webhook_places(product: Product) -> tuple[Counter[int], int]:
    """Let accounts without a credit name as many wallets as they may; then one that has credits asks too.

    Return the statuses that they got, and the status that it got. All webhooks are deleted again.
    """
    places, newcomer = WebhookPlaces(product), Customer(product)
    newcomer.grant(10_000)
    try:
        riders = [Customer(product) for _ in range(RIDERS)]
        got = Counter(places.ask(rider) for rider in riders for _ in range(_WEBHOOKS_OF_RIDER))
        return got, places.ask(newcomer)
    finally:
        places.give_back()


def subscribe(socket: ClientConnection) -> str:
    """Ask for the signals of 100 wallets; return "taken", or why not."""
    call = {"jsonrpc": "2.0", "id": 1, "method": "subscribeSignal", "params": [{"wallets": some_wallets()}]}
    socket.send(json.dumps(call))
    while True:
        said: dict[str, Any] = json.loads(socket.recv(_ANSWER_SECONDS))
        if said.get("id") == 1:
            return TAKEN if "result" in said else str(said["error"]["message"])


def fill_signal_places(product: Product) -> tuple[Counter[str], str]:
    """Let accounts with a few credits watch as many wallets as they may; then one that has many asks too.

    Return what became of their subscriptions, and of the last one.
    """
    riders, newcomer = [Customer(product) for _ in range(RIDERS)], Customer(product)
    newcomer.grant(10_000)
    got: Counter[str] = Counter()
    with ExitStack() as sockets:
        for rider in riders:
            rider.grant(_RIDER_CREDITS)
            try:
                socket = sockets.enter_context(_open(product, rider))
                for _ in range(_SUBSCRIPTIONS_OF_RIDER):
                    got[subscribe(socket)] += 1
            except (OSError, WebSocketException) as error:
                got[type(error).__name__] += 1
        return got, subscribe(sockets.enter_context(_open(product, newcomer)))


def _open(product: Product, customer: Customer) -> ClientConnection:
    url = f"ws://127.0.0.1:{product.ports.http}/ws"
    return connect(url, additional_headers={"X-Api-Key": customer.api_key}, open_timeout=_ANSWER_SECONDS)


class SlowReceiver:
    """Takes deliveries on this machine, each after a while; `arrived` counts them by the account's public key."""

    def __init__(self) -> None:
        self.arrived: Counter[str] = Counter()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                receiver.arrived[self.path.strip("/")] += 1
                time.sleep(_SLOW_SECONDS)
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def slow_receiver() -> Iterator[SlowReceiver]:
    found = SlowReceiver()
    try:
        yield found
    finally:
        found.close()


def pay(product: Product, wallet: str) -> None:
    """Make a transfer of the chain to this wallet."""
    body = {"pubkey": wallet, "lamports": 1_000_000, "usdc_base_units": 0}
    httpx.post(f"{product.ready['node_url']}/admin/fund", json=body, timeout=_ANSWER_SECONDS).raise_for_status()


def deliveries_without_credits(product: Product, payments: int, seconds: float) -> tuple[int, int]:
    """Let accounts without a credit, and one with credits, be told of the same wallet's transfers, by a slow receiver.

    Return how many deliveries arrived for those without a credit, and how many for the other.
    """
    (wallet,) = some_wallets()[:1]
    riders: Sequence[Customer] = [Customer(product) for _ in range(RIDERS)]
    payer = Customer(product)
    payer.grant(10_000)
    made: list[tuple[Customer, str]] = []
    with slow_receiver() as receiver:
        try:
            for customer in (payer, *riders):
                body = {"url": f"{receiver.url}/{customer.pubkey}", "filter_type": "account", "filter_value": wallet}
                url = f"{product.http_url}/webhooks"
                answer = httpx.post(url, headers=customer.key_headers, json=body, timeout=_ANSWER_SECONDS)
                if answer.status_code == httpx.codes.CREATED:
                    made.append((customer, answer.json()["id"]))
            _pay_until_told(product, receiver, payer, wallet, payments, seconds)
            return receiver.arrived.total() - receiver.arrived[payer.pubkey], receiver.arrived[payer.pubkey]
        finally:
            for customer, found in made:
                url = f"{product.http_url}/webhooks/{found}"
                httpx.delete(url, headers=customer.key_headers, timeout=_ANSWER_SECONDS)


def _pay_until_told(
    product: Product, receiver: SlowReceiver, payer: Customer, wallet: str, payments: int, seconds: float
) -> None:
    """Pay so often after the payer was told for the first time, and wait until it was told of all."""
    deadline = time.monotonic() + seconds
    while not receiver.arrived[payer.pubkey] and time.monotonic() < deadline:
        pay(product, wallet)  # Nothing tells when a new webhook is watched.
        time.sleep(0.2)
    told = receiver.arrived[payer.pubkey]
    for _ in range(payments):
        pay(product, wallet)
    while receiver.arrived[payer.pubkey] < told + payments and time.monotonic() < deadline:
        time.sleep(0.1)
