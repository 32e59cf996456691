"""Signs deliveries: the interface's headers and those of Standard Webhooks, over the same bytes.

Implements: interface, "Webhook deliveries"; decisions, "webhook secret", "two signatures during a
rotation" and 3.7; threat 29. Pure.
"""

import base64
import hashlib
import hmac
from collections.abc import Sequence

SECRET_BYTES = 32
PREVIOUS_VALID_MS = 86_400_000  # After a rotation, the previous secret also signs for one day.
PREVIOUS_MAX = 3  # Earlier secrets that sign at the same time; a further rotation waits until the oldest has ended.
_PREFIX = "whsec_"


def new_secret(random: bytes) -> str:
    """The text of a secret, as it is shown once."""
    assert len(random) == SECRET_BYTES, len(random)
    return _PREFIX + base64.b64encode(random).decode()


def delivery_headers(
    secrets: Sequence[str], webhook_id: str, event_id: str, timestamp: int, body: bytes
) -> dict[str, str]:
    """Return all headers that authenticate a delivery.

    secrets: all that are valid, as they were shown, the newest first. timestamp: Unix seconds.
    The interface's signature is keyed with the secret's text, that of Standard Webhooks with the 32 bytes in it.
    """
    signed = f"{event_id}.{timestamp}.".encode() + body
    newest, *previous = (f"sha256={_by_text(each, signed)}" for each in secrets)
    headers = {
        "X-Webhook-Id": webhook_id,
        "X-Webhook-Event-Id": event_id,
        "X-Webhook-Timestamp": str(timestamp),
        "X-Webhook-Signature": newest,
        "webhook-id": event_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(f"v1,{_by_bytes(each, signed)}" for each in secrets),
    }
    if previous:
        headers["X-Webhook-Signature-Previous"] = ", ".join(previous)
    return headers


def _by_text(secret: str, signed: bytes) -> str:
    return hmac.digest(secret.encode(), signed, hashlib.sha256).hex()


def _by_bytes(secret: str, signed: bytes) -> str:
    key = base64.b64decode(secret.removeprefix(_PREFIX))
    return base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
