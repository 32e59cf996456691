"""Writes clients/vectors.json, by which every client in another language is tested:
`python -m tests.ledger_gateway.vectors`.

children: keys made from a key, byte for byte. signatures: the headers of signed requests. errors: the class of each
constant and status. waits: what follows an error. webhook: a delivery that is the gateway's own.
"""

import base64
import hashlib
import hmac
import itertools
import json
from pathlib import Path
from typing import Any

from actors.errors import Err
from ledger_gateway.credentials import Wallet
from ledger_gateway.errors import class_of
from ledger_gateway.keys import narrow
from ledger_gateway.retries import SENDS, WAIT_SECONDS, Repeatable, RetryPolicy

PLACE = Path(__file__).parents[2] / "clients" / "vectors.json"
_NAMED_KEY = "srpc_live_" + "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA"
_NOW = 1_764_344_781.9
_REQUESTS = (
    ("GET", "/account/info", ""),
    ("POST", "/", '{"jsonrpc":"2.0","id":0,"method":"getSlot","params":[]}'),
    ("POST", "/base/account/keys", '{"name":"Zürich \U0001f511"}'),
    ("DELETE", "/account/keys/7", ""),
)


def _children() -> list[dict[str, Any]]:
    every = {
        "credits_a_day": 5_000,
        "credits_total": 100_000,
        "requests_per_second": 10,
        "methods": ["READ_CHEAP", "getBlock"],
        "origins": ["https://app.example"],
        "addresses": ["203.0.113.0/24", "2001:db8::/48"],
        "expires_at": 1_900_000_000,
    }
    asked: list[tuple[str | None, str, dict[str, Any]]] = [
        (_NAMED_KEY, "child", {}),
        (_NAMED_KEY, "one task", every),
        (None, "of a child", {"credits_total": 1}),
        (None, 'Zürich \U0001f511 "\\/<é', {"methods": []}),
    ]
    made: list[dict[str, Any]] = []
    for number, (above, name, limits) in enumerate(asked, 1):
        parent, seed = above or made[-1]["key"], bytes([number]) * 32
        key = narrow(parent, name, seed=seed, **limits)
        made.append({"parent": parent, "name": name, "limits": limits, "seed": seed.hex(), "key": key})
    return made


def _signatures() -> list[dict[str, Any]]:
    wallet = Wallet(bytes(range(32)))
    return [
        {"method": method, "path": path, "body": body, "now": _NOW, "nonce": f"nonce-{number}"}
        | {"headers": wallet.headers(method, path, body.encode(), _NOW, f"nonce-{number}")}
        for number, (method, path, body) in enumerate(_REQUESTS)
    ]


def _errors() -> list[dict[str, Any]]:
    """Each of the gateway's table, and answers without a constant that is known."""
    told = [(err.name, err.row.http) for err in Err]
    told += [
        (constant, http) for http in (302, *range(400, 420), 429, 500, 502, 503, 504) for constant in ("", "LATER")
    ]
    return [{"constant": constant, "http": http, "class": class_of(constant, http).__name__} for constant, http in told]


def _waits() -> list[dict[str, Any]]:
    policy, found = RetryPolicy(), []
    told = [(name, 200) for name in WAIT_SECONDS]
    told += [("INSUFFICIENT_CREDITS", 402), ("AUTH_FAILED", 401), ("LATER", 503), ("", 503), ("", 500), ("LATER", 418)]
    for (constant, http), asked in itertools.product(told, (None, 7.5, 31.0)):
        error = class_of(constant, http)(constant, http, "x", retry_after=asked)
        waits = {
            again.value: [policy.wait_seconds(error, attempts, again, 0.5) for attempts in range(1, 6)]
            for again in Repeatable
        }
        found.append({"constant": constant, "http": http, "retry_after": asked, "waits": waits})
    return found


def _webhook() -> dict[str, Any]:
    secret, body, stamp, event_id = "whsec_c2VjcmV0", '{"lamports":18446744073709551615}', "1764344781", "evt_1_2"
    signed = f"{event_id}.{stamp}.{body}".encode()
    standard = base64.b64encode(hmac.digest(base64.b64decode("c2VjcmV0"), signed, hashlib.sha256)).decode()
    own = hmac.digest(secret.encode(), signed, hashlib.sha256).hex()
    headers = {"X-Webhook-Event-Id": event_id, "X-Webhook-Timestamp": stamp}
    return {
        "secret": secret,
        "body": body,
        "now": int(stamp),
        "headers": [
            headers | {"X-Webhook-Signature": f"sha256={own}"},
            headers | {"X-Webhook-Signature": "sha256=00", "X-Webhook-Signature-Previous": f"sha256=11, sha256={own}"},
            {"webhook-id": event_id, "webhook-timestamp": stamp, "webhook-signature": f"v1,xx v1,{standard}"},
        ],
    }


def vectors() -> dict[str, Any]:
    wallet = Wallet(bytes(range(32)))
    return {
        "children": _children(),
        "wallet": {"secret": wallet.secret_bytes.hex(), "pubkey": wallet.pubkey},
        "signatures": _signatures(),
        "sends": sorted(SENDS),
        "errors": _errors(),
        "waits": _waits(),
        "webhook": _webhook(),
    }


def text() -> str:
    """One line for each vector, so that a change of one is seen in a diff."""
    parts = []
    for name, value in vectors().items():
        if isinstance(value, list):
            lines = ",\n".join(f"  {json.dumps(each)}" for each in value)
            parts.append(f" {json.dumps(name)}: [\n{lines}\n ]")
        else:
            parts.append(f" {json.dumps(name)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    PLACE.write_text(text(), encoding="utf-8")
