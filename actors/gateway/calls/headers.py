"""Response headers: the account's figures, rate limits in their two forms, CORS, and the headers of errors.

Implements: interface, "Limits" (headers); decisions, "rate limit shape"; design of the 402 (`no-store`).
Pure, and on the path of every call.

A request's own X-Request-Id is neither echoed nor logged: ids are made here, so none can be forged into a log.
"""

import functools
from collections.abc import Sequence

from actors.calls import Figures, SettleRequest
from actors.events import LOW_BALANCE_CREDITS
from actors.http_server import responses
from actors.times import iso_seconds

Header = tuple[bytes, bytes]
HeaderList = responses.HeaderList

RECEIPTS_MAX = 100  # Operations in one header; clients do not accept a longer header.

_LOW = (b"x-credits-low", b"true")
FREE = (b"x-credits-cost", b"0")
_CORS_ORIGIN = (b"access-control-allow-origin", b"*")
_EXPOSED = (
    b"access-control-expose-headers",
    b"PAYMENT-REQUIRED, PAYMENT-RESPONSE, X-PAYMENT-RESPONSE, X-Credits-Remaining, X-Credits-Low, X-Credits-Cost, "
    b"X-Receipt, X-Ratelimit-Limit, X-Ratelimit-Remaining, X-Ratelimit-Reset, RateLimit, RateLimit-Policy, "
    b"X-Request-Id, X-Node, X-Cache, Retry-After, Deprecation, Idempotent-Replayed, X-Priority-Fee-Urgency, "
    b"X-Next-Cursor, X-Ledger-Kept-From, Allow, ETag, Warning, Content-Disposition",
)
CORS: HeaderList = [_CORS_ORIGIN, _EXPOSED]
# Credentials travel in headers of their own, never in cookies, so any origin may call. x402 clients send
# Access-Control-Expose-Headers as a request header, so it must be allowed as one.
PREFLIGHT: HeaderList = [
    (b"access-control-allow-methods", b"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"),
    (
        b"access-control-allow-headers",
        b"Content-Type, Accept, Authorization, X-Api-Key, X-Pubkey, X-Signature, X-Timestamp, X-Nonce, X-Request-Id, "
        b"MCP-Protocol-Version, Mcp-Session-Id, Mcp-Method, Mcp-Name, Idempotency-Key, X-Max-Credits, If-None-Match, "
        b"Last-Event-ID, Traceparent, "
        b"PAYMENT-SIGNATURE, X-PAYMENT, SIGN-IN-WITH-X, Access-Control-Expose-Headers, Solana-Client",
    ),
    (b"access-control-max-age", b"86400"),
]
# Keys in URLs end up in logs and referrers that are not ours. The header forms are RFC 9745 and RFC 7234.
DEPRECATED_URL_KEY: HeaderList = [
    (b"deprecation", b"@1767225600"),
    (b"warning", b'299 - "an API key in the URL can be logged on the way; send it as X-Api-Key"'),
]
REPEATED = (b"idempotent-replayed", b"true")  # The answer was stored by an earlier request with the same key.
NO_STORE = (b"cache-control", b"no-store")
VARY_ENCODING = (b"vary", b"accept-encoding")
VARY_ACCEPT = (b"vary", b"accept")  # The form of the answer depends on the client's Accept header.
CLOSE = responses.CLOSE


def kept_from(at_ms: int) -> HeaderList:
    """Tell since when the ledger has entries, if months were detached. at_ms: 0: none was."""
    return [(b"x-ledger-kept-from", iso_seconds(at_ms).encode())] if at_ms else []


def add_figures(headers: HeaderList, figures: Figures, credits_remaining: int | None, now: int) -> None:
    """Add the account's credits and its rate limit. now: Unix seconds.

    credits_remaining: newer than that of the figures where the call has ended since; None: not known, so only the
    rate is told.
    """
    reset, remaining = figures.rate_reset, figures.rate_remaining
    limit, policy = _of_limit(figures.rate_limit)
    left = reset - now
    if credits_remaining is not None:
        headers.append((b"x-credits-remaining", b"%d" % credits_remaining))
        if credits_remaining < LOW_BALANCE_CREDITS:
            headers.append(_LOW)
    headers += (
        limit,
        (b"x-ratelimit-remaining", b"%d" % remaining),
        (b"x-ratelimit-reset", b"%d" % reset),
        policy,
        (b"ratelimit", b'"account";r=%d;t=%d' % (remaining, left if left > 0 else 0)),
    )


def add_cost(
    headers: HeaderList, charges: Sequence[SettleRequest], posted: int, operations: Sequence[bytes] = ()
) -> None:
    """Add the credits of an answer that is paid: those of its charges, and those that others have posted for it. And
    the operations of its charges, which name their entries in the account's ledger for ever. operations: of all of
    them, where others have posted some."""
    if len(charges) == 1 and not posted and not operations:  # Nearly always.
        (charge,) = charges
        headers += (_of_cost(charge.charged), (b"x-receipt", charge.operation.hex().encode()))
        return
    cost = posted + sum(charge.charged for charge in charges)
    headers.append(_of_cost(cost))
    if charges or operations:
        told = operations or [charge.operation for charge in charges]
        names = ",".join([operation.hex() for operation in told[:RECEIPTS_MAX]])
        headers.append((b"x-receipt", names.encode()))


@functools.lru_cache(maxsize=256)  # There are few different prices.
def _of_cost(cost: int) -> tuple[bytes, bytes]:
    return b"x-credits-cost", b"%d" % cost


@functools.lru_cache(maxsize=256)  # The operator sets few different limits.
def _of_limit(limit: int) -> tuple[tuple[bytes, bytes], tuple[bytes, bytes]]:
    return (b"x-ratelimit-limit", b"%d" % limit), (b"ratelimit-policy", b'"account";q=%d;w=1' % limit)


def retry_after(seconds: int) -> tuple[bytes, bytes]:
    return (b"retry-after", b"%d" % max(1, seconds))
