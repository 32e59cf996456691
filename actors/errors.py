"""The one error table: every refusal that this service itself makes.

Implements: interface, "Proxy error codes" and "HTTP statuses and bodies".
Pure. Upstream errors are not here: they pass through untouched.
"""

from dataclasses import dataclass, field
from enum import Enum, unique

import orjson


@dataclass(frozen=True, slots=True)
class ErrorRow:
    http: int
    code: int | None  # JSON-RPC code; None where the interface gives none: the body is then a plain HTTP error.
    message: str
    retry_seconds: int | None = None  # None: a retry gets the same refusal.
    hint: str = ""  # Advice for the caller, in data.hint, because the interface fixes some messages.


@unique  # Without it, two names with equal rows would silently become one member.
class Err(Enum):
    INSUFFICIENT_CREDITS = ErrorRow(402, -32010, "insufficient credits", hint="deposit USDC, then call again")
    PAYMENT_REQUIRED = ErrorRow(
        402, -32002, "payment required", hint="deposit USDC from the wallet that will sign your calls, then call again"
    )
    RATE_LIMITED = ErrorRow(429, -32005, "rate limit exceeded", retry_seconds=1)
    CONCURRENCY_LIMITED = ErrorRow(429, -32005, "concurrency limit exceeded", retry_seconds=1)
    BACKEND_UNAVAILABLE = ErrorRow(502, -32003, "backend unavailable", retry_seconds=2)
    SERVICE_TEMPORARILY_UNAVAILABLE = ErrorRow(503, -32003, "service temporarily unavailable", retry_seconds=5)
    TIMEOUT = ErrorRow(504, -32007, "method timeout exceeded", retry_seconds=1)
    METHOD_NOT_ALLOWED = ErrorRow(403, -32001, "method not allowed")
    SERVICE_PROFILE_DISABLED = ErrorRow(200, -32004, "method is disabled in this service profile")
    NONCE_REUSED = ErrorRow(403, None, "nonce already used", hint="sign again with a fresh X-Nonce")
    # For requests with an Idempotency-Key (decisions).
    IDEMPOTENCY_KEY_REUSED = ErrorRow(
        409, None, "this Idempotency-Key came with another request", hint="use a fresh key for each request"
    )
    IDEMPOTENCY_KEY_IN_USE = ErrorRow(
        409,
        None,
        "the request with this Idempotency-Key is still running",
        retry_seconds=1,
        hint="ask again with the same key and body for its answer",
    )
    # For requests with X-Max-Credits. HTTP 412: a condition set by the client does not hold.
    MAX_CREDITS_EXCEEDED = ErrorRow(412, -32011, "the request can cost more than its X-Max-Credits")
    # For named keys. HTTP 403, not 402: a payment would not raise the budget.
    KEY_BUDGET_EXCEEDED = ErrorRow(
        403,
        -32012,
        "the budget of this API key is used up",
        hint="a budget of the day begins anew at 00:00 UTC; the account's wallet can change a key's budgets",
    )
    # For MCP calls that need a person's confirmation.
    CONFIRMATION_DECLINED = ErrorRow(
        200, -32013, "the call was not confirmed", hint="do not make it again unless your user asks for it"
    )
    # For the hourly limit. Neither a payment nor a retry helps until the hour ends.
    HOURLY_LIMIT_EXCEEDED = ErrorRow(
        403,
        -32014,
        "the account has spent its credits of this hour",
        hint="a new hour begins at each full hour of UTC; GET /account/hourly-limit shows the limit, and the account's "
        "wallet can raise or lift it",
    )
    AUTH_FAILED = ErrorRow(401, None, "authentication failed")
    INVALID_REQUEST = ErrorRow(400, None, "invalid request")
    ACCOUNT_NOT_FOUND = ErrorRow(404, None, "account not found")
    # For POST /account/confirm-deposit; the interface gives no constants.
    DEPOSIT_NOT_FOUND = ErrorRow(404, None, "no such transaction on the chain yet", retry_seconds=5)
    DEPOSIT_NOT_FINAL = ErrorRow(404, None, "the transaction is not final yet", retry_seconds=5)
    NOT_FOUND = ErrorRow(404, None, "not found", hint="GET /capabilities lists what this service offers")
    # For the ledger, receipts and bills of a month that was exported and detached (decisions).
    MONTH_DETACHED = ErrorRow(410, None, "this month is not kept here any more")
    WRONG_HTTP_METHOD = ErrorRow(405, None, "this path does not answer to that HTTP method")
    UNSUPPORTED_MEDIA_TYPE = ErrorRow(415, None, "this service takes bodies of JSON")
    METHOD_NOT_FOUND = ErrorRow(200, -32601, "method not found")
    INVALID_PARAMS = ErrorRow(200, -32602, "invalid params")
    # For the MCP endpoint: codes of that protocol (2026-07-28, basic, "Error Codes").
    MCP_HEADER_MISMATCH = ErrorRow(400, -32020, "the headers and the body of the message differ")
    MCP_VERSION_UNSUPPORTED = ErrorRow(
        400, -32022, "this version of the protocol is not served", hint="ask server/discover for those that are"
    )
    MCP_CAPABILITY_MISSING = ErrorRow(
        400, -32021, "the client has not declared a capability that this needs", hint="declare what data names"
    )
    # For subscriptions on a socket. The interface gives the code and the message, which ends with both figures.
    SUBSCRIPTION_LIMIT = ErrorRow(
        200, -32000, "Subscription limit reached", hint="unsubscribe, or subscribe on another connection"
    )
    # Of a preflight that this service runs, in the form of a node's own: the message goes on with the error, and the
    # data has the simulation's fields.
    SIMULATION_FAILED = ErrorRow(200, -32002, "Transaction simulation failed")
    INTERNAL_ERROR = ErrorRow(200, -32603, "internal error", retry_seconds=1)

    @property
    def row(self) -> ErrorRow:
        return self.value


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refusal that a client caused. It is a value and no exception, because it travels between processes.

    detail: one sentence for the client, never a secret, never an exception's text.
    hint: replaces the table's hint, where the interface fixes the message. retry_seconds: in place of the table's.
    credits: those that the call needs and those that the account has, where both are known.
    """

    err: Err
    detail: str = ""
    hint: str = ""
    retry_seconds: int | None = field(default=None, kw_only=True)
    credits: tuple[int, int] | None = field(default=None, kw_only=True)

    @property
    def message(self) -> str:
        """Return the table's message, followed by the detail where there is one."""
        return f"{self.err.row.message}: {self.detail}" if self.detail else self.err.row.message


def limit_reached(limit: int, hint: str = "") -> bytes:
    """Return the JSON-RPC error object of a subscription beyond a limit. hint: in place of the table's."""
    row = Err.SUBSCRIPTION_LIMIT.row
    data = {"source": "gateway", "constant": Err.SUBSCRIPTION_LIMIT.name, "hint": hint or row.hint}
    return orjson.dumps({"code": row.code, "message": f"{row.message} ({limit}/{limit})", "data": data})
