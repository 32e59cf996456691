"""Calls to a devnode process, for tests and notebooks of signals."""

import json
import urllib.request
from typing import Any


def post(url: str, body: dict[str, Any]) -> Any:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read())


def launch(url: str, **wanted: Any) -> dict[str, Any]:
    """Launch a sample coin with trades."""
    found: dict[str, Any] = post(f"{url}/admin/launch", wanted)
    assert found["ok"], found
    return found


def rpc(url: str, method: str, *params: Any) -> Any:
    return post(url, {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)})["result"]
