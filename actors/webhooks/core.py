"""Decides about one delivery after each attempt, and about its endpoint. Times are Unix milliseconds.

Implements: interface, "Webhook deliveries"; decisions, "webhook retries"; threat 27. Pure.
A job is one event for one webhook. It waits, is leased by a dispatcher, and ends as delivered, failed or expired.
"""

from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import IntEnum, unique

# Decisions, "webhook retries": before each attempt but the first.
DELAYS_MS = (5_000, 30_000, 120_000, 600_000, 3_600_000, 14_400_000, 43_200_000)
ATTEMPTS_MAX = len(DELAYS_MS) + 1
JITTER = 0.2
RETRY_AFTER_MS_MAX = 12 * 3_600_000
FAILING_MS_MAX = 3 * 86_400_000  # A webhook is disabled after failing for this long without a success.
KEPT_MS_MAX = 3 * 86_400_000  # How long a job waits for credits, or for its webhook to be enabled again.
# A webhook that fails gets one request, then rests: its receiver may be overloaded, and many that hang must not hold
# all places of a dispatcher. The rest grows with the time since its failures began.
REST_MS_MIN, REST_MS_MAX = 4_000, 60_000  # At least the shortest retry with its jitter, and a minute.
GONE_REASON = "the endpoint answered 410 Gone"
FAILING_REASON = "every delivery failed for 3 days"


@unique
class JobState(IntEnum):
    """Numbers are the database's; from DELIVERED on a job has ended."""

    WAITING = 0
    LEASED = 1
    DELIVERED = 2
    FAILED = 3
    EXPIRED = 4
    UNPAID = 5  # Delivered but not charged: the account has no credits.


STATUS_NAMES = {
    JobState.WAITING: "pending",
    JobState.LEASED: "pending",
    JobState.DELIVERED: "delivered",
    JobState.FAILED: "failed",
    JobState.EXPIRED: "expired",
    JobState.UNPAID: "delivered",
}


@dataclass(frozen=True, slots=True)
class Attempt:
    """Result of one request. http_status None: no answer came; error says why. retry_after: the header's text."""

    at_ms: int
    latency_ms: int
    http_status: int | None
    error: str = ""
    retry_after: str | None = None
    answer: bytes = b""

    @property
    def is_success(self) -> bool:
        return self.http_status is not None and 200 <= self.http_status < 300

    @property
    def result(self) -> str:
        """Return the result in one word, for metrics."""
        if self.http_status is None:
            return "refused" if self.error.startswith("refused by") else "no_answer"
        return f"{self.http_status // 100}xx" if 100 <= self.http_status < 600 else "other"


@dataclass(frozen=True, slots=True)
class AfterAttempt:
    """The job's next state, when it is due, and why its webhook must be disabled, if it must."""

    state: JobState
    due_ms: int
    disable: str | None = None


def decide(earlier_attempts: int, attempt: Attempt, failing_since_ms: int | None, jitter: float) -> AfterAttempt:
    """Decide after an attempt.

    earlier_attempts: of this job. failing_since_ms: when the webhook's failures began; None: its newest attempt was a
    success, or it had none. jitter: from -1 to 1. A Retry-After can only make the wait longer, up to 12 hours.
    """
    assert 0 <= earlier_attempts < ATTEMPTS_MAX and -1 <= jitter <= 1, (earlier_attempts, jitter)
    ended_ms = attempt.at_ms + attempt.latency_ms
    if attempt.is_success:
        return AfterAttempt(JobState.DELIVERED, ended_ms)
    disable = None
    if attempt.http_status == 410:
        disable = GONE_REASON
    elif failing_since_ms is not None and ended_ms - failing_since_ms >= FAILING_MS_MAX:
        disable = FAILING_REASON
    if earlier_attempts + 1 == ATTEMPTS_MAX:
        return AfterAttempt(JobState.FAILED, ended_ms, disable)
    delay_ms = int(DELAYS_MS[earlier_attempts] * (1 + JITTER * jitter))
    asked_ms = retry_after_ms(attempt.retry_after, ended_ms)
    return AfterAttempt(JobState.WAITING, ended_ms + max(delay_ms, asked_ms), disable)


def retry_after_ms(text: str | None, now_ms: int) -> int:
    """Return the wait that a Retry-After header asks for (seconds or a date): 0 if it is missing or malformed, 12 hours
    at most."""
    if text is None or len(text) > 64 or not text.isascii():
        return 0
    text = text.strip()
    if text.isdigit():
        return min(int(text[:12]) * 1_000, RETRY_AFTER_MS_MAX)
    try:
        asked_ms = int(parsedate_to_datetime(text).timestamp() * 1_000) - now_ms
    except (ValueError, TypeError, OverflowError, IndexError):
        return 0
    return max(0, min(asked_ms, RETRY_AFTER_MS_MAX))


def event_id(webhook_id: str, job: int) -> str:
    """The id of a delivery, the same for every retry and replay."""
    return f"evt_{webhook_id}_{job}"


def job_of(webhook_id: str, text: str) -> int | None:
    """Parse the job of an event id; None: it belongs to no event of this webhook."""
    prefix = f"evt_{webhook_id}_"
    number = text.removeprefix(prefix)
    if number == text or not number.isascii() or not number.isdigit() or len(number) > 18:
        return None
    return int(number)
