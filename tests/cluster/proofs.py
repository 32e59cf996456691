"""Receipts of a whole account, checked by the script of README.md with the published keys alone.

Rule: decisions, "Signed roots".
"""

import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.product import Product
from tests.customers import Customer, request
from tests.ledger_gateway.test_receipts import the_script

_SEALED_SECONDS = 60.0
_DEBIT = 2

Read = Callable[[str], Any]  # From a path to the body that the account is shown there.


def read_by_key(customer: Customer) -> Read:
    return lambda path: request(customer.product.http_url + path, customer.key_headers).body


def assert_the_script_proves(product: Product, read: Read, *charged: str) -> None:
    """Every entry has a receipt that holds, those of these methods among them. charged: beginnings of their names."""
    if shutil.which("node") is None:
        return  # tests/ledger_gateway/test_receipts.py says so.
    deadline = time.monotonic() + _SEALED_SECONDS
    while not _has_all(found := _every_receipt(read), charged):
        assert time.monotonic() < deadline, (charged, found)
        time.sleep(0.5)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "verify.mjs").write_text(the_script())
        (folder / "receipts.json").write_text(json.dumps({"receipts": found}))
        keys = request(f"{product.http_url}/.well-known/ledger-keys.json", {}).body
        (folder / "keys.json").write_text(json.dumps(keys))
        command = ["node", *(str(folder / part) for part in ("verify.mjs", "receipts.json", "keys.json"))]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and done.stdout.count("holds") == len(found), done.stdout + done.stderr


def _every_receipt(read: Read) -> list[dict[str, Any]] | None:
    """None: an entry is in no statement yet."""
    found: list[dict[str, Any]] = []
    path = "/account/receipts?limit=100"
    while path:
        body = read(path)
        if body["pending"]:
            return None
        found += body["receipts"]
        path = body["next_cursor"] and f"/account/receipts?limit=100&cursor={body['next_cursor']}"
    return found


def _has_all(found: list[dict[str, Any]] | None, charged: tuple[str, ...]) -> bool:
    if found is None:
        return False
    names = {one["entry"]["method"] for one in found if one["entry"]["type"] == _DEBIT}
    return all(any(name.startswith(begins) for name in names) for begins in charged)
