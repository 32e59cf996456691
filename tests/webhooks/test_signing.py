"""Deliveries as their receivers check them: by the interface's own header, and by the library of Standard Webhooks."""

import hashlib
import hmac
import json

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from actors.webhooks.signing import delivery_headers, new_secret

SECRET, OTHER = new_secret(bytes(range(32))), new_secret(bytes(32))
BODY = json.dumps({"event": "transaction", "text": "ü €"}).encode()


def headers(previous: str | None = None, now: int | None = None) -> dict[str, str]:
    import time

    return delivery_headers(SECRET, previous, "wh_1", "evt_wh_1_5", now or int(time.time()), BODY)


def by_the_interface(secret: str, sent: dict[str, str], header: str) -> bool:
    signed = f"{sent['X-Webhook-Event-Id']}.{sent['X-Webhook-Timestamp']}.".encode() + BODY
    expected = "sha256=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected, sent[header])


def test_a_secret_is_32_bytes_in_base64() -> None:
    """Decisions, "webhook secret"."""
    assert SECRET == "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="


def test_the_interfaces_header_is_keyed_with_the_secrets_text() -> None:
    """Interface, "Webhook deliveries": over event id, timestamp and raw body."""
    sent = headers()
    assert by_the_interface(SECRET, sent, "X-Webhook-Signature")
    assert not by_the_interface(OTHER, sent, "X-Webhook-Signature")
    assert sent["X-Webhook-Id"] == "wh_1"
    assert "X-Webhook-Signature-Previous" not in sent


def test_standard_webhooks_verifies_us() -> None:
    """Decisions 3.7: an unmodified library; a changed body is refused."""
    assert Webhook(SECRET).verify(BODY, headers()) == json.loads(BODY)
    with pytest.raises(WebhookVerificationError):
        Webhook(OTHER).verify(BODY, headers())
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(BODY + b" ", headers())


def test_row_29_both_secrets_are_good_after_a_rotation() -> None:
    """Hostile input 29: a receiver with either secret verifies, by either scheme."""
    sent = headers(previous=OTHER)
    assert by_the_interface(SECRET, sent, "X-Webhook-Signature")
    assert by_the_interface(OTHER, sent, "X-Webhook-Signature-Previous")
    for secret in (SECRET, OTHER):
        assert Webhook(secret).verify(BODY, sent) == json.loads(BODY)
