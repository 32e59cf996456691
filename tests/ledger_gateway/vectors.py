"""Writes clients/vectors.json, by which every client in another language is tested:
`python -m tests.ledger_gateway.vectors`.

children: keys made from a key, byte for byte. signatures: the headers of signed requests.
"""

import json
from pathlib import Path
from typing import Any

from ledger_gateway.credentials import Wallet
from ledger_gateway.keys import narrow

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


def vectors() -> dict[str, Any]:
    wallet = {"secret": list(Wallet(bytes(range(32))).secret_bytes), "pubkey": Wallet(bytes(range(32))).pubkey}
    return {"children": _children(), "wallet": wallet, "signatures": _signatures()}


def text() -> str:
    return json.dumps(vectors(), indent=1) + "\n"


if __name__ == "__main__":
    PLACE.write_text(text(), encoding="utf-8")
