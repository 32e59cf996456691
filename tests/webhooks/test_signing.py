"""Deliveries as their receivers check them: by the interface's own header, and by the library of Standard Webhooks."""

import hashlib
import hmac
import json
import time

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from actors.webhooks.signing import delivery_headers, new_secret

SECRET, OTHER, OLDEST = new_secret(bytes(range(32))), new_secret(bytes(32)), new_secret(b"o" * 32)
BODY = json.dumps({"event": "transaction", "text": "ü €"}).encode()


def headers(*previous: str) -> dict[str, str]:
    return delivery_headers([SECRET, *previous], "wh_1", "evt_wh_1_5", int(time.time()), BODY)


def by_the_interface(secret: str, sent: dict[str, str], header: str, place: int = 0) -> bool:
    signed = f"{sent['X-Webhook-Event-Id']}.{sent['X-Webhook-Timestamp']}.".encode() + BODY
    expected = "sha256=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected, sent[header].split(", ")[place])


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
    """Decisions, "webhook secret": an unmodified library; a changed body is refused."""
    assert Webhook(SECRET).verify(BODY, headers()) == json.loads(BODY)
    with pytest.raises(WebhookVerificationError):
        Webhook(OTHER).verify(BODY, headers())
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(BODY + b" ", headers())


@pytest.mark.threat(29)
def test_every_valid_secret_is_good_after_rotations() -> None:
    """Threat 29: a receiver with any of them verifies, by either scheme; one rotation is the decided form."""
    sent = headers(OTHER)
    assert by_the_interface(SECRET, sent, "X-Webhook-Signature")
    assert by_the_interface(OTHER, sent, "X-Webhook-Signature-Previous")
    assert "," not in sent["X-Webhook-Signature-Previous"]
    sent = headers(OTHER, OLDEST)
    assert by_the_interface(SECRET, sent, "X-Webhook-Signature") and "," not in sent["X-Webhook-Signature"]
    assert by_the_interface(OTHER, sent, "X-Webhook-Signature-Previous")
    assert by_the_interface(OLDEST, sent, "X-Webhook-Signature-Previous", 1)
    for secret in (SECRET, OTHER, OLDEST):
        assert Webhook(secret).verify(BODY, sent) == json.loads(BODY)
