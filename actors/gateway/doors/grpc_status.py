"""Refusals as gRPC statuses: a code, and a text that says what the user must do.

Implements: interface, "gRPC streaming" and "Proxy error codes", for a protocol whose clients show little besides the
text. Pure. Codes are numbers, as gRPC's own enumeration belongs to a library that acts.
"""

from collections.abc import Callable

from actors.errors import Err, Refusal

INVALID_ARGUMENT = 3
PERMISSION_DENIED, RESOURCE_EXHAUSTED, UNIMPLEMENTED, INTERNAL, UNAVAILABLE, UNAUTHENTICATED = 7, 8, 12, 13, 14, 16

_CODES = {
    Err.AUTH_FAILED: UNAUTHENTICATED,
    Err.NONCE_REUSED: UNAUTHENTICATED,
    Err.PAYMENT_REQUIRED: RESOURCE_EXHAUSTED,
    Err.INSUFFICIENT_CREDITS: RESOURCE_EXHAUSTED,
    Err.KEY_BUDGET_EXCEEDED: RESOURCE_EXHAUSTED,
    Err.HOURLY_LIMIT_EXCEEDED: RESOURCE_EXHAUSTED,
    Err.RATE_LIMITED: RESOURCE_EXHAUSTED,
    Err.CONCURRENCY_LIMITED: RESOURCE_EXHAUSTED,
    Err.METHOD_NOT_ALLOWED: PERMISSION_DENIED,
    Err.BACKEND_UNAVAILABLE: UNAVAILABLE,
    Err.SERVICE_TEMPORARILY_UNAVAILABLE: UNAVAILABLE,
}
_HOW_TO_SIGN_IN = "send an API key or a session token as metadata x-token"
_HINTS = {
    Err.AUTH_FAILED: f"the key or session is unknown, replaced, expired, frozen, or not for here; {_HOW_TO_SIGN_IN}",
    Err.METHOD_NOT_ALLOWED: "this account is suspended, or this API key may not call it",
    Err.KEY_BUDGET_EXCEEDED: Err.KEY_BUDGET_EXCEEDED.row.hint,
    Err.RATE_LIMITED: "try again after a second",
    Err.CONCURRENCY_LIMITED: "try again when calls of this account have ended",
}
_TO_PAY = frozenset((Err.PAYMENT_REQUIRED, Err.INSUFFICIENT_CREDITS))


def explain(refusal: Refusal, instructions: str) -> tuple[int, str]:
    """The status of a refusal of the account. instructions: how to deposit."""
    err = refusal.err
    parts = [refusal.message, instructions if err in _TO_PAY else refusal.hint or _HINTS.get(err, "") or err.row.hint]
    return _CODES.get(err, INTERNAL), "; ".join(part for part in parts if part)


def no_credentials(instructions: str) -> tuple[int, str]:
    """The status of a call without any credential, which HTTP answers with 402."""
    return UNAUTHENTICATED, f"No valid auth token: {_HOW_TO_SIGN_IN}. To get one: {instructions}"


Explain = Callable[[Refusal], tuple[int, str]]
