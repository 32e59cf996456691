"""Deliveries are verified as the service signs them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.webhooks import signing
from ledger_gateway.webhooks import TOLERANCE_SECONDS, WebhookInvalid, verify

NOW = 1_900_000_000
BODY = b'{"event":"low_balance"}'
SECRETS = st.binary(min_size=32, max_size=32).map(signing.new_secret)


@given(secret=SECRETS, previous=st.lists(SECRETS, max_size=3), late=st.integers(-TOLERANCE_SECONDS, TOLERANCE_SECONDS))
def test_the_services_own_deliveries_are_good(secret: str, previous: list[str], late: int) -> None:
    """Either header set alone is enough, with the new secret and, after rotations, with each previous one."""
    headers = signing.delivery_headers([secret, *previous], "wh_1", "evt_1", NOW, BODY)
    for prefix in ("X-Webhook-Signature", "webhook-signature"):
        one_scheme = {k: v for k, v in headers.items() if "ignature" not in k or k.startswith(prefix)}
        for known in (secret, *previous):
            found = verify(one_scheme, BODY, known, NOW + late)
            assert (found.event_id, found.webhook_id, found.event) == ("evt_1", "wh_1", {"event": "low_balance"})


@given(
    secret=SECRETS,
    change=st.sampled_from(["body", "event", "time", "secret", "late", "early", "unsigned"]),
    byte=st.integers(0, len(BODY) - 1),
)
def test_anything_else_is_refused(secret: str, change: str, byte: int) -> None:
    """A changed body, id or time, another secret, an old delivery, none at all."""
    headers = signing.delivery_headers([secret], "wh_1", "evt_1", NOW, BODY)
    body, known, now = BODY, secret, NOW
    match change:
        case "body":
            body = BODY[:byte] + bytes([BODY[byte] ^ 1]) + BODY[byte + 1 :]
        case "event":
            headers["X-Webhook-Event-Id"] = "evt_2"
        case "time":
            headers["X-Webhook-Timestamp"] = str(NOW + 1)
        case "secret":
            known = signing.new_secret(bytes(32)) if secret != signing.new_secret(bytes(32)) else "whsec_x"
        case "late" | "early":
            now += (TOLERANCE_SECONDS + 1) * (1 if change == "late" else -1)
        case "unsigned":
            headers = {k: v for k, v in headers.items() if "ignature" not in k}
    with pytest.raises(WebhookInvalid):
        verify(headers, body, known, now)


@given(headers=st.dictionaries(st.sampled_from(["X-Webhook-Signature", "webhook-signature", "webhook-id"]), st.text()))
def test_hostile_headers_are_refused_and_break_nothing(headers: dict[str, str]) -> None:
    for secret in ("whsec_!!", "", "schlüssel"):
        with pytest.raises(WebhookInvalid):
            verify({**headers, "X-Webhook-Timestamp": str(NOW)}, BODY, secret, NOW)
