"""Bodies of call requests, and their options, which travel as headers."""

import json
import secrets
from typing import Any, Literal

Call = tuple[Any, ...]  # The method, then its parameters.
Consistency = Literal["any", "monotonic"]


def request_of(number: int, call: Call) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": call[0], "params": list(call[1:])}


def encoded(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def call_headers(
    idempotency_key: str | None, max_credits: int | None, consistency: Consistency | None
) -> dict[str, str]:
    wanted = {
        "Idempotency-Key": idempotency_key,
        "X-Max-Credits": None if max_credits is None else str(max_credits),
        "X-Consistency": consistency,
    }
    return {name: value for name, value in wanted.items() if value is not None}


def new_idempotency_key() -> str:
    return secrets.token_urlsafe(24)
