import pytest

from actors.calls import Figures
from actors.gateway.calls import headers


def figures_headers(remaining: int, now: int = 99) -> dict[bytes, bytes]:
    added: headers.HeaderList = []
    headers.add_figures(added, Figures(5_000, 100, 42, 100), remaining, now)
    assert len(dict(added)) == len(added)
    return dict(added)


def test_figures_are_said_in_both_dialects():
    """Interface, "Limits", and decisions, "rate limit shape"."""
    assert figures_headers(4_999) == {
        b"x-credits-remaining": b"4999",
        b"x-ratelimit-limit": b"100",
        b"x-ratelimit-remaining": b"42",
        b"x-ratelimit-reset": b"100",
        b"ratelimit-policy": b'"account";q=100;w=1',
        b"ratelimit": b'"account";r=42;t=1',
    }


@pytest.mark.parametrize(("remaining", "low"), [(0, True), (999, True), (1_000, False)])
def test_the_low_flag_is_set_below_a_thousand(remaining, low):
    """Interface: X-Credits-Low: true below 1,000 credits, and absent otherwise."""
    assert figures_headers(remaining).get(b"x-credits-low") == (b"true" if low else None)


def test_a_window_that_has_ended_resets_in_no_time():
    """A slow answer may leave after its window; seconds never go below zero."""
    assert figures_headers(1, now=500)[b"ratelimit"].endswith(b"t=0")


def test_retry_after_is_at_least_a_second():
    """Interface: Retry-After at least 1 s."""
    assert headers.retry_after(0) == (b"retry-after", b"1")


def test_browsers_may_send_and_read_every_header_of_the_interface():
    """x402 clients in browsers fail in the preflight otherwise."""
    allowed = dict(headers.PREFLIGHT)[b"access-control-allow-headers"].lower().decode().split(", ")
    exposed = dict(headers.CORS)[b"access-control-expose-headers"].lower().decode().split(", ")
    for name in ("x-api-key", "x-pubkey", "authorization", "payment-signature", "access-control-expose-headers"):
        assert name in allowed
    for name in ("payment-required", "x-credits-remaining", "x-ratelimit-reset", "x-request-id", "retry-after"):
        assert name in exposed
