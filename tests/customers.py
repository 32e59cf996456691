"""A customer of the service, from outside: signs by the words of the interface, shares no code with the product."""

import hashlib
import itertools
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from typing import Any

import base58
from nacl.signing import SigningKey

from bench.product import Product

_nonces = itertools.count()
_TIMEOUT_SECONDS = 90  # Longer than the front itself waits for a replica.


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: "Message[str, str]"
    body: Any


class Wallet:
    """An Ed25519 key pair, made fresh or from the base58 text of seed and public key."""

    def __init__(self, secret_key: str | None = None) -> None:
        self.key = SigningKey.generate() if secret_key is None else SigningKey(base58.b58decode(secret_key)[:32])

    @property
    def pubkey(self) -> str:
        return str(base58.b58encode(self.key.verify_key.encode()), "ascii")

    def headers(self, method: str, path: str, body: bytes, nonce: str | None = None) -> dict[str, str]:
        """The four headers that sign one request."""
        nonce = nonce or f"n{next(_nonces)}-{os.urandom(6).hex()}"
        timestamp = int(time.time())
        digest = hashlib.sha256(body).hexdigest() if method != "GET" else ""
        message = f"ledger-svc:v2:{method}:{path}:{timestamp}:{nonce}:{digest}"
        signature = self.key.sign(message.encode()).signature
        return {
            "X-Pubkey": self.pubkey,
            "X-Signature": base58.b58encode(signature).decode(),
            "X-Timestamp": str(timestamp),
            "X-Nonce": nonce,
            "Content-Type": "application/json",
        }


def request(
    url: str,
    headers: Mapping[str, str],
    body: bytes | None = None,
    timeout_seconds: float = _TIMEOUT_SECONDS,
    *,
    method: str | None = None,
) -> Answer:
    """One HTTP request; any status is an answer. method None: POST where there is a body, else GET."""
    content_type = {} if body is None else {"Content-Type": "application/json"}  # Its own default is of a form.
    call = urllib.request.Request(url, data=body, headers=content_type | dict(headers), method=method)
    try:
        with urllib.request.urlopen(call, timeout=timeout_seconds) as answer:
            return Answer(answer.status, answer.headers, json.loads(answer.read()))
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, error.headers, json.loads(error.read()))


def rpc_body(method: str, *params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}).encode()


class Customer:
    """A fresh wallet with an API key on a running product."""

    def __init__(self, product: Product) -> None:
        self.product, self.wallet = product, Wallet()
        self.api_key = self.new_api_key()

    @property
    def pubkey(self) -> str:
        return self.wallet.pubkey

    @property
    def key_headers(self) -> dict[str, str]:
        return {"X-Api-Key": self.api_key, "Content-Type": "application/json"}

    def new_api_key(self) -> str:
        """POST /account/api-key: the key before it stops working."""
        path, body = "/account/api-key", b"{}"
        answer = request(self.product.http_url + path, self.wallet.headers("POST", path, body), body)
        assert answer.status == 200, answer
        return str(answer.body["api_key"])

    def grant(self, credits: int) -> None:
        self.product.operator("grant", self.pubkey, str(credits), "--reason", "test")

    def limits(self, requests_per_second: int, concurrency: int) -> None:
        rate = ("--requests-per-second", str(requests_per_second))
        self.product.operator("limits", self.pubkey, *rate, "--concurrency", str(concurrency))

    def call(self, method: str, *params: Any) -> Answer:
        return request(f"{self.product.http_url}/", self.key_headers, rpc_body(method, *params))

    def info(self) -> dict[str, Any]:
        answer = request(f"{self.product.http_url}/account/info", self.key_headers)
        assert answer.status == 200, answer
        found: dict[str, Any] = answer.body
        return found

    @property
    def balance(self) -> int:
        return int(self.info()["balance"])

    def entries(self) -> list[dict[str, Any]]:
        """The whole ledger of the account, newest first."""
        found: list[dict[str, Any]] = []
        while True:
            url = f"{self.product.http_url}/account/ledger?offset={len(found)}&limit=500"
            answer = request(url, self.key_headers)
            assert answer.status == 200, answer
            found += answer.body["entries"]
            if len(answer.body["entries"]) < 500:
                return found
