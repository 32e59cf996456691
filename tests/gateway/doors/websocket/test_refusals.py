"""The close code and the reason of each refused handshake."""

import pytest

from actors.errors import Err, Refusal
from actors.gateway.doors.websocket.refusals import REASON_BYTES_MAX, close_of


@pytest.mark.parametrize(
    ("refusal", "is_token", "has_credential", "code", "says"),
    [
        (Refusal(Err.AUTH_FAILED), False, True, 4001, "auth_failed: the API key is not valid"),
        (Refusal(Err.AUTH_FAILED, "the signature is wrong"), False, True, 4001, "auth_failed: the signature is wrong"),
        (Refusal(Err.AUTH_FAILED), True, True, 1008, "policy_violation: the session is not valid; sign in again"),
        (Refusal(Err.NONCE_REUSED), False, True, 4001, "auth_failed: nonce already used; sign again"),
        (Refusal(Err.PAYMENT_REQUIRED), False, False, 4002, "insufficient_credits: no credential was sent; send"),
        (Refusal(Err.PAYMENT_REQUIRED), False, True, 4002, "insufficient_credits: this wallet has no account; deposit"),
        (Refusal(Err.INSUFFICIENT_CREDITS), False, True, 4002, "insufficient_credits: deposit USDC, then connect"),
        (Refusal(Err.KEY_BUDGET_EXCEEDED), False, True, 4002, "key_budget_exceeded: "),
        (Refusal(Err.HOURLY_LIMIT_EXCEEDED), False, True, 4002, "hourly_limit_exceeded: "),
        (Refusal(Err.METHOD_NOT_ALLOWED, "it is suspended"), False, True, 1008, "policy_violation: it is suspended"),
    ],
)
def test_a_refusal_that_connecting_again_does_not_mend_has_a_close_code(
    refusal: Refusal, is_token: bool, has_credential: bool, code: int, says: str
) -> None:
    """And its reason names the remedy, in as few bytes as a close frame holds."""
    for detailed in (refusal, Refusal(refusal.err, f"{refusal.detail}, and ü" * 20)):
        end = close_of(detailed, is_token, has_credential)
        assert end is not None and end[0] == code and len(end[1].encode()) <= REASON_BYTES_MAX
    end = close_of(refusal, is_token, has_credential)
    assert end is not None and end[1].startswith(says)


@pytest.mark.parametrize(
    "err", [Err.RATE_LIMITED, Err.CONCURRENCY_LIMITED, Err.SERVICE_TEMPORARILY_UNAVAILABLE, Err.INVALID_REQUEST]
)
def test_a_refusal_that_passes_or_is_no_websocket_keeps_its_http_status(err: Err) -> None:
    assert close_of(Refusal(err), False, True) is None
