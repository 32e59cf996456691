"""The error table against the interface's own."""

import pytest

from actors.errors import Err, Refusal

# Interface, "Proxy error codes": constant, code, HTTP status, whether and after how long to retry.
SPECIFIED = [
    ("INSUFFICIENT_CREDITS", -32010, 402, None),
    ("PAYMENT_REQUIRED", -32002, 402, None),
    ("RATE_LIMITED", -32005, 429, 1),
    ("CONCURRENCY_LIMITED", -32005, 429, 1),
    ("BACKEND_UNAVAILABLE", -32003, 502, 2),
    ("SERVICE_TEMPORARILY_UNAVAILABLE", -32003, 503, 5),
    ("METHOD_NOT_ALLOWED", -32001, 403, None),
    ("SERVICE_PROFILE_DISABLED", -32004, 200, None),
    ("NONCE_REUSED", None, 403, None),
    ("AUTH_FAILED", None, 401, None),
    ("INVALID_REQUEST", None, 400, None),
    ("METHOD_NOT_FOUND", -32601, 200, None),
    ("INVALID_PARAMS", -32602, 200, None),
    ("INTERNAL_ERROR", -32603, 200, 1),
]


@pytest.mark.parametrize(("constant", "code", "http", "retry_seconds"), SPECIFIED)
def test_each_specified_row_is_ours(constant: str, code: int | None, http: int, retry_seconds: int | None) -> None:
    """Clients are written against the interface's table."""
    row = Err[constant].row
    assert (row.code, row.http, row.retry_seconds) == (code, http, retry_seconds)


def test_messages_that_clients_tell_apart_are_exact() -> None:
    """One code, two meanings: the interface says that clients go by these words."""
    assert Err.RATE_LIMITED.row.message == "rate limit exceeded"
    assert Err.CONCURRENCY_LIMITED.row.message == "concurrency limit exceeded"
    assert Err.INSUFFICIENT_CREDITS.row.message == "insufficient credits"
    disabled = Err.SERVICE_PROFILE_DISABLED.row.message
    assert "service" in disabled or "profile" in disabled


def test_no_message_is_taken_for_an_upstream_error() -> None:
    """Interface: an answer of 200 with one of these words in it is the node's."""
    for err in Err:
        for words in ("unhealthy", "signature verification", "Block", "not available", "cleaned up"):
            assert words not in err.row.message


def test_rows_make_sense() -> None:
    """Every status is an HTTP status, and a retry is at least a second away."""
    for err in Err:
        assert err.row.http == 200 or 400 <= err.row.http <= 504
        assert err.row.retry_seconds is None or err.row.retry_seconds >= 1
        assert err.row.message


def test_a_refusal_carries_its_detail() -> None:
    """The fixed message stays in front, so that clients still find it."""
    assert Refusal(Err.INVALID_PARAMS).message == "invalid params"
    assert Refusal(Err.INVALID_PARAMS, "limit is above 100").message == "invalid params: limit is above 100"
    assert Refusal(Err.AUTH_FAILED) == Refusal(Err.AUTH_FAILED)
