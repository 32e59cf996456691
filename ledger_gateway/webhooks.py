"""Checking that a webhook's delivery is the gateway's own.

Implements: interface, "Webhook deliveries"; decisions, "two signatures during a rotation"; Standard Webhooks. Pure: the
time is an argument.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

TOLERANCE_SECONDS = 300
_PREFIX = "whsec_"
_SIGNATURES_MAX = 8  # Of one header: the service sends three previous ones at most.


class WebhookInvalid(Exception):
    """The delivery is not the gateway's, or too old. Answer it with 400."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """event_id: the same for every retry and replay; ignore one that you have."""

    event_id: str
    webhook_id: str | None
    timestamp: int
    event: Any


def verify(
    headers: Mapping[str, str], body: bytes, secret: str, now: float, tolerance_seconds: int = TOLERANCE_SECONDS
) -> Delivery:
    """Check one delivery and return it. Raises WebhookInvalid.

    headers: of the request, names in any case. body: the raw bytes. secret: as shown at creation. now: Unix seconds.
    Both schemes count: X-Webhook-Signature, those of the previous secrets after a rotation, and webhook-signature of
    Standard Webhooks. Compared in constant time.
    """
    found = {name.lower(): value for name, value in headers.items()}
    event_id = found.get("x-webhook-event-id") or found.get("webhook-id", "")
    stamp = found.get("x-webhook-timestamp") or found.get("webhook-timestamp", "")
    if not event_id or not (stamp.isascii() and stamp.isdigit() and len(stamp) <= 12):
        raise WebhookInvalid("no event id or no timestamp")
    if abs(now - int(stamp)) > tolerance_seconds:
        raise WebhookInvalid(f"the timestamp is more than {tolerance_seconds} seconds off")
    signed = f"{event_id}.{stamp}.".encode() + body
    if not _is_ours(found, signed, secret):
        raise WebhookInvalid("no signature of this secret")
    try:
        event = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, ValueError):
        raise WebhookInvalid("the body is not JSON") from None
    return Delivery(event_id, found.get("x-webhook-id"), int(stamp), event)


def _is_ours(headers: Mapping[str, str], signed: bytes, secret: str) -> bool:
    own = "sha256=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
    previous = headers.get("x-webhook-signature-previous", "").split(",")[:_SIGNATURES_MAX]
    given = [headers.get("x-webhook-signature", ""), *previous]
    matches = [hmac.compare_digest(own.encode(), signature.strip().encode()) for signature in given]
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        return any(matches)
    standard = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    parts = headers.get("webhook-signature", "").split(" ")[:_SIGNATURES_MAX]
    return any(matches + [hmac.compare_digest(standard.encode(), part.encode()) for part in parts])
