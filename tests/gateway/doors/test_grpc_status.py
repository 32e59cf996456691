"""Refusals as gRPC statuses."""

import pytest

from actors.errors import Err, Refusal
from actors.gateway.doors import grpc_status

HOW = "Send USDC to wallet W."


@pytest.mark.parametrize(
    ("err", "code", "says"),
    [
        (Err.AUTH_FAILED, 16, "x-token"),
        (Err.PAYMENT_REQUIRED, 8, HOW),
        (Err.INSUFFICIENT_CREDITS, 8, f"insufficient credits; {HOW}"),
        (Err.RATE_LIMITED, 8, "rate limit exceeded; try again after a second"),
        (Err.CONCURRENCY_LIMITED, 8, "concurrency limit exceeded"),
        (Err.METHOD_NOT_ALLOWED, 7, "suspended"),
        (Err.SERVICE_TEMPORARILY_UNAVAILABLE, 14, "service temporarily unavailable"),
        (Err.INTERNAL_ERROR, 13, "internal error"),
    ],
)
def test_the_text_says_what_the_user_must_do(err: Err, code: int, says: str) -> None:
    """Clients show little besides the text: the lack is named, and where money helps, how to pay."""
    found, text = grpc_status.explain(Refusal(err), HOW)
    assert found == code and says in text


def test_without_a_credential_the_text_says_how_to_get_one() -> None:
    """The gRPC form of the 402 terms; Yellowstone's own words come first, as clients match on them."""
    code, text = grpc_status.no_credentials(HOW)
    assert code == 16 and text.startswith("No valid auth token") and HOW in text and "x-token" in text
