"""Errors that calls of the client raise.

Implements: README.md of the project, "Errors". Pure.
Not here: deriving the error from an answer (answers.py), which errors are temporary (retries.py).
"""

from collections.abc import Mapping
from typing import Any


class LedgerGatewayError(Exception):
    """Any failure of a call. `next_step` says in one sentence what the caller can do."""

    next_step = ""


class Unreachable(LedgerGatewayError):
    """No answer came. was_sent: the request may have reached the gateway, so it may have been charged."""

    def __init__(self, reason: str, was_sent: bool) -> None:
        super().__init__(reason)
        self.was_sent = was_sent
        self.next_step = (
            "The request may have been carried out: look at the ledger before you send it again."
            if was_sent
            else "Check the URL, and that the gateway runs."
        )


class BadAnswer(LedgerGatewayError):
    """An answer that no gateway gives: no JSON, another shape, too large. http: its status."""

    next_step = "Check that the URL is the gateway's own; a proxy or another service may have answered."

    def __init__(self, reason: str, http: int) -> None:
        super().__init__(f"{reason} (HTTP {http})")
        self.http = http


class NodeError(LedgerGatewayError):
    """A JSON-RPC error of the Solana node, passed on untouched by the gateway.

    credits: the charge that the answer names; None where it names none, and in a batch, whose answer has only the sum.
    """

    def __init__(
        self, code: int, message: str, data: Any = None, request_id: str | None = None, credits: int | None = None
    ) -> None:
        super().__init__(f"{message} ({code})")
        self.code, self.message, self.data, self.request_id = code, message, data, request_id
        self.credits = credits
        charge = "" if not credits else f", and it is charged: {credits} {'credit' if credits == 1 else 'credits'}"
        self.next_step = f"This is the node's own answer{charge}; the same call gets the same answer."


class GatewayError(LedgerGatewayError):
    """A refusal by the gateway itself. Nothing was charged.

    constant: of the error table, such as RATE_LIMITED; "" where the answer names none. code: of JSON-RPC, or None.
    retry_after: seconds after which the gateway wants to be asked again, or None. request_id: to report.
    data: what the error carried.
    """

    next_step = "Look the error up at /docs of the gateway, or report its request id to the operator."

    def __init__(
        self,
        constant: str,
        http: int,
        message: str,
        *,
        code: int | None = None,
        retry_after: float | None = None,
        request_id: str | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(f"{constant or f'HTTP {http}'}: {message}")
        self.constant, self.http, self.message, self.code = constant, http, message, code
        self.retry_after, self.request_id, self.data = retry_after, request_id, data or {}

    @property
    def hint(self) -> str:
        """Return the gateway's advice, or an empty text."""
        found = self.data.get("hint")
        return found if isinstance(found, str) else ""


class PaymentNeeded(GatewayError):
    """HTTP 402: no credentials, no account, or no credits. `how_to_pay` is a sentence for people."""

    @property
    def how_to_pay(self) -> str:
        terms = {name: value for name, value in self.data.items() if isinstance(value, str)}
        if "deposit_address" not in terms:
            return "Send USDC to the deposit address that GET /account/info names, from this account's own wallet."
        network = terms.get("network_name") or terms.get(
            "network", "unknown"
        )  # Older gateways have no name for people.
        return (
            f"Send at least {terms.get('minimum_deposit_usdc', '0.01')} USDC (mint {terms.get('usdc_mint', 'unknown')},"
            f" network {network}) to {terms['deposit_address']}, from the wallet that is to own"
            " the credits; they appear within seconds after the transfer is final."
        )

    @property
    def next_step(self) -> str:  # type: ignore[override]
        if self.constant == "PAYMENT_REQUIRED":
            return f"Give a credential that has an account, or pay: {self.how_to_pay}"
        return self.how_to_pay


class LimitReached(GatewayError):
    """HTTP 429: too many requests in this second, or too many calls at once."""

    next_step = "Send fewer calls at once, or ask the operator for higher limits."


class Unavailable(GatewayError):
    """The gateway or its nodes cannot answer now: 502, 503, 504, internal errors."""

    next_step = "Ask again later; GET /health tells the state of the service."


class Denied(GatewayError):
    """401 and 403: a bad credential, a suspended account, a nonce that was used before."""

    next_step = "Check the API key or the wallet, and the clock of this machine; a new key ends the old one."


class BadRequest(GatewayError):
    """The request itself is wrong, or names what this gateway does not offer."""

    next_step = "Correct the request; GET /capabilities lists what the service offers."


class NotFound(GatewayError):
    """HTTP 404 and 410: no such account, path, webhook or transaction (yet), or a month that is not kept any more."""

    next_step = (
        "Check the name; an account exists after its first deposit, or its first API key. For a month that is not kept"
        " any more, ask the operator, who has its export."
    )


class KeyConflict(GatewayError):
    """HTTP 409: the Idempotency-Key belongs to another request, or its request is still running."""

    next_step = "Use a fresh key for each request; the same key and body later for the answer of the first one."


_BY_CONSTANT: dict[str, type[GatewayError]] = {
    **dict.fromkeys(("PAYMENT_REQUIRED", "INSUFFICIENT_CREDITS"), PaymentNeeded),
    **dict.fromkeys(("RATE_LIMITED", "CONCURRENCY_LIMITED", "SUBSCRIPTION_LIMIT"), LimitReached),
    **dict.fromkeys(("BACKEND_UNAVAILABLE", "UPSTREAM_ERROR", "SERVICE_TEMPORARILY_UNAVAILABLE"), Unavailable),
    **dict.fromkeys(("TIMEOUT", "INTERNAL_ERROR"), Unavailable),
    **dict.fromkeys(("AUTH_FAILED", "METHOD_NOT_ALLOWED", "NONCE_REUSED", "CONFIRMATION_DECLINED"), Denied),
    **dict.fromkeys(("INVALID_REQUEST", "INVALID_PARAMS", "METHOD_NOT_FOUND", "SERVICE_PROFILE_DISABLED"), BadRequest),
    **dict.fromkeys(("MAX_CREDITS_EXCEEDED", "SIMULATION_FAILED"), BadRequest),
    **dict.fromkeys(("ACCOUNT_NOT_FOUND", "NOT_FOUND", "DEPOSIT_NOT_FOUND", "DEPOSIT_NOT_FINAL"), NotFound),
    "MONTH_DETACHED": NotFound,
    **dict.fromkeys(("IDEMPOTENCY_KEY_REUSED", "IDEMPOTENCY_KEY_IN_USE"), KeyConflict),
}
_BY_STATUS: dict[int, type[GatewayError]] = {
    400: BadRequest,
    401: Denied,
    402: PaymentNeeded,
    403: Denied,
    404: NotFound,
    405: BadRequest,
    408: BadRequest,
    409: KeyConflict,
    410: NotFound,
    412: BadRequest,
    413: BadRequest,
    415: BadRequest,
    429: LimitReached,
}


def class_of(constant: str, http: int) -> type[GatewayError]:
    """Return the class of an error: by its constant, and by its status where the constant is not known here."""
    fallback = _BY_STATUS.get(http, Unavailable if http >= 500 else GatewayError)
    return _BY_CONSTANT.get(constant, fallback)
