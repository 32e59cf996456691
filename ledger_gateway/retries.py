"""Whether a failed request is sent again, and after how long.

Implements: README.md of the project, "Errors" (what passes by itself); interface, "Proxy error codes", column Retry.
Pure: the jitter is an argument. Not here: waiting and sending (client.py).
"""

from dataclasses import dataclass
from enum import Enum, unique
from types import MappingProxyType

from ledger_gateway.errors import GatewayError, LedgerGatewayError, Unreachable

# Temporary errors, with the least wait in seconds. Retrying does not change the others.
WAIT_SECONDS = MappingProxyType(
    {
        "RATE_LIMITED": 1.0,
        "CONCURRENCY_LIMITED": 1.0,
        "BACKEND_UNAVAILABLE": 2.0,
        "UPSTREAM_ERROR": 2.0,
        "SERVICE_TEMPORARILY_UNAVAILABLE": 5.0,
        "TIMEOUT": 1.0,
        "INTERNAL_ERROR": 1.0,
        "IDEMPOTENCY_KEY_IN_USE": 1.0,
        "DEPOSIT_NOT_FOUND": 5.0,
        "DEPOSIT_NOT_FINAL": 5.0,
    }
)
_BACK_OFF = 2.0  # Each further wait is twice as long.
_BUSY_SECONDS = 1.0  # For a 503 without a time.
_UNREACHABLE_SECONDS = 0.5
SENDS = frozenset(
    ("sendTransaction", "sendSmartTransaction", "sendAndConfirm", "sendBundle", "executeSnipe", "executeSell")
)


@unique
class Repeatable(Enum):
    """What happens when a request is carried out twice.

    HARMLESS: nothing, as it is free or has an Idempotency-Key. CHARGED: it costs twice. NEVER: it acts twice.
    """

    HARMLESS = "harmless"
    CHARGED = "charged"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """attempts_max: requests in all; 1 turns retries off. wait_seconds_max: of one wait; an error that asks for more is
    raised at once. jitter_part: by how much of itself a wait may grow, so that clients do not come back together."""

    attempts_max: int = 4
    wait_seconds_max: float = 30.0
    jitter_part: float = 0.5

    def wait_seconds(
        self, error: LedgerGatewayError, attempts: int, repeatable: Repeatable, jitter: float
    ) -> float | None:
        """Return how long to wait before the next attempt, or None to give up.

        attempts: made so far, from 1. jitter: 0 to 1, random.
        """
        least = _least_wait(error, repeatable)
        if least is None or attempts >= self.attempts_max:
            return None
        asked = error.retry_after or 0.0 if isinstance(error, GatewayError) else 0.0
        if asked > self.wait_seconds_max:
            return None
        growing = min(max(least, asked) * _BACK_OFF ** min(attempts - 1, 20), self.wait_seconds_max)
        return max(asked, growing) * (1 + self.jitter_part * jitter)


def _least_wait(error: LedgerGatewayError, repeatable: Repeatable) -> float | None:
    """Return the least wait in seconds, or None where the same request must not be sent again."""
    if repeatable is Repeatable.NEVER:
        return None
    if isinstance(error, Unreachable):
        may_again = not error.was_sent or repeatable is Repeatable.HARMLESS
        return _UNREACHABLE_SECONDS if may_again else None
    if not isinstance(error, GatewayError):
        return None
    if error.constant in WAIT_SECONDS:
        return WAIT_SECONDS[error.constant]
    # A constant of a later version: the gateway says when to ask again exactly where that can help.
    if error.retry_after is not None or (error.http == 503 and not error.constant):
        return _BUSY_SECONDS
    return None


def repeatable(method: str, idempotency_key: str | None) -> Repeatable:
    """Return what a second JSON-RPC call of this method would do."""
    if idempotency_key is not None:
        return Repeatable.HARMLESS
    return Repeatable.NEVER if method in SENDS else Repeatable.CHARGED
