from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.webhooks.core import (
    ATTEMPTS_MAX,
    DELAYS_MS,
    FAILING_MS_MAX,
    RETRY_AFTER_MS_MAX,
    Attempt,
    JobState,
    decide,
    event_id,
    job_of,
    retry_after_ms,
)

NOW = 1_700_000_000_000


def attempt(http_status: int | None, retry_after: str | None = None) -> Attempt:
    return Attempt(NOW, 0, http_status, "", retry_after)


def test_the_schedule_is_the_published_one() -> None:
    """Decisions, "webhook retries": at once, then 5 s, 30 s, 2 min, 10 min, 1 h, 4 h, 12 h; then it has failed."""
    waits = [decide(made, attempt(500), None, 0).due_ms - NOW for made in range(ATTEMPTS_MAX)]
    assert waits == [5_000, 30_000, 120_000, 600_000, 3_600_000, 14_400_000, 43_200_000, 0]
    states = [decide(made, attempt(500), None, 0).state for made in range(ATTEMPTS_MAX)]
    assert states == [JobState.WAITING] * 7 + [JobState.FAILED]


@given(made=st.integers(0, 6), jitter=st.floats(-1, 1))
def test_jitter_is_a_fifth_either_way(made: int, jitter: float) -> None:
    """Decisions, "webhook retries"."""
    wait = decide(made, attempt(None), None, jitter).due_ms - NOW
    assert 0.8 * DELAYS_MS[made] - 1 <= wait <= 1.2 * DELAYS_MS[made]


@pytest.mark.parametrize("status", [100, 199, 300, 302, 307, 400, 404, 429, 500, 503, 599, None])
def test_only_2xx_is_a_success(status: int | None) -> None:
    """Redirects are not followed, so they are failures (threat 26)."""
    assert decide(0, attempt(status), None, 0).state is JobState.WAITING
    assert decide(0, attempt(204), None, 0).state is JobState.DELIVERED


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        *((None, 0), ("-5", 0), ("", 0), ("soon", 0), ("1.5", 0), ("٣", 0), ("1e9", 0), ("x" * 999, 0)),
        *(("0", 0), ("7", 7_000), (" 60 ", 60_000), ("99999999", RETRY_AFTER_MS_MAX), ("9" * 60, RETRY_AFTER_MS_MAX)),
        (formatdate(NOW / 1000 + 90, usegmt=True), 90_000),
        (formatdate(NOW / 1000 - 90, usegmt=True), 0),
        (formatdate(NOW / 1000 + 10**8, usegmt=True), RETRY_AFTER_MS_MAX),
        ("Fri, 31 Dec 99999 23:59:59 GMT", 0),
    ],
)
@pytest.mark.threat(27)
def test_retry_after_is_clamped(text: str | None, expected_ms: int) -> None:
    """Threat 27: `-5`, `99999999` and dates; at most 12 hours."""
    assert retry_after_ms(text, NOW) == expected_ms


@pytest.mark.threat(27)
def test_retry_after_only_lengthens_a_wait() -> None:
    """A receiver cannot make us hammer it."""
    assert decide(2, attempt(429, "1"), None, 0).due_ms == NOW + DELAYS_MS[2]
    assert decide(0, attempt(429, "3600"), None, 0).due_ms == NOW + 3_600_000


@pytest.mark.threat(27)
def test_410_and_three_days_of_failure_disable() -> None:
    """Threat 27, decisions: with the reason on the record; a success in between would have ended the streak."""
    gone = decide(0, attempt(410), None, 0)
    assert gone.disable is not None and "410" in gone.disable
    assert decide(0, attempt(500), NOW - FAILING_MS_MAX + 1, 0).disable is None
    too_long = decide(0, attempt(500), NOW - FAILING_MS_MAX, 0).disable
    assert too_long is not None and "3 days" in too_long
    assert decide(0, attempt(200), NOW - FAILING_MS_MAX, 0).disable is None


def test_event_ids_name_their_job() -> None:
    """Interface: `evt_{webhook_id}_{job_id}`, the same across retries and replays."""
    assert event_id("wh_ab", 12) == "evt_wh_ab_12"
    assert job_of("wh_ab", "evt_wh_ab_12") == 12
    for other in (
        "evt_wh_a_12",
        "evt_wh_ab_",
        "evt_wh_ab_x",
        "evt_wh_ab_-1",
        "12",
        "evt_wh_ab_" + "9" * 19,
        "evt_wh_ab_٣",
    ):
        assert job_of("wh_ab", other) is None
